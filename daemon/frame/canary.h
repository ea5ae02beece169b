/*
 * A canary: a tiny frame of the daemon's own that goes through a device and back, on a stream of its own and outside every
 * ledger, to show that the device works while no real frame does.
 *
 * It has memory, a program and a thread of its own, all made at set-up; whoever sends it never waits. The thread copies
 * something new in each time and compares what comes out. A canary that comes back wrong, or not in time, declares the device
 * dead; no other canary follows.
 */
#ifndef FRAMED_FRAME_CANARY_H
#define FRAMED_FRAME_CANARY_H

#include <stdatomic.h>

#include "daemon/base/failure.h"
#include "daemon/device/device.h"

struct canary;

struct canary_setup {
  struct device *device; /* outlives the canary */
  unsigned number;       /* of the device */
  /* When a frame last came back from it, CLOCK_MONOTONIC ns: a canary may have to wait behind frames. */
  const _Atomic int64_t *completion;
};

/* Makes it and sends it once. For a set-up thread; blocks. NULL on error. */
struct canary *canary_new(const struct canary_setup *setup, struct failure *failure);
/* Ends the thread; one that is inside a call that does not return is waited for. NULL is fine; returns NULL. */
struct canary *canary_free(struct canary *canary);

/* [control loop] Sends it, unless it is under way. It has failed if it takes longer than `patience_ns`. */
void canary_send(struct canary *canary, int64_t patience_ns);

/* [control loop] The device has another worker: one that has failed can be sent again. */
void canary_revive(struct canary *canary);

struct canary_view {
  bool under_way;
  int64_t sent;        /* when it last went, */
  int64_t returned;    /* and when it last came back as it should */
  int64_t round_trip;  /* how long that took, in ns */
  const char *failure; /* a sentence about the one that has failed, or NULL */
};

/* From any thread. */
void canary_read(const struct canary *canary, struct canary_view *view);

#endif
