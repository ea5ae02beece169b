/*
 * Forecasts by the model of daemon/measure/overlap.h: when each frame of a work is on each engine, and what other numbers of
 * slots would win. `framectl plan` prints them, and framebench compares its measurements with them.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_FORECAST_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_FORECAST_H

#include <stdint.h>

#include "daemon/measure/overlap.h"

extern const char *const overlap_engine_keys[OVERLAP_ENGINES];   /* "h2d" */
extern const char *const overlap_engine_titles[OVERLAP_ENGINES]; /* "copy in" */

/* -- the timeline --------------------------------------------------------------------------------------------------- */

struct overlap_span {
  double begin, end;
};

struct overlap_frame {
  uint64_t number; /* from 0 */
  unsigned slot;   /* with OVERLAP_UNLIMITED the frame's number modulo OVERLAP_MAX_SLOTS, for want of any */
  struct overlap_span spans[OVERLAP_ENGINES];
};

struct forecast_timeline { /* forecast_start() sets it up; its fields are forecast.c's own */
  struct overlap_work work;
  uint64_t next;
  double host_free, copy_in_free, copy_out_free;
  double kernel_free[OVERLAP_MAX_SLOTS], slot_free[OVERLAP_MAX_SLOTS];
};

void forecast_start(struct forecast_timeline *timeline, const struct overlap_work *work);
/* When the next frame is served, frame by frame without end. */
struct overlap_frame forecast_next(struct forecast_timeline *timeline);
/* The time from the first copy in to the last copy out of that many frames. */
double forecast_wall(const struct overlap_work *work, uint64_t frames);

/* -- the plan ------------------------------------------------------------------------------------------------------- */

struct forecast_plan {
  double serial;            /* wall with one slot */
  double wall;              /* wall with the work's slots */
  double speedup;           /* serial / wall; 1 if there is no work */
  double ratio;             /* overlap_ratio() of the wall */
  double ideal_speedup;     /* of frames without end, without turnaround */
  double bound;             /* wall that no number of slots beats */
  double bound_speedup;     /* serial / bound */
  unsigned slots_for_bound; /* the fewest that reach it; 0: more than OVERLAP_MAX_SLOTS */
};

/* `frames` is 1 or more. Takes time in proportion to frames x slots_for_bound. */
struct forecast_plan forecast_plan(const struct overlap_work *work, uint64_t frames);

#endif
