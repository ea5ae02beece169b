#include "daemon/session/emit.h"

#include "daemon/sink/results.h"

bool emit_turn(struct road *road, struct sink *sink) {
  bool moved = false;
  for (struct slot *slot = road_offer(road); slot; slot = road_offer(road)) {
    sink_offer(sink, road, slot);
    moved = true;
  }
  return moved;
}
