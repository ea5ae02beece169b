#include "daemon/emit.h"

#include "daemon/sink_results.h"

bool emit_turn(struct road *road, struct sink *sink) {
  bool moved = false;
  for (struct slot *slot = slot_oldest(&road->ring, SLOT_DONE); slot; slot = slot_oldest(&road->ring, SLOT_DONE)) {
    slot_move(&road->ring, slot, SLOT_EMITTING);
    sink_offer(sink, road, slot);
    moved = true;
  }
  return moved;
}
