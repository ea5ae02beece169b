/*
 * A ring between two lanes with one producer and one consumer. It never waits or allocates, and makes no system call while both
 * are busy.
 *
 * The consumer sleeps only after spsc_may_sleep(), which sets a flag and then checks the ring once more. The producer checks
 * the flag after it pushed. So an item is never left to a sleeping lane.
 */
#ifndef FRAMED_BASE_SPSC_H
#define FRAMED_BASE_SPSC_H

#include "daemon/base/lane.h"
#include "gpu/gpu.h"

enum { RING_PLACES = 2 * GPU_MAX_SLOTS, RING_APART = 64 /* bytes: keeps what two lanes write on separate cache lines */ };

struct spsc {
  struct lane *lane;     /* lane of the consumer */
  struct runner *runner; /* gets a turn when an item comes while it sleeps */
  unsigned items[RING_PLACES];
  char apart_pushed[RING_APART];
  _Atomic unsigned pushed; /* count since the start; may wrap around */
  char apart_popped[RING_APART];
  _Atomic unsigned popped;
  atomic_bool asleep;
};

void spsc_init(struct spsc *ring, struct lane *lane, struct runner *runner);
/* [producer] At most RING_PLACES items may be in the ring. Earlier writes are visible to the lane that pops the item. */
void spsc_push(struct spsc *ring, unsigned item);
/* [consumer] Returns false if the ring is empty. */
bool spsc_pop(struct spsc *ring, unsigned *item);
/* [consumer] Returns false if there is an item. After true the next push schedules the runner. */
bool spsc_may_sleep(struct spsc *ring);

#endif
