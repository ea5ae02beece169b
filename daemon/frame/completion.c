#include "daemon/frame/completion.h"

#include <stdio.h>

/* A frame may wait behind those of others, but not for ever: a kernel that hangs can leave room for theirs. */
enum { OTHERS_EXCUSE = 5 };

static void record_times(struct road *road, struct slot *slot, int64_t now) {
  struct histogram *steps = road->account->steps;
  struct gpu_times times;
  if (!gpu_times(road->program, slot->index, &times)) {
    return;
  }
  slot->frame.device = times;
  histogram_record(&steps[STEP_GPU_WAIT],
                   times.wait + (times.begin > slot->frame.dispatched ? times.begin - slot->frame.dispatched : 0));
  histogram_record(&steps[STEP_H2D], times.h2d);
  histogram_record(&steps[STEP_KERNEL], times.kernel);
  histogram_record(&steps[STEP_D2H], times.d2h);
  histogram_record(&steps[STEP_WAKE], now - times.copied_out);
}

static void complete(struct road *road, struct slot *slot, int64_t now) {
  struct session_view *view = &road->account->now;
  slot->frame.seen = now;
  if (slot->frame.suspect) {
    slot->frame.suspect = false;
    if (road->trial) { /* else this process was to end, and could not */
      trial_pass(road->trial, true);
    }
  }
  record_times(road, slot, now);
  slot_move(&road->ring, slot, SLOT_DONE);
  view->completed++;
  view->last_completion = now;
  if (view->submitted == view->completed) {
    view->busy += now - view->busy_since;
    view->busy_since = 0;
  }
  road->active = now;
  road->armed = false;
}

static enum gpu_progress ask(struct road *road, const struct slot *slot) {
  road_enter_device(road);
  enum gpu_progress progress = gpu_ask(road->program, slot->index, &road->device_error);
  road_leave_device(road);
  return progress;
}

static enum gpu_progress progress(struct road *road, const struct slot *slot) {
  return road->spin ? ask(road, slot) : gpu_told(road->program, slot->index);
}

bool completion_turn(struct road *road) {
  bool moved = false;
  struct slot *slot = slot_oldest(&road->ring, SLOT_RUNNING);
  while (slot && !road->device_dead) {
    enum gpu_progress state = progress(road, slot);
    if (state == GPU_DEAD) {
      road->device_dead = true;
    }
    if (state != GPU_DONE) {
      break;
    }
    complete(road, slot, clock_now());
    moved = true;
    slot = road->spin ? NULL : slot_oldest(&road->ring, SLOT_RUNNING);
  }
  return moved;
}

static void say_hang(struct road *road, const char *what, int64_t waited_ns) {
  road->device_dead = true;
  road->device_error = (struct gpu_error){.stage = -1};
  snprintf(road->device_error.text, sizeof road->device_error.text, "%s for %.3g s: a kernel hangs", what,
           (double)waited_ns / 1e9);
  snprintf(road->device_error.remedy, sizeof road->device_error.remedy,
           "if the stages may really take that long, raise gpu.timeout");
}

void completion_check(struct road *road, int64_t device_completion, int64_t timeout_ns, int64_t now) {
  struct slot *slot = slot_oldest(&road->ring, SLOT_RUNNING);
  if (!slot || road->device_dead) {
    return;
  }
  /* That a frame is done is not taken from here: its callback may still be on its way. */
  enum gpu_progress state = ask(road, slot);
  if (state == GPU_DEAD) {
    road->device_dead = true;
    return;
  }
  int64_t own = road->account->now.last_completion;
  int64_t last = device_completion > own ? device_completion : own;
  if (state == GPU_PENDING && now - last > timeout_ns) {
    say_hang(road, "no completion", timeout_ns);
  } else if (state == GPU_PENDING && now - own > OTHERS_EXCUSE * timeout_ns) {
    say_hang(road, "only others' completions", OTHERS_EXCUSE * timeout_ns);
  }
}

unsigned completion_fail(struct road *road, int64_t now) {
  unsigned failed = 0;
  for (struct slot *slot = slot_oldest(&road->ring, SLOT_RUNNING); slot; slot = slot_oldest(&road->ring, SLOT_RUNNING)) {
    account_settle(road->account, &slot->frame, FATE_GPU_FAULT, now);
    slot_move(&road->ring, slot, SLOT_FAILED);
    failed++;
  }
  return failed;
}

bool completion_arm(struct road *road) {
  struct slot *slot = slot_oldest(&road->ring, SLOT_RUNNING);
  if (!slot || road->armed || road->device_dead) {
    return true;
  }
  road_enter_device(road);
  bool armed = gpu_arm(road->program, slot->index, &road->device_error);
  road_leave_device(road);
  if (!armed) {
    road->device_dead = true;
    return false;
  }
  road->armed = true;
  return false;
}
