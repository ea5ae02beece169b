#include "daemon/frame/dispatch.h"

static bool is_late(const struct road *road, const struct frame *frame, int64_t now) {
  if (frame->deadline != 0) {
    return now > frame->deadline;
  }
  return road->deadline_ns > 0 && now - frame->began > road->deadline_ns;
}

static void submit(struct road *road, struct slot *slot, int64_t now) {
  bool restart = slot->frame.restart || road->restart_owed;
  struct gpu_frame frame = {
      .sequence = slot->frame.sequence,
      .restart = restart,
      .again = slot->frame.again,
      .notify = !road->spin,
      .timed = account_is_traced(road->account),
  };
  struct session_view *view = &road->account->now;
  if (view->submitted == view->completed) {
    view->last_completion = now; /* the device had nothing to do until now */
    view->busy_since = now;
  }
  road->restart_owed = false;
  slot->frame.restart = restart;
  slot->frame.dispatched = now > slot->frame.complete ? now : slot->frame.complete; /* it came after this turn began */
  slot->frame.stream = slot->index;
  slot_move(&road->ring, slot, SLOT_RUNNING);
  view->submitted++;
  histogram_record(&road->account->steps[STEP_QUEUE], slot->frame.dispatched - slot->frame.complete);
  road_enter_device(road);
  bool submitted = gpu_submit(road->program, slot->index, &frame, &road->device_error);
  road_leave_device(road);
  if (!submitted) {
    road->device_dead = true; /* this frame is running, too, as far as anybody may know */
  }
}

/* The first frame of a producer may be dropped; the state of stages then starts anew with the first that is not. */
static void drop(struct road *road, struct slot *slot, enum fate fate, int64_t now) {
  road->restart_owed |= slot->frame.restart;
  road_drop(road, slot, fate, now);
}

/* Under drop-oldest one frame waits at most: the newest. That also leaves a slot to fill. */
static bool drop_overtaken(struct road *road, int64_t now) {
  bool moved = false;
  while (road->overload == CONFIG_OVERLOAD_DROP_OLDEST && slot_count(&road->ring, SLOT_READY) > 1 &&
         !slot_oldest(&road->ring, SLOT_READY)->frame.again) {
    drop(road, slot_oldest(&road->ring, SLOT_READY), FATE_OLDEST, now);
    moved = true;
  }
  return moved;
}

/* False: a trial is under way, and this frame's turn comes later. */
static bool is_admitted(struct road *road, const struct slot *slot) {
  if (road->trial && trial_is_over(road->trial)) {
    road->trial = NULL;
  }
  return !road->trial || trial_admits(road->trial, slot->frame.suspect);
}

bool dispatch_turn(struct road *road, int64_t now) {
  bool moved = false;
  while (slot_count(&road->ring, SLOT_READY) > 0 && road_taken(road) < road->depth && !road->device_dead) {
    struct slot *slot = slot_oldest(&road->ring, SLOT_READY);
    if (is_late(road, &slot->frame, now)) {
      drop(road, slot, FATE_LATE, now);
    } else if (!is_admitted(road, slot)) {
      break;
    } else {
      submit(road, slot, now);
    }
    moved = true;
  }
  return drop_overtaken(road, now) || moved;
}
