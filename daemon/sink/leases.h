/*
 * Loans: which slots are lent to which readers with shared memory, so that they take results where the device has written them.
 *
 * A loan begins with a completion in the reader's control memory and ends when the reader moves its cursor past it, or leaves.
 * Until then the slot is not the session's. What always holds:
 *   - under `block` a lent result stays in the queue, so that it goes to the next reader if this one leaves without taking it;
 *   - under `drop` it is set aside as soon as no other reader is on it, so that those behind it go on. The session always keeps
 *     a slot to work with, and a reader that holds one for too long while it is wanted has to go.
 * A sink with readers has one session, so that a slot is known by its index. All of it runs on the sink's lane.
 */
#ifndef FRAMED_SINK_LEASES_H
#define FRAMED_SINK_LEASES_H

#include "daemon/sink/results.h"

struct lease {
  struct slot *slot; /* NULL: it has ended without the reader */
  unsigned index;    /* of the slot */
  unsigned ticks;    /* for which it was the oldest, and wanted */
};

/* A reader's side of its loans; it is freed with the reader. */
struct shared_reader {
  struct native_control *control;
  unsigned memory;           /* which of the session's it sees */
  uint32_t completed, taken; /* cursors: loans begun, and ended */
  struct lease leases[NATIVE_RING];
  bool asleep;       /* it was told to ring */
  bool ring_pending; /* it sleeps, and could not be rung for */
  bool readable;
  int64_t active; /* when a loan last began or ended */
};

/* Whether the slot of a result is lent to anybody. */
static inline bool leases_has(const struct sink *sink, const struct result *result) {
  return sink->leases.holders[result->slot->index] > 0;
}

/* The reader's next loan, of the result that it is on. */
void leases_begin(struct reader *reader, const struct result *result);
/* The reader's oldest loan is over: it is done with the result (`taken`), or left. */
void leases_end(struct sink *sink, struct reader *reader, bool taken, int64_t now);
/* The reader leaves: its loans end. */
void leases_leave(struct sink *sink, struct reader *reader, int64_t now);
/* Every loan ends, and results that were set aside get this fate, if they are open. */
void leases_discard(struct sink *sink, enum fate fate, int64_t now);
/* [no lane runs] What was set aside is in the queue again, before all else, as it goes over an upgrade. */
void leases_recall(struct sink *sink);

#endif
