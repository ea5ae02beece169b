/*
 * A canary: a tiny frame of the daemon's own, which goes through a device and back while no real frame does. It shows that the
 * device works. It has its own stream and is not counted in any ledger.
 *
 * Its memory, program and thread are made during set-up, so the sender never waits. For each canary the thread writes new input
 * and compares the output. If the output is wrong or late, the canary abandons the device, and no other canary follows.
 */
#ifndef FRAMED_FRAME_CANARY_H
#define FRAMED_FRAME_CANARY_H

#include <stdatomic.h>

#include "daemon/base/failure.h"
#include "daemon/device/device.h"

struct canary;

struct canary_setup {
  struct device *device; /* outlives the canary */
  unsigned number;       /* number of the device */
  /* CLOCK_MONOTONIC ns of the last completion there. A canary may have to wait behind frames. */
  const _Atomic int64_t *completion;
};

/* Makes the canary and sends it once. Blocks, so call it on a set-up thread. NULL on error. */
struct canary *canary_new(const struct canary_setup *setup, struct failure *failure);
/* Ends the thread. Waits until the thread returns from a device call. Accepts NULL; returns NULL. */
struct canary *canary_free(struct canary *canary);

/* [control loop] Sends the canary unless it is under way. It fails if it takes longer than `patience_ns`. */
void canary_send(struct canary *canary, int64_t patience_ns);

/* [control loop] The device has a new worker: a canary that failed can be sent again. */
void canary_revive(struct canary *canary);

struct canary_view {
  bool under_way;
  int64_t sent;        /* when it was last sent */
  int64_t returned;    /* when it last came back correctly */
  int64_t round_trip;  /* ns that this took */
  const char *failure; /* the reason of the failure, or NULL */
};

/* [any thread] */
void canary_read(const struct canary *canary, struct canary_view *view);

#endif
