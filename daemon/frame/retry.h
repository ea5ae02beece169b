/*
 * A retry: after a device has failed, the frames that were on it run again one at a time, so that a frame that makes it fail is
 * found out. Until all have passed, nothing else runs on that device.
 *
 * It is shared by the sessions of one device. Their lanes are made known before they start, and outlive every session, which
 * may be gone by the end of a retry; from then on lanes only change its counters.
 */
#ifndef FRAMED_FRAME_RETRY_H
#define FRAMED_FRAME_RETRY_H

#include "daemon/base/lane.h"

enum { RETRY_LIMIT = 2 }; /* a frame that was alone on the device this many times when it failed is not run again */

struct retry { /* all zero: nobody is suspected */
  atomic_uint suspects;
  atomic_bool busy;    /* one of them is on the device */
  struct lane **lanes; /* whose sessions are woken when one of them has passed */
  unsigned count;
};

/* A session on that lane takes part, with so many suspected frames. Before any lane starts; false if there is no memory. */
bool retry_join(struct retry *retry, struct lane *lane, unsigned suspects);
/* After the lanes. */
void retry_clear(struct retry *retry);

/* [lane] Whether a frame may go to the device now. If not, its session will be woken. */
bool retry_admits(struct retry *retry, bool suspect);
/* [lane] Everybody has passed; stays so. */
bool retry_is_over(struct retry *retry);
/* [any thread] A suspected frame is on the device, which nothing else is: it alone is to blame for what happens there now. */
bool retry_is_on(const struct retry *retry);
/* [lane] A suspected frame came back from the device, or (not `ran`) will never go there. */
void retry_pass(struct retry *retry, bool ran);

#endif
