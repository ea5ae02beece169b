/*
 * How frames get onto the device, and where they wait instead.
 *
 * Problem. A frame that was submitted cannot be taken back: a stream runs its work in order. So a frame that waits on the
 * device can no longer be dropped as too old, nor replaced by a newer one. A device without queued work, on the other hand,
 * idles between two frames.
 *
 * Idea. `depth` limits the slots that are past READY (flow_depth()). All frames beyond that wait READY, in the order in which
 * they came. The limit depends on what may happen to a waiting frame:
 *
 *   overload: block          all slots; with a deadline all but one
 *   overload: drop-newest    the same
 *   overload: drop-oldest    all but two: one frame waits, one slot is filled
 *
 * Invariants.
 * - Frames are submitted in order, and completion.c takes them back in that order.
 * - A frame is RUNNING before the call that submits it. If that call fails, the device may have the frame all the same.
 * - Fates that are set here: `late` for a deadline that has passed, `oldest` for a frame that a newer one replaced.
 * - A frame that runs once more after a fault is never replaced by a newer one, because it was accepted before.
 *
 * Dispatch also waits for others. After a fault it waits for a new worker of the device (`device_awaited`) and for the turn of
 * a suspected frame (retry.h). During a reload it waits for the new program (`held_back`).
 */
#include "daemon/frame/dispatch.h"

/* 0: the frame has no deadline. */
static int64_t deadline_of(const struct flow *flow, const struct frame *frame) {
  return frame->deadline != 0 ? frame->deadline : flow->deadline_ns > 0 ? frame->began + flow->deadline_ns : 0;
}

/* A recorded frame is late if it was late when it was recorded: time spent waiting here does not count. So each replay drops
 * the same frames. */
static bool dispatch_is_late(const struct flow *flow, const struct frame *frame, int64_t now) {
  const int64_t deadline = deadline_of(flow, frame);
  return deadline != 0 && (frame->recorded ? frame->complete : now) > deadline;
}

static void dispatch_submit(struct flow *flow, struct slot *slot, int64_t now) {
  bool restart = slot->frame.restart || flow->restart_pending;
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
    view->last_completion = now; /* the device was idle, so its timeout starts now */
    view->busy_since = now;
  }
  flow->restart_pending = false;
  slot->frame.restart = restart;
  /* the frame may have arrived after `now` was read */
  slot->frame.dispatched = now > slot->frame.complete ? now : slot->frame.complete;
  slot->frame.stream = slot->index;
  slot->frame.stages = flow->stages;
  slot_move(&flow->ring, slot, SLOT_RUNNING);
  if (frame.again) { /* frames that came later may be RUNNING on other devices */
    slot_ring_order(&flow->ring);
  }
  view->submitted++;
  histogram_record(&flow->account->steps[STEP_QUEUE], slot->frame.dispatched - slot->frame.complete);
  flow->device_awaited = !device_submit(flow->program, slot->index, &frame, NULL); /* the frame is taken back with the others */
}

/* The dropped frame may be the first of its producer. Then stages reset their state with the next frame. */
static void dispatch_drop(struct flow *flow, struct slot *slot, enum fate fate, int64_t now) {
  flow->restart_pending |= slot->frame.restart;
  flow_drop(flow, slot, fate, now);
}

/* With drop-oldest only the newest frame may wait. The others are dropped, so that a slot is free to fill. */
static bool drop_overtaken(struct flow *flow, int64_t now) {
  bool moved = false;
  while (slot_count(&flow->ring, SLOT_READY) > 1 && !slot_oldest(&flow->ring, SLOT_READY)->frame.again) {
    dispatch_drop(flow, slot_oldest(&flow->ring, SLOT_READY), FATE_OLDEST, now);
    moved = true;
  }
  return moved;
}

/* During a retry, asks whether this frame may run now. Returns false if its turn comes later. */
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
  while ((slot = slot_oldest(&flow->ring, SLOT_READY)) && flow_taken(flow) < flow->depth && !flow->device_awaited &&
         !flow->held_back) {
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
