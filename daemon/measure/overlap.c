#include "daemon/measure/overlap.h"

#include <stdbool.h>

const char *const overlap_engine_keys[OVERLAP_ENGINES] = {
#define X(name, key, title) key,
    OVERLAP_ENGINE_LIST(X)
#undef X
};

const char *const overlap_engine_titles[OVERLAP_ENGINES] = {
#define X(name, key, title) title,
    OVERLAP_ENGINE_LIST(X)
#undef X
};

/* Sums of the same times in another order differ in their last bits. */
#define ROUNDING 1e-9

static unsigned kernels_of(const struct overlap_work *work) {
  unsigned kernels = work->kernels > 0 ? work->kernels : 1;
  return kernels < OVERLAP_MAX_SLOTS ? kernels : OVERLAP_MAX_SLOTS;
}

static double overlap_later(double a, double b) { return a > b ? a : b; }

static double share(double part, double whole) { return whole > 0 ? part / whole : 1; }

/* -- figures -------------------------------------------------------------------------------------------------------- */

double overlap_services(const double service[OVERLAP_ENGINES]) {
  return service[OVERLAP_H2D] + service[OVERLAP_KERNEL] + service[OVERLAP_D2H];
}

/* Of a single slot whose round was measured, the services take no longer than that, and the turnaround is the rest. */
static struct overlap_work overlap_settle(const struct overlap_work *work) {
  struct overlap_work settled = *work;
  double sum = overlap_services(work->service);
  if (work->slots != 1 || work->alone <= 0) {
    return settled;
  }
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    settled.service[engine] *= sum > work->alone ? work->alone / sum : 1;
    settled.succession[engine] = 0;
  }
  settled.turnaround = work->alone - overlap_services(settled.service) - work->host;
  return settled;
}

double overlap_sum(const struct overlap_work *work) {
  const struct overlap_work settled = overlap_settle(work);
  return overlap_services(settled.service);
}

/* How long an engine that has begun with a frame takes no other. */
static double taken(const struct overlap_work *work, enum overlap_engine engine) {
  return work->succession[engine] > 0 ? work->succession[engine] : work->service[engine];
}

/* Time an engine is taken up by each of many frames. */
static double occupied(const struct overlap_work *work, enum overlap_engine engine) {
  return taken(work, engine) / (engine == OVERLAP_KERNEL ? kernels_of(work) : 1);
}

enum overlap_engine overlap_longest(const struct overlap_work *work) {
  enum overlap_engine longest = OVERLAP_H2D;
  for (enum overlap_engine engine = OVERLAP_KERNEL; engine < OVERLAP_ENGINES; engine++) {
    if (occupied(work, engine) > occupied(work, longest)) {
      longest = engine;
    }
  }
  return longest;
}

double overlap_period(const struct overlap_work *work) {
  return overlap_later(occupied(work, overlap_longest(work)), work->host);
}

double overlap_round(const struct overlap_work *work) {
  const struct overlap_work settled = overlap_settle(work);
  return overlap_services(settled.service) + settled.turnaround + settled.host;
}

double overlap_ideal_speedup(const struct overlap_work *work) {
  return share(overlap_sum(work), occupied(work, overlap_longest(work)));
}

double overlap_ratio(double wall, double sum) { return wall < sum ? 1 - wall / sum : 0; }

/* -- the timeline --------------------------------------------------------------------------------------------------- */

void overlap_start(struct overlap_timeline *timeline, const struct overlap_work *work) {
  *timeline = (struct overlap_timeline){.work = overlap_settle(work)};
  if (timeline->work.slots > OVERLAP_MAX_SLOTS) {
    timeline->work.slots = OVERLAP_MAX_SLOTS;
  }
}

static double overlap_serve(double *engine_free, double ready, const struct overlap_work *work, enum overlap_engine engine,
                            struct overlap_frame *frame) {
  struct overlap_span *span = &frame->spans[engine];
  span->begin = overlap_later(*engine_free, ready);
  span->end = span->begin + work->service[engine];
  *engine_free = span->begin + taken(work, engine);
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

struct overlap_frame overlap_next(struct overlap_timeline *timeline) {
  const struct overlap_work *work = &timeline->work;
  unsigned slots = work->slots != OVERLAP_UNLIMITED ? work->slots : OVERLAP_MAX_SLOTS;
  struct overlap_frame frame = {.number = timeline->next++};
  frame.slot = (unsigned)(frame.number % slots);
  double ready = work->slots != OVERLAP_UNLIMITED ? timeline->slot_free[frame.slot] : 0;
  timeline->host_free = ready = overlap_later(timeline->host_free, ready) + work->host;
  ready = overlap_serve(&timeline->copy_in_free, ready, work, OVERLAP_H2D, &frame);
  ready = overlap_serve(first_free(timeline->kernel_free, kernels_of(work)), ready, work, OVERLAP_KERNEL, &frame);
  ready = overlap_serve(&timeline->copy_out_free, ready, work, OVERLAP_D2H, &frame);
  timeline->slot_free[frame.slot] = ready + work->turnaround;
  return frame;
}

double overlap_wall(const struct overlap_work *work, uint64_t frames) {
  struct overlap_timeline timeline;
  overlap_start(&timeline, work);
  double wall = 0;
  for (uint64_t i = 0; i < frames; i++) {
    wall = overlap_next(&timeline).spans[OVERLAP_D2H].end;
  }
  return wall;
}

/* -- the plan ------------------------------------------------------------------------------------------------------- */

static double wall_with(const struct overlap_work *work, unsigned slots, uint64_t frames) {
  struct overlap_work other = *work;
  other.slots = slots;
  return overlap_wall(&other, frames);
}

static unsigned slots_for(const struct overlap_work *work, double bound, uint64_t frames) {
  for (unsigned slots = 1; slots <= OVERLAP_MAX_SLOTS; slots++) {
    if (wall_with(work, slots, frames) <= bound * (1 + ROUNDING)) {
      return slots;
    }
  }
  return 0;
}

struct overlap_plan overlap_plan(const struct overlap_work *work, uint64_t frames) {
  struct overlap_plan plan = {
      .serial = wall_with(work, 1, frames),
      .wall = overlap_wall(work, frames),
      .ideal_speedup = overlap_ideal_speedup(work),
      .bound = wall_with(work, OVERLAP_UNLIMITED, frames),
  };
  plan.speedup = share(plan.serial, plan.wall);
  plan.ratio = overlap_ratio(plan.wall, (double)frames * overlap_sum(work));
  plan.bound_speedup = share(plan.serial, plan.bound);
  plan.slots_for_bound = slots_for(work, plan.bound, frames);
  return plan;
}
