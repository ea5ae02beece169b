#include "daemon/session/emit.h"

#include "daemon/sink/results.h"

bool emit_turn(struct flow *flow, struct sink *sink) {
  bool moved = false;
  for (struct slot *slot = flow_offer(flow); slot; slot = flow_offer(flow)) {
    sink_offer(sink, flow, slot);
    moved = true;
  }
  return moved;
}
