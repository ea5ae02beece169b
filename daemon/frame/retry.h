/*
 * A retry: after a device failed, the frames that were on it run again one at a time. So the frame that makes the device fail
 * is found. Until all of them passed, the sessions on that device run nothing else. A frame beside the suspected one would be
 * lost with the worker, or be taken for the culprit. Sessions on other devices continue.
 *
 * After a fault that a new image of the daemon took over, all sessions on all devices take part.
 *
 * All sessions share one retry. It learns their lanes before these start. A session may be gone before the retry ends, but its
 * lane is not. Once lanes run, they change only the counters.
 */
#ifndef FRAMED_FRAME_RETRY_H
#define FRAMED_FRAME_RETRY_H

#include "daemon/base/lane.h"
#include "daemon/frame/slot.h"

enum { RETRY_LIMIT = 2 }; /* a frame is dropped after its device failed this many times while it ran alone */

struct retry { /* all zero: no frame is suspected */
  atomic_uint suspects;
  atomic_bool busy;    /* a suspected frame is on its device */
  struct lane **lanes; /* sessions on these lanes are woken when a suspected frame passed */
  unsigned count;
};

/* [no lane runs] The frame was on a lost device and will run again. If the device `failed` the frame is suspected; `alone`
 * counts that failure against it. */
void retry_suspect(struct frame *frame, bool failed, bool alone);
/* [no lane runs] Clears the counters before sessions join again. */
void retry_restart(struct retry *retry);
/* Adds the suspected frames of a session on that lane. Call before any lane starts. Returns false without memory. */
bool retry_join(struct retry *retry, struct lane *lane, const struct slot_ring *ring);
/* Call after the lanes ended. */
void retry_clear(struct retry *retry);

/* [lane] True if a frame may go to its device now. Otherwise its session is woken later. */
bool retry_admits(struct retry *retry, bool suspect);
/* [lane] True once all frames passed; never false again after that. */
bool retry_is_over(struct retry *retry);
/* [any thread] True while a suspected frame is alone on its device, so that a failure now is its fault. */
bool retry_is_on(const struct retry *retry);
/* [lane] A suspected frame came back from its device, or (not `ran`) was dropped before it got there. */
void retry_pass(struct retry *retry, bool ran);

#endif
