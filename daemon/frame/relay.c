#include "daemon/frame/relay.h"

#include <assert.h>

/* What an item on the way back says of the slot with its index. */
enum { SETTLED, RELEASED, WORDS };

static_assert(RING_PLACES >= WORDS * GPU_MAX_SLOTS, "the way back needs a place for every word of every slot");

void handoff_init(struct handoff *handoff, struct road *road) {
  handoff->road = road;
  road->handoff = handoff;
}

/* -- the session's lane ------------------------------------------------------------------------------------------- */

void handoff_offer(struct handoff *handoff, struct slot *slot) {
  assert(slot->state == SLOT_EMITTING && slot->frame.open);
  handoff->parcels[slot->index] = (struct parcel){.slot = slot, .frame = slot->frame};
  slot->frame.open = false;
  ring_push(&handoff->there, slot->index);
}

void handoff_restore(struct handoff *handoff, struct slot *slot, const struct frame *frame) {
  handoff->parcels[slot->index] = (struct parcel){.slot = slot, .frame = *frame, .fate = frame->fate};
  slot->owed = frame->open;
}

bool handoff_collect(struct handoff *handoff) {
  unsigned item;
  bool any = false;
  while (ring_pop(&handoff->back, &item)) {
    struct parcel *parcel = &handoff->parcels[item / WORDS];
    if (item % WORDS == SETTLED) {
      parcel->slot->owed = false;
      road_settle(handoff->road, &parcel->frame, parcel->fate, parcel->at);
    } else {
      road_take_back(handoff->road, parcel->slot, parcel->fate);
    }
    any = true;
  }
  return any;
}

bool handoff_may_wait(struct handoff *handoff) { return ring_may_sleep(&handoff->back); }

void handoff_order(struct handoff *handoff) { atomic_fetch_add(&handoff->orders, 1); }

bool handoff_has_obeyed(const struct handoff *handoff) { return atomic_load(&handoff->orders) == 0; }

/* -- the sink's lane ---------------------------------------------------------------------------------------------- */

bool handoff_take(struct handoff *handoff, struct slot **slot, struct frame *frame) {
  unsigned index;
  if (!ring_pop(&handoff->there, &index)) {
    return false;
  }
  *slot = handoff->parcels[index].slot;
  *frame = handoff->parcels[index].frame;
  return true;
}

void handoff_settle(struct handoff *handoff, const struct slot *slot, enum fate fate, int64_t now) {
  handoff->parcels[slot->index].fate = fate;
  handoff->parcels[slot->index].at = now;
  ring_push(&handoff->back, slot->index * WORDS + SETTLED);
}

void handoff_release(struct handoff *handoff, const struct slot *slot) {
  ring_push(&handoff->back, slot->index * WORDS + RELEASED);
}

void handoff_obeyed(struct handoff *handoff) {
  atomic_fetch_sub(&handoff->orders, 1);
  lane_wake(handoff->back.lane, handoff->back.runner);
}

bool handoff_may_rest(struct handoff *handoff) { return ring_may_sleep(&handoff->there); }
