/*
 * Leases: slots that shared-memory readers hold, so that they read results from the memory to which the device wrote them.
 *
 * Problem. A reader that maps the outputs needs no copy, but holds a slot of the session for as long as it likes. It may also
 * die, or write nonsense to its cursor.
 *
 * Idea. A lease begins with a completion in the reader's control memory. It ends when the reader moves its `taken` cursor past
 * that completion, or leaves. Until then the session cannot use the slot. Cursors and leases are kept here; the reader's cursor
 * is copied and checked (shared.c).
 *
 * Invariants.
 * - Under `block` a leased result stays in the queue. If this reader leaves without consuming it, the next reader gets it.
 * - Under `drop` a leased result is set aside once no other reader needs it, so that the queue can advance.
 * - Under `drop` the session always keeps a slot to work with (may_lease()). A reader that holds a needed slot for more than
 *   HOLD_TICKS is disconnected.
 * - A sink with readers has one session, so the index of a slot identifies it.
 * - All of this runs on the sink's lane.
 */
#ifndef FRAMED_SINK_LEASES_H
#define FRAMED_SINK_LEASES_H

#include "daemon/sink/results.h"

struct lease {
  struct slot *slot; /* NULL: the sink ended the lease early */
  unsigned index;    /* of the slot */
  unsigned ticks;    /* ticks during which it was the oldest, and needed */
};

/* The shared-memory part of a reader, freed with the reader. */
struct shared_reader {
  struct native_control *control;
  unsigned memory;           /* generation of the session's memory that it maps */
  uint32_t completed, taken; /* cursors: leases begun and ended */
  struct lease leases[NATIVE_RING];
  bool asleep;       /* it was asked to ring the doorbell */
  bool ring_pending; /* it sleeps, and its doorbell could not be rung */
  bool readable;
  int64_t active; /* when a lease last began or ended */
};

/* True if some reader holds the slot of the result. */
static inline bool leases_has(const struct sink *sink, const struct result *result) {
  return sink->leases.holders[result->slot->index] > 0;
}

/* Leases its current result to the reader. */
void leases_begin(struct reader *reader, const struct result *result);
/* Ends the reader's oldest lease: it consumed the result (`taken`), or left. */
void leases_end(struct sink *sink, struct reader *reader, bool taken, int64_t now);
/* The reader leaves: ends its leases. */
void leases_leave(struct sink *sink, struct reader *reader, int64_t now);
/* Ends all leases. Results that were set aside get this fate if they have none. */
void leases_discard(struct sink *sink, enum fate fate, int64_t now);
/* [no lane runs] Before an upgrade: moves results that were set aside back to the front of the queue. */
void leases_recall(struct sink *sink);

#endif
