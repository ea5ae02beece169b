#include "daemon/frame/relay.h"

#include <assert.h>

/* What an item on the way back says of the slot with its index. */
enum { SETTLED, RELEASED, WORDS };

static_assert(RING_PLACES >= WORDS * GPU_MAX_SLOTS, "the way back needs a place for every word of every slot");

void relay_init(struct relay *relay, struct flow *flow) {
  relay->flow = flow;
  flow->relay = relay;
}

/* -- the session's lane ------------------------------------------------------------------------------------------- */

void relay_offer(struct relay *relay, struct slot *slot) {
  assert(slot->state == SLOT_EMITTING && slot->frame.open);
  relay->slots[slot->index] = (struct relayed){.slot = slot, .frame = slot->frame};
  slot->frame.open = false;
  spsc_push(&relay->there, slot->index);
}

void relay_restore(struct relay *relay, struct slot *slot, const struct frame *frame) {
  relay->slots[slot->index] = (struct relayed){.slot = slot, .frame = *frame, .fate = frame->fate};
  slot->owed = frame->open;
}

bool relay_collect(struct relay *relay) {
  unsigned item;
  bool any = false;
  while (spsc_pop(&relay->back, &item)) {
    struct relayed *relayed = &relay->slots[item / WORDS];
    if (item % WORDS == SETTLED) {
      relayed->slot->owed = false;
      flow_settle(relay->flow, &relayed->frame, relayed->fate, relayed->at);
    } else {
      flow_take_back(relay->flow, relayed->slot, relayed->fate);
    }
    any = true;
  }
  return any;
}

bool relay_may_wait(struct relay *relay) { return spsc_may_sleep(&relay->back); }

void relay_order(struct relay *relay) { atomic_fetch_add(&relay->orders, 1); }

bool relay_has_obeyed(const struct relay *relay) { return atomic_load(&relay->orders) == 0; }

/* -- the sink's lane ---------------------------------------------------------------------------------------------- */

bool relay_take(struct relay *relay, struct slot **slot, struct frame *frame) {
  unsigned index;
  if (!spsc_pop(&relay->there, &index)) {
    return false;
  }
  *slot = relay->slots[index].slot;
  *frame = relay->slots[index].frame;
  return true;
}

void relay_settle(struct relay *relay, const struct slot *slot, enum fate fate, int64_t now) {
  relay->slots[slot->index].fate = fate;
  relay->slots[slot->index].at = now;
  spsc_push(&relay->back, slot->index * WORDS + SETTLED);
}

void relay_release(struct relay *relay, const struct slot *slot) { spsc_push(&relay->back, slot->index * WORDS + RELEASED); }

void relay_obeyed(struct relay *relay) {
  atomic_fetch_sub(&relay->orders, 1);
  lane_wake(relay->back.lane, relay->back.runner);
}

bool relay_may_rest(struct relay *relay) { return spsc_may_sleep(&relay->there); }
