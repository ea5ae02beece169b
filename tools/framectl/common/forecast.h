/*
 * Forecasts by the model of daemon/measure/overlap.h: when each frame uses each engine, and how much faster other numbers of
 * slots would be. `framectl plan` prints them. framebench compares them to its measurements.
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
  unsigned slot;   /* with OVERLAP_UNLIMITED: the frame's number modulo OVERLAP_MAX_SLOTS */
  struct overlap_span spans[OVERLAP_ENGINES];
};

struct forecast_timeline { /* forecast_start() sets it up; its fields are private to forecast.c */
  struct overlap_work work;
  uint64_t next;
  double host_free, copy_in_free, copy_out_free;
  double kernel_free[OVERLAP_MAX_SLOTS], slot_free[OVERLAP_MAX_SLOTS];
};

void forecast_start(struct forecast_timeline *timeline, const struct overlap_work *work);
/* The times of the next frame. There is no last frame. */
struct overlap_frame forecast_next(struct forecast_timeline *timeline);
/* The time from the first copy in to the last copy out of `frames` frames. */
double forecast_wall(const struct overlap_work *work, uint64_t frames);

/* -- the plan ------------------------------------------------------------------------------------------------------- */

struct forecast_plan {
  double serial;            /* wall with one slot */
  double wall;              /* wall with the work's slots */
  double speedup;           /* serial / wall; 1 if there is no work */
  double ratio;             /* overlap_ratio() of the wall */
  double ideal_speedup;     /* of an endless sequence of frames, without turnaround */
  double bound;             /* the lowest wall that any number of slots reaches */
  double bound_speedup;     /* serial / bound */
  unsigned slots_for_bound; /* the fewest that reach it; 0: more than OVERLAP_MAX_SLOTS */
};

/* `frames` is 1 or more. Takes time in proportion to frames x slots_for_bound. */
struct forecast_plan forecast_plan(const struct overlap_work *work, uint64_t frames);

#endif
