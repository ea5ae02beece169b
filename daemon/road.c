#include "daemon/road.h"

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
  slot_move(&road->ring, slot, SLOT_FREE);
}

void road_settle(struct road *road, struct frame *frame, enum fate fate, int64_t now) {
  if (fate == FATE_EMITTED) {
    road->account->now.ledger.out_bytes += road->output_bytes;
  }
  account_settle(road->account, frame, fate, now);
  road->at_sink--;
  road->active = now;
}

void road_take_back(struct road *road, struct slot *slot) { slot_move(&road->ring, slot, SLOT_FREE); }

unsigned road_in_flight(const struct road *road) {
  unsigned open = road->at_sink;
  for (unsigned i = 0; i < road->ring.count; i++) {
    open += road->ring.slots[i].frame.open ? 1 : 0;
  }
  return open;
}
