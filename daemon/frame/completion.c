/*
 * How a lane learns that a frame has left the device, and that a device hangs.
 *
 * Problem. Slots run on different streams and may finish in any order, but results must leave in the order in which frames
 * came. The worker is another process that may hang, crash or write nonsense. A lane must neither block on it nor trust it.
 *
 * Idea. The worker writes a word per slot into a shared page and sets a bit for the lane (base/bell.h). device_ask() compares
 * the word with the number of the submission. So a word from an earlier frame or an earlier worker never matches.
 * completion_turn() asks only for the oldest RUNNING slot and stops at the first one that is still running. A younger slot that
 * finished first waits there, and keeps its word.
 *
 * With `callback` the lane sleeps until the worker wakes it. With `spin` the lane asks again without sleeping, for `spin_for`
 * after the last frame moved. On an H200 the CUDA callback costs 40 us of latency per frame, which is why `spin` exists.
 *
 * Invariants.
 * - Each answer has three values: done, pending or dead. Dead is never read as pending.
 * - A frame counts as completed once, so the account balances.
 * - A hang is judged by the daemon's clock alone. CUDA reports an error 0.1 to 0.6 s after the fault, or never, and then
 *   calls no callback.
 *
 * So completion_check() runs ten times a second. The device has failed if no session had a completion for the timeout while a
 * frame runs. It has also failed if this session had none for OTHERS_EXCUSE timeouts: one hanging kernel can leave room for
 * kernels of other sessions.
 */
#include "daemon/frame/completion.h"

#include <stdio.h>

/* This many timeouts may pass while only other sessions' frames complete. More means that a kernel of this session hangs. */
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
    if (flow->retry) { /* NULL: the retry is over */
      retry_pass(flow->retry, true);
    }
  }
  const char *refusal = device_refusal(flow->program, slot->index);
  if (device_late(flow->program, slot->index)) {
    flow_drop(flow, slot, FATE_LATE, now);
  } else if (refusal) { /* a stage rejected the frame, so it has no result */
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

/* A frame that runs again is READY here, and came before this one. Its result must leave first. */
static bool is_overtaken(const struct flow *flow, const struct slot *slot) {
  const struct slot *ready = slot_oldest(&flow->ring, SLOT_READY);
  return ready && ready->frame.again && slot_is_older(ready, slot);
}

bool completion_turn(struct flow *flow) {
  bool moved = false;
  struct slot *slot = slot_oldest(&flow->ring, SLOT_RUNNING);
  while (slot && !is_overtaken(flow, slot) && device_ask(flow->program, slot->index, NULL) == GPU_DONE) {
    complete(flow, slot, clock_now());
    moved = true;
    slot = slot_oldest(&flow->ring, SLOT_RUNNING);
  }
  return moved;
}

static void end_hanging_worker(const struct flow *flow, const struct slot *slot, const char *what, int64_t waited_ns) {
  struct gpu_error error = {.stage = -1, .remedy = "if the stages may really take that long, raise gpu.timeout"};
  snprintf(error.text, sizeof error.text, "%s for %.3g s: a kernel hangs", what, (double)waited_ns / 1e9);
  device_abandon_slot(flow->program, slot->index, &error);
}

bool completion_check(const struct flow *flow, int64_t timeout_ns, int64_t now) {
  struct slot *slot = slot_oldest(&flow->ring, SLOT_RUNNING);
  if (!slot) {
    return false;
  }
  const enum gpu_progress state = device_ask(flow->program, slot->index, NULL);
  int64_t own = flow->account->now.last_completion;
  int64_t others = atomic_load_explicit(flow_device(flow, slot)->completion, memory_order_relaxed);
  int64_t last = others > own ? others : own;
  if (state == GPU_PENDING && now - last > timeout_ns) {
    end_hanging_worker(flow, slot, "no completion", timeout_ns);
  } else if (state == GPU_PENDING && now - own > OTHERS_EXCUSE * timeout_ns) {
    end_hanging_worker(flow, slot, "only others' completions", OTHERS_EXCUSE * timeout_ns);
  }
  return state == GPU_DONE;
}
