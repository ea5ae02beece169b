#include "tools/framectl/common/forecast.h"

const char *const overlap_engine_keys[OVERLAP_ENGINES] = {"h2d", "kernel", "d2h"};
const char *const overlap_engine_titles[OVERLAP_ENGINES] = {"copy in", "kernel", "copy out"};

/* Sums of the same times in another order differ in their last bits. */
#define ROUNDING 1e-9

/* -- the timeline --------------------------------------------------------------------------------------------------- */

static double later(double a, double b) { return a > b ? a : b; }

void forecast_start(struct forecast_timeline *timeline, const struct overlap_work *work) {
  *timeline = (struct forecast_timeline){.work = overlap_settled(work)};
  if (timeline->work.slots > OVERLAP_MAX_SLOTS) {
    timeline->work.slots = OVERLAP_MAX_SLOTS;
  }
}

static double forecast_serve(double *engine_free, double ready, const struct overlap_work *work, enum overlap_engine engine,
                             struct overlap_frame *frame) {
  struct overlap_span *span = &frame->spans[engine];
  span->begin = later(*engine_free, ready);
  span->end = span->begin + work->service[engine];
  *engine_free = span->begin + overlap_taken(work, engine);
  return span->end;
}

static double *first_free(double *engines, unsigned count) {
  double *first = &engines[0];
  for (unsigned i = 1; i < count; i++) {
    if (engines[i] < *first) {
      first = &engines[i];
    }
  }
  return first;
}

struct overlap_frame forecast_next(struct forecast_timeline *timeline) {
  const struct overlap_work *work = &timeline->work;
  unsigned slots = work->slots != OVERLAP_UNLIMITED ? work->slots : OVERLAP_MAX_SLOTS;
  struct overlap_frame frame = {.number = timeline->next++};
  frame.slot = (unsigned)(frame.number % slots);
  double ready = work->slots != OVERLAP_UNLIMITED ? timeline->slot_free[frame.slot] : 0;
  timeline->host_free = ready = later(timeline->host_free, ready) + work->host;
  ready = forecast_serve(&timeline->copy_in_free, ready, work, OVERLAP_H2D, &frame);
  ready = forecast_serve(first_free(timeline->kernel_free, overlap_kernels(work)), ready, work, OVERLAP_KERNEL, &frame);
  ready = forecast_serve(&timeline->copy_out_free, ready, work, OVERLAP_D2H, &frame);
  timeline->slot_free[frame.slot] = ready + work->turnaround;
  return frame;
}

double forecast_wall(const struct overlap_work *work, uint64_t frames) {
  struct forecast_timeline timeline;
  forecast_start(&timeline, work);
  double wall = 0;
  for (uint64_t i = 0; i < frames; i++) {
    wall = forecast_next(&timeline).spans[OVERLAP_D2H].end;
  }
  return wall;
}

/* -- the plan ------------------------------------------------------------------------------------------------------- */

static double share(double part, double whole) { return whole > 0 ? part / whole : 1; }

static double wall_with(const struct overlap_work *work, unsigned slots, uint64_t frames) {
  struct overlap_work other = *work;
  other.slots = slots;
  return forecast_wall(&other, frames);
}

static unsigned slots_for(const struct overlap_work *work, double bound, uint64_t frames) {
  for (unsigned slots = 1; slots <= OVERLAP_MAX_SLOTS; slots++) {
    if (wall_with(work, slots, frames) <= bound * (1 + ROUNDING)) {
      return slots;
    }
  }
  return 0;
}

struct forecast_plan forecast_plan(const struct overlap_work *work, uint64_t frames) {
  struct forecast_plan plan = {
      .serial = wall_with(work, 1, frames),
      .wall = forecast_wall(work, frames),
      .ideal_speedup = overlap_ideal_speedup(work),
      .bound = wall_with(work, OVERLAP_UNLIMITED, frames),
  };
  plan.speedup = share(plan.serial, plan.wall);
  plan.ratio = overlap_ratio(plan.wall, (double)frames * overlap_sum(work));
  plan.bound_speedup = share(plan.serial, plan.bound);
  plan.slots_for_bound = slots_for(work, plan.bound, frames);
  return plan;
}
