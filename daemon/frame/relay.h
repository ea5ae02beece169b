/*
 * A relay joins a session with a sink that lives on another lane.
 *
 * One thread that both reads and writes large frames carries half of what two do, so results may be written where nothing
 * is read. Slots stay the session's: it offers them in EMITTING, and learns over the way back that a frame has its fate and
 * that a slot's memory is no longer needed. Ring, account and slots are only written on the session's lane; between offer
 * and way back the sink's lane reads the slot's output and its frame, to which nobody writes meanwhile. A frame is in flight
 * until its fate is collected, so that the ledger balances at every instant.
 */
#ifndef FRAMED_FRAME_RELAY_H
#define FRAMED_FRAME_RELAY_H

#include "daemon/base/spsc.h"
#include "daemon/frame/flow.h"

struct relay {
  struct flow *flow;
  struct relay_fate { /* by the sink's lane, of the slot with this index; whose turn it is to look follows from the rings */
    enum fate fate;
    int64_t at;
  } fates[GPU_MAX_SLOTS];
  struct spsc there, back;
  atomic_uint orders; /* of the session to the sink, and not carried out yet */
};

/* Makes the flow offer its results to the relay. Before either lane knows of them. */
void relay_init(struct relay *relay, struct flow *flow);

/* -- [session's lane] ------------------------------------------------------------------------------------------- */

/* The sink has this slot already, since before this process, and its frame may have this fate. Before the lanes start. */
void relay_restore(struct relay *relay, const struct slot *slot, enum fate fate);
/* Hands over a slot in EMITTING. */
void relay_offer(struct relay *relay, const struct slot *slot);
/* Takes in fates and slots that came back; true if there were any. */
bool relay_collect(struct relay *relay);
/* Whether the session may go without a turn until the next one comes back. */
bool relay_may_wait(struct relay *relay);

/* An order goes to the sink's lane. It is on its way until the sink has obeyed. */
void relay_order(struct relay *relay);
bool relay_orders_done(const struct relay *relay);

/* -- [sink's lane] ---------------------------------------------------------------------------------------------- */

/* The next slot; NULL: none now. */
struct slot *relay_take(struct relay *relay);
/* The frame in the slot has its fate: once. */
void relay_settle(struct relay *relay, const struct slot *slot, enum fate fate, int64_t now);
/* The slot's memory is no longer needed: once, after its frame's fate. */
void relay_release(struct relay *relay, const struct slot *slot);
/* An order is carried out, which gives the session a turn. */
void relay_order_done(struct relay *relay);
/* Whether the sink may go without a turn until the next offer. */
bool relay_may_rest(struct relay *relay);

#endif
