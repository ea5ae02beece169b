#include "daemon/frame/dispatch.h"

/* 0: none. */
static int64_t deadline_of(const struct flow *flow, const struct frame *frame) {
  return frame->deadline != 0 ? frame->deadline : flow->deadline_ns > 0 ? frame->began + flow->deadline_ns : 0;
}

/* Of a recorded frame, how long it waits here or on the device does not count: the same ones are late whenever it is replayed.
 */
static bool dispatch_is_late(const struct flow *flow, const struct frame *frame, int64_t now) {
  const int64_t deadline = deadline_of(flow, frame);
  return deadline != 0 && (frame->recorded ? frame->complete : now) > deadline;
}

static void dispatch_submit(struct flow *flow, struct slot *slot, int64_t now) {
  bool restart = slot->frame.restart || flow->restart_owed;
  struct gpu_frame frame = {
      .sequence = slot->frame.sequence,
      .restart = restart,
      .again = slot->frame.again,
      .notify = !flow->spin,
      .timed = account_is_traced(flow->account),
      .deadline = slot->frame.recorded ? 0 : deadline_of(flow, &slot->frame),
  };
  struct session_view *view = &flow->account->now;
  if (view->submitted == view->completed) {
    view->last_completion = now; /* the device had nothing to do until now */
    view->busy_since = now;
  }
  flow->restart_owed = false;
  slot->frame.restart = restart;
  slot->frame.dispatched = now > slot->frame.complete ? now : slot->frame.complete; /* it came after this turn began */
  slot->frame.stream = slot->index;
  slot->frame.stages = flow->stages;
  slot_move(&flow->ring, slot, SLOT_RUNNING);
  if (frame.again) { /* younger ones may be on other devices */
    slot_ring_order(&flow->ring);
  }
  view->submitted++;
  histogram_record(&flow->account->steps[STEP_QUEUE], slot->frame.dispatched - slot->frame.complete);
  flow_enter_device(flow);
  bool submitted = device_submit(flow->program, slot->index, &frame, &flow->device_error);
  flow_leave_device(flow);
  if (!submitted) {
    flow_lose_device(flow, slot); /* this frame is running, too, as far as anybody may know */
  }
}

/* The first frame of a producer may be dropped; the state of stages then starts anew with the first that is not. */
static void dispatch_drop(struct flow *flow, struct slot *slot, enum fate fate, int64_t now) {
  flow->restart_owed |= slot->frame.restart;
  flow_drop(flow, slot, fate, now);
}

/* Under drop-oldest one frame waits at most: the newest. That also leaves a slot to fill. */
static bool drop_overtaken(struct flow *flow, int64_t now) {
  bool moved = false;
  while (slot_count(&flow->ring, SLOT_READY) > 1 && !slot_oldest(&flow->ring, SLOT_READY)->frame.again) {
    dispatch_drop(flow, slot_oldest(&flow->ring, SLOT_READY), FATE_OLDEST, now);
    moved = true;
  }
  return moved;
}

/* While frames are tried again after a fault. False: this frame's turn comes later. */
static bool is_admitted(struct flow *flow, const struct slot *slot) {
  if (retry_is_over(flow->retry)) {
    flow->retry = NULL;
    return true;
  }
  return retry_admits(flow->retry, slot->frame.suspect);
}

bool dispatch_turn(struct flow *flow, int64_t now) {
  bool moved = false;
  flow->device_awaited = flow->device_awaited && !device_serves(flow->program);
  struct slot *slot;
  while ((slot = slot_oldest(&flow->ring, SLOT_READY)) && flow_taken(flow) < flow->depth && !flow->device_dead &&
         !flow->device_awaited && !flow->held_back) {
    if (dispatch_is_late(flow, &slot->frame, now)) {
      dispatch_drop(flow, slot, FATE_LATE, now);
    } else if (flow->retry && !is_admitted(flow, slot)) {
      break;
    } else {
      dispatch_submit(flow, slot, now);
    }
    moved = true;
  }
  return (flow->overload == CONFIG_OVERLOAD_DROP_OLDEST && drop_overtaken(flow, now)) || moved;
}
