#include "daemon/frame/flow.h"

unsigned road_depth(enum config_overload overload, unsigned slots, bool has_deadline) {
  unsigned kept_back = 0;
  if (overload == CONFIG_OVERLOAD_DROP_OLDEST) {
    kept_back = 2; /* one waits, one fills */
  } else if (has_deadline) {
    kept_back = 1;
  }
  return slots > kept_back ? slots - kept_back : 1;
}

void road_drop(struct road *road, struct slot *slot, enum fate fate, int64_t now) {
  account_settle(road->account, &slot->frame, fate, now);
  road->unnoted = true;
  if (slot->frame.suspect && road->trial) {
    slot->frame.suspect = false;
    trial_pass(road->trial, false);
  }
  slot_move(&road->ring, slot, SLOT_FREE);
}

/* Sequences count every frame that came in, from 0 for each producer. */
struct slot *road_offer(struct road *road) {
  struct slot *slot = slot_oldest(&road->ring, SLOT_DONE);
  if (slot) {
    struct frame *frame = &slot->frame;
    frame->missing = frame->sequence - (road->offered_producer == frame->producer ? road->offered_sequence + 1 : 0);
    road->offered_producer = frame->producer;
    road->offered_sequence = frame->sequence;
    slot_move(&road->ring, slot, SLOT_EMITTING);
  }
  return slot;
}

void road_settle(struct road *road, struct frame *frame, enum fate fate, int64_t now) {
  if (fate == FATE_EMITTED) {
    road->account->now.ledger.out_bytes += road->output_bytes;
  }
  account_settle(road->account, frame, fate, now);
  road->at_sink--;
  road->active = now;
}

void road_take_back(struct road *road, struct slot *slot, enum fate fate) {
  slot->frame.fate = fate;
  slot_move(&road->ring, slot, SLOT_FREE);
}

unsigned road_in_flight(const struct road *road) {
  unsigned open = road->at_sink;
  for (unsigned i = 0; i < road->ring.count; i++) {
    open += road->ring.slots[i].frame.open ? 1 : 0;
  }
  return open;
}
