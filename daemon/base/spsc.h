/*
 * A ring between two lanes: one pushes, one pops, nobody waits, nothing is allocated, and a busy pair makes no system call.
 *
 * The popping lane sleeps only after spsc_may_sleep(), which says that it sleeps and then looks once more; whoever pushes
 * looks for a sleeper once the item is there. So nothing is ever left before a lane that sleeps.
 */
#ifndef FRAMED_BASE_SPSC_H
#define FRAMED_BASE_SPSC_H

#include "daemon/base/lane.h"
#include "gpu/gpu.h"

enum { RING_PLACES = 2 * GPU_MAX_SLOTS, RING_APART = 64 /* bytes: what two lanes write is on cache lines of their own */ };

struct spsc {
  struct lane *lane;     /* of whoever pops, */
  struct runner *runner; /* which has a turn once it slept and something came */
  unsigned items[RING_PLACES];
  char apart_pushed[RING_APART];
  _Atomic unsigned pushed; /* ever; it may wrap around */
  char apart_popped[RING_APART];
  _Atomic unsigned popped;
  atomic_bool asleep;
};

void spsc_init(struct spsc *ring, struct lane *lane, struct runner *runner);
/* [pushing lane] There must be a place: at most RING_PLACES items may be under way. What was written before is seen by
 * whoever pops the item. */
void spsc_push(struct spsc *ring, unsigned item);
/* [popping lane] False: it is empty. */
bool spsc_pop(struct spsc *ring, unsigned *item);
/* [popping lane] False: there is something to pop. True: the next push asks for a turn of the runner. */
bool spsc_may_sleep(struct spsc *ring);

#endif
