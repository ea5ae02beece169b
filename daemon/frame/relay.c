#include "daemon/frame/relay.h"

#include <assert.h>

/* Kinds of report on the way back. An item is slot index * WORDS + kind. */
enum { SETTLED, RELEASED, WORDS };

static_assert(RING_PLACES >= WORDS * GPU_MAX_SLOTS, "the way back needs a place for every word of every slot");

void relay_init(struct relay *relay, struct flow *flow) {
  relay->flow = flow;
  flow->relay = relay;
}

/* -- the session's lane ------------------------------------------------------------------------------------------- */

void relay_offer(struct relay *relay, const struct slot *slot) {
  assert(slot->state == SLOT_EMITTING);
  spsc_push(&relay->there, slot->index);
}

void relay_restore(struct relay *relay, const struct slot *slot, enum fate fate) { relay->fates[slot->index].fate = fate; }

bool relay_collect(struct relay *relay) {
  unsigned item;
  bool any = false;
  while (spsc_pop(&relay->back, &item)) {
    struct slot *slot = &relay->flow->ring.slots[item / WORDS];
    const struct relay_fate *settled = &relay->fates[item / WORDS];
    if (item % WORDS == SETTLED) {
      account_begin(relay->flow->account, settled->fate);
      slot->awaits_fate = false;
      flow_settle(relay->flow, &slot->frame, settled->fate, settled->at);
    } else {
      flow_release(relay->flow, slot, settled->fate);
    }
    any = true;
  }
  return any;
}

bool relay_may_wait(struct relay *relay) { return spsc_may_sleep(&relay->back); }

void relay_order(struct relay *relay) { atomic_fetch_add(&relay->orders, 1); }

bool relay_orders_done(const struct relay *relay) { return atomic_load(&relay->orders) == 0; }

/* -- the sink's lane ---------------------------------------------------------------------------------------------- */

struct slot *relay_take(struct relay *relay) {
  unsigned index;
  return spsc_pop(&relay->there, &index) ? &relay->flow->ring.slots[index] : NULL;
}

void relay_settle(struct relay *relay, const struct slot *slot, enum fate fate, int64_t now) {
  relay->fates[slot->index] = (struct relay_fate){.fate = fate, .at = now};
  spsc_push(&relay->back, slot->index * WORDS + SETTLED);
}

void relay_release(struct relay *relay, const struct slot *slot) { spsc_push(&relay->back, slot->index * WORDS + RELEASED); }

void relay_order_done(struct relay *relay) {
  atomic_fetch_sub(&relay->orders, 1);
  lane_wake(relay->back.lane, relay->back.runner);
}

bool relay_may_rest(struct relay *relay) { return spsc_may_sleep(&relay->there); }
