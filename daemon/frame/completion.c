#include "daemon/frame/completion.h"

#include <stdio.h>

/* A frame may wait behind those of others, but not for ever: a kernel that hangs can leave room for theirs. */
enum { OTHERS_EXCUSE = 5 };

static void record_times(struct flow *flow, struct slot *slot, int64_t now) {
  struct histogram *steps = flow->account->steps;
  struct gpu_times *times = &slot->frame.device;
  if (!device_times(flow->program, slot->index, times)) {
    return;
  }
  histogram_record(&steps[STEP_GPU_WAIT],
                   times->wait + times->others +
                       (times->begin > slot->frame.dispatched ? times->begin - slot->frame.dispatched : 0));
  histogram_record(&steps[STEP_H2D], times->h2d);
  histogram_record(&steps[STEP_KERNEL], times->kernel - times->others);
  if (times->instance > 0) {
    histogram_record(&steps[STEP_MODEL], times->model);
  }
  histogram_record(&steps[STEP_D2H], times->d2h);
  histogram_record(&steps[STEP_WAKE], now - times->copied_out);
}

static void complete(struct flow *flow, struct slot *slot, int64_t now) {
  struct session_view *view = &flow->account->now;
  slot->frame.seen = now;
  if (slot->frame.suspect) {
    slot->frame.suspect = false;
    if (flow->retry) { /* else this process was to end, and could not */
      retry_pass(flow->retry, true);
    }
  }
  const char *refusal = device_refusal(flow->program, slot->index);
  if (device_late(flow->program, slot->index)) {
    flow_drop(flow, slot, FATE_LATE, now);
  } else if (refusal) { /* the result of a frame that a stage could not compute is none */
    flow->refused = true;
    flow->refused_frame = frame_name(&slot->frame);
    snprintf(flow->refusal, sizeof flow->refusal, "%s", refusal);
    flow_drop(flow, slot, FATE_INVALID, now);
  } else {
    record_times(flow, slot, now);
    slot_move(&flow->ring, slot, SLOT_DONE);
  }
  view->completed++;
  view->last_completion = now;
  if (view->submitted == view->completed) {
    view->busy += now - view->busy_since;
    view->busy_since = 0;
  }
  atomic_store_explicit(flow_device(flow, slot)->completion, now, memory_order_relaxed);
  flow->active = now;
}

/* A frame that runs again is to leave before those that came after it and were on other devices. */
static bool is_overtaken(const struct flow *flow, const struct slot *slot) {
  const struct slot *ready = slot_oldest(&flow->ring, SLOT_READY);
  return ready && ready->frame.again && slot_is_older(ready, slot);
}

bool completion_turn(struct flow *flow) {
  bool moved = false;
  struct slot *slot = slot_oldest(&flow->ring, SLOT_RUNNING);
  while (slot && !flow->device_dead && !is_overtaken(flow, slot)) {
    enum gpu_progress state = device_ask(flow->program, slot->index, &flow->device_error);
    if (state == GPU_DEAD) {
      flow_lose_device(flow, slot);
    }
    if (state != GPU_DONE) {
      break;
    }
    complete(flow, slot, clock_now());
    moved = true;
    slot = slot_oldest(&flow->ring, SLOT_RUNNING);
  }
  return moved;
}

static void say_hang(struct flow *flow, const struct slot *slot, const char *what, int64_t waited_ns) {
  flow_lose_device(flow, slot);
  flow->device_error = (struct gpu_error){.stage = -1};
  snprintf(flow->device_error.text, sizeof flow->device_error.text, "%s for %.3g s: a kernel hangs", what,
           (double)waited_ns / 1e9);
  snprintf(flow->device_error.remedy, sizeof flow->device_error.remedy,
           "if the stages may really take that long, raise gpu.timeout");
}

bool completion_check(struct flow *flow, int64_t timeout_ns, int64_t now) {
  struct slot *slot = slot_oldest(&flow->ring, SLOT_RUNNING);
  if (!slot || flow->device_dead) {
    return false;
  }
  enum gpu_progress state = device_ask(flow->program, slot->index, &flow->device_error);
  if (state == GPU_DEAD) {
    flow_lose_device(flow, slot);
    return false;
  }
  int64_t own = flow->account->now.last_completion;
  int64_t others = atomic_load_explicit(flow_device(flow, slot)->completion, memory_order_relaxed);
  int64_t last = others > own ? others : own;
  if (state == GPU_PENDING && now - last > timeout_ns) {
    say_hang(flow, slot, "no completion", timeout_ns);
  } else if (state == GPU_PENDING && now - own > OTHERS_EXCUSE * timeout_ns) {
    say_hang(flow, slot, "only others' completions", OTHERS_EXCUSE * timeout_ns);
  }
  return state == GPU_DONE;
}

unsigned completion_fail(struct flow *flow, int64_t now) {
  unsigned failed = 0;
  for (struct slot *slot = slot_oldest(&flow->ring, SLOT_RUNNING); slot; slot = slot_oldest(&flow->ring, SLOT_RUNNING)) {
    account_settle(flow->account, &slot->frame, FATE_GPU_FAULT, now);
    slot_move(&flow->ring, slot, SLOT_FAILED);
    failed++;
  }
  return failed;
}
