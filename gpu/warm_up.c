/*
 * The frames that a program runs before those of any session: one through each slot, so that nothing is made at the first real
 * frame, and then some to learn what a frame costs if it has the device to itself: from one to the next, in the lane's hands,
 * and in each step.
 *
 * From these, a pipeline of one slot can be foretold from one with several, and also how much of a step's time comes from
 * others beside it. Medians count: other work comes and goes, and the first frame after a pause is slower.
 */
#include "gpu/backend.h"

#include <sched.h>
#include <stdlib.h>

/* No frame is begun later than that, but for the first one. */
#define ENOUGH_NS INT64_C(4000000)
enum { MANY = 64 };

struct samples {
  int64_t alone[MANY], lane[MANY], h2d[MANY], kernel[MANY], d2h[MANY], telling[MANY];
  unsigned count, timed;
};

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t median(int64_t *values, unsigned count) {
  qsort(values, count, sizeof values[0], compare);
  return count > 0 ? values[count / 2] : 0;
}

/* A graph has what tells of a frame in it: without that, frames would go another way than those of the pipeline. */
static bool is_told(const struct gpu_program *program) { return program->graph && program->options.notify; }

/* Gives how long the last question took. A processor that works on the stages is left to them in between. */
static bool await(struct gpu_program *program, int64_t *asked, struct gpu_error *error) {
  int64_t limit = gpu_now() + GPU_WARM_UP_LIMIT_NS;
  for (;;) {
    int64_t before = gpu_now();
    enum gpu_progress progress = gpu_ask(program, 0, error);
    *asked = gpu_now() - before;
    if (progress == GPU_DEAD || (progress == GPU_DONE && (!is_told(program) || gpu_told(program, 0) == GPU_DONE))) {
      return progress == GPU_DONE;
    }
    if (before > limit) {
      gpu_abandon(program->device, GPU_WARM_UP_HANGS);
    }
    if (program->device->workers > 0) {
      sched_yield();
    }
  }
}

static bool run_frame(struct gpu_program *program, bool timed, struct samples *samples, struct gpu_error *error) {
  const struct gpu_frame frame = {.sequence = STAGE_WARM_UP, .notify = is_told(program), .timed = timed};
  struct gpu_times times;
  int64_t begin = gpu_now(), asked;
  if (!gpu_submit(program, 0, &frame, error)) {
    return false;
  }
  int64_t submitted = gpu_now();
  if (!await(program, &asked, error)) {
    return false;
  }
  samples->alone[samples->count] = gpu_now() - begin;
  samples->lane[samples->count] = submitted - begin + asked;
  samples->count++;
  if (gpu_times(program, 0, &times)) {
    samples->h2d[samples->timed] = times.h2d;
    samples->kernel[samples->timed] = times.kernel;
    samples->d2h[samples->timed] = times.d2h;
    samples->telling[samples->timed] = times.told > times.copied_out ? times.told - times.copied_out : 0;
    samples->timed++;
  }
  return true;
}

static bool run(struct gpu_program *program, bool timed, struct samples *samples, struct gpu_error *error) {
  int64_t begin = gpu_now();
  *samples = (struct samples){0};
  while (samples->count < MANY && (samples->count == 0 || gpu_now() - begin < ENOUGH_NS)) {
    if (!run_frame(program, timed, samples, error)) {
      return false;
    }
  }
  return true;
}

/* Without times at first, where there are frames without, as they cost a frame alone the most. What telling takes is part of
 * what a lane waits for beyond the device, and is measured of real frames. */
static bool measure_alone(struct gpu_program *program, struct gpu_error *error) {
  struct gpu_costs *costs = &program->costs;
  const unsigned timed_one_in = program->timed_one_in;
  struct samples samples;
  program->timed_one_in = program->options.timed_one_in == 1 ? 1 : 0;
  bool good = run(program, false, &samples, error);
  program->timed_one_in = timed_one_in;
  costs->alone = median(samples.alone, samples.count);
  costs->lane = median(samples.lane, samples.count);
  good = good && (timed_one_in == 0 || samples.timed > 0 || run(program, true, &samples, error));
  costs->h2d = median(samples.h2d, samples.timed);
  costs->kernel = median(samples.kernel, samples.timed);
  costs->d2h = median(samples.d2h, samples.timed);
  int64_t rest = costs->alone - median(samples.telling, samples.timed), least = costs->lane;
  costs->alone = rest > least ? rest : least;
  return good;
}

static bool measure_costs(struct gpu_program *program, struct gpu_error *error) {
  const struct gpu_backend *backend = program->device->backend;
  return measure_alone(program, error) && (!backend->costs || backend->costs(program, error));
}

/* -- the warm-up -------------------------------------------------------------------------------------------------- */

/* Waits for one warm-up frame by asking, with naps, since no lane is in a hurry yet. */
static bool warm_up_slot(struct gpu_program *program, unsigned slot, struct gpu_error *error) {
  const struct gpu_frame frame = {.sequence = STAGE_WARM_UP, .restart = true};
  const struct timespec nap = {.tv_nsec = 50000};
  if (!gpu_submit(program, slot, &frame, error)) {
    return false;
  }
  int64_t limit = gpu_now() + GPU_WARM_UP_LIMIT_NS;
  for (;;) {
    enum gpu_progress progress = gpu_ask(program, slot, error);
    if (progress != GPU_PENDING) {
      return progress == GPU_DONE;
    }
    if (gpu_now() > limit) {
      gpu_abandon(program->device, GPU_WARM_UP_HANGS);
    }
    nanosleep(&nap, NULL);
  }
}

bool gpu_program_warm_up(struct gpu_program *program, struct gpu_error *error) {
  const struct gpu_backend *backend = program->device->backend;
  for (unsigned slot = 0; slot < program->slot_count; slot++) {
    bool is_spared = (program->options.spared & 1U << slot) != 0;
    if (!is_spared && !warm_up_slot(program, slot, error)) {
      return false;
    }
  }
  bool weighs = program->options.weigh && program->options.spared == 0;
  program->silent = true;
  bool ready = backend->prepare(program, error) && (!weighs || measure_costs(program, error));
  program->silent = false;
  return ready;
}
