/*
 * A retry: after a device has failed, the frames that may have done it run again one at a time, so that the one that makes a
 * device fail is found. Until all have passed, the sessions on that device run nothing else: a frame beside the suspected one
 * would be lost with the worker, or be taken for it. Sessions on other devices go on.
 *
 * Where another image of the program went on after a fault, all sessions take part, on all devices.
 *
 * All sessions share one retry. Their lanes are made known before they start, and outlive every session, which may be gone by
 * the end of a retry; from then on lanes only change its counters.
 */
#ifndef FRAMED_FRAME_RETRY_H
#define FRAMED_FRAME_RETRY_H

#include "daemon/base/lane.h"
#include "daemon/frame/slot.h"

enum { RETRY_LIMIT = 2 }; /* a frame that was alone on its device this many times when it failed is not run again */

struct retry { /* all zero: nobody is suspected */
  atomic_uint suspects;
  atomic_bool busy;    /* one of them is on its device */
  struct lane **lanes; /* whose sessions are woken when one of them has passed */
  unsigned count;
};

/* [no lane runs] The frame was on a device that is lost, and will run again; if that has `failed` it is suspected, `alone` if
 * no other was there. */
void retry_suspect(struct frame *frame, bool failed, bool alone);
/* [no lane runs] Nobody is suspected so far: before sessions join once more. */
void retry_restart(struct retry *retry);
/* A session on that lane takes part, with its suspected frames. Before any lane starts; false if there is no memory. */
bool retry_join(struct retry *retry, struct lane *lane, const struct slot_ring *ring);
/* After the lanes. */
void retry_clear(struct retry *retry);

/* [lane] Whether a frame may go to its device now. If not, its session will be woken. */
bool retry_admits(struct retry *retry, bool suspect);
/* [lane] Everybody has passed; stays so. */
bool retry_is_over(struct retry *retry);
/* [any thread] A suspected frame is on its device, and none on any other: it alone is to blame for what happens now. */
bool retry_is_on(const struct retry *retry);
/* [lane] A suspected frame came back from its device, or (not `ran`) will never go there. */
void retry_pass(struct retry *retry, bool ran);

#endif
