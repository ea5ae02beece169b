/*
 * A relay joins a session with a sink on another lane.
 *
 * A thread that both reads and writes large frames carries half of what two threads do, so results may be written by another
 * lane. The session keeps its slots: it offers them in EMITTING. The sink's lane reports that a frame has its fate, and that it
 * no longer needs the memory of a slot. Only the session's lane writes ring, account and slots. From the offer to the report
 * the sink's lane reads the slot's output and frame, and nobody writes them. A frame is in flight until its fate is collected,
 * so that the ledger always balances.
 */
#ifndef FRAMED_FRAME_RELAY_H
#define FRAMED_FRAME_RELAY_H

#include "daemon/base/spsc.h"
#include "daemon/frame/flow.h"

struct relay {
  struct flow *flow;
  struct relay_fate { /* written by the sink's lane, by slot index; the rings say when the session may read */
    enum fate fate;
    int64_t at;
  } fates[GPU_MAX_SLOTS];
  struct spsc there, back;
  atomic_uint orders; /* orders of the session that the sink has not carried out */
};

/* The flow offers its results to the relay from now on. Call before either lane knows them. */
void relay_init(struct relay *relay, struct flow *flow);

/* -- [session's lane] ------------------------------------------------------------------------------------------- */

/* After a takeover: the sink has this slot already, and its frame may have this fate. Call before the lanes start. */
void relay_restore(struct relay *relay, const struct slot *slot, enum fate fate);
/* Hands over a slot in EMITTING. */
void relay_offer(struct relay *relay, const struct slot *slot);
/* Processes fates and slots that came back. Returns true if there were any. */
bool relay_collect(struct relay *relay);
/* True if the session may sleep until the next one comes back. */
bool relay_may_wait(struct relay *relay);

/* Counts an order to the sink's lane as outstanding, until the sink calls relay_order_done(). */
void relay_order(struct relay *relay);
bool relay_orders_done(const struct relay *relay);

/* -- [sink's lane] ---------------------------------------------------------------------------------------------- */

/* The next slot; NULL: none now. */
struct slot *relay_take(struct relay *relay);
/* Reports the fate of the frame in the slot. Call once. */
void relay_settle(struct relay *relay, const struct slot *slot, enum fate fate, int64_t now);
/* Returns the memory of the slot. Call once, after relay_settle(). */
void relay_release(struct relay *relay, const struct slot *slot);
/* An order is carried out. The session gets a turn. */
void relay_order_done(struct relay *relay);
/* True if the sink may sleep until the next offer. */
bool relay_may_rest(struct relay *relay);

#endif
