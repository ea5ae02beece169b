/*
 * The hand-off: what joins a session with a sink that lives on another lane.
 *
 * One thread that both reads and writes large frames carries half of what two do, so results may be written where nothing
 * is read. Slots stay the session's: it offers them in EMITTING, and learns over the way back that a frame has its fate and
 * that a slot's memory is no longer needed. Ring, account and slots are only touched on the session's lane; between offer
 * and way back the sink's lane reads the slot's output and nothing else of it. A frame is in flight until its fate is
 * collected, so that the ledger balances at every instant.
 */
#ifndef FRAMED_FRAME_RELAY_H
#define FRAMED_FRAME_RELAY_H

#include "daemon/base/spsc.h"
#include "daemon/frame/flow.h"

struct parcel { /* one slot under way; whose lane it is follows from the rings */
  struct slot *slot;
  struct frame frame;
  enum fate fate; /* once settled, */
  int64_t at;     /* at this time */
};

struct handoff {
  struct road *road;
  struct parcel parcels[GPU_MAX_SLOTS]; /* by the slot's index */
  struct ring there, back;
  atomic_uint orders; /* of the session to the sink, and not carried out yet */
};

/* Makes the road hand its results over. Before either lane knows of it. */
void handoff_init(struct handoff *handoff, struct road *road);

/* -- [session's lane] ------------------------------------------------------------------------------------------- */

/* The sink has this slot already, since before this process; its frame may have its fate. Before the lanes start. */
void handoff_restore(struct handoff *handoff, struct slot *slot, const struct frame *frame);
/* Hands over a slot in EMITTING with its open frame. */
void handoff_offer(struct handoff *handoff, struct slot *slot);
/* Takes in fates and slots that came back; true if there were any. */
bool handoff_collect(struct handoff *handoff);
/* Whether the session may go without a turn until the next one comes back. */
bool handoff_may_wait(struct handoff *handoff);

/* An order goes to the sink's lane. It is on its way until the sink has obeyed. */
void handoff_order(struct handoff *handoff);
bool handoff_has_obeyed(const struct handoff *handoff);

/* -- [sink's lane] ---------------------------------------------------------------------------------------------- */

/* The next slot and its frame; false: none now. */
bool handoff_take(struct handoff *handoff, struct slot **slot, struct frame *frame);
/* The frame in the slot has its fate: once. */
void handoff_settle(struct handoff *handoff, const struct slot *slot, enum fate fate, int64_t now);
/* The slot's memory is no longer needed: once, after its frame's fate. */
void handoff_release(struct handoff *handoff, const struct slot *slot);
/* One order is carried out, which gives the session a turn. */
void handoff_obeyed(struct handoff *handoff);
/* Whether the sink may go without a turn until the next offer. */
bool handoff_may_rest(struct handoff *handoff);

#endif
