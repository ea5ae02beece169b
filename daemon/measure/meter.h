/*
 * Readings of a pipeline over the last ten seconds, from which status computes rates and latencies.
 *
 * Counters and histograms only grow. A reading is a copy with its time, and recent values are the difference to the oldest
 * reading. The control loop takes a reading every two seconds.
 */
#ifndef FRAMED_MEASURE_METER_H
#define FRAMED_MEASURE_METER_H

#include "daemon/measure/clock.h"
#include "daemon/measure/histogram.h"
#include "daemon/measure/ledger.h"
#include "daemon/measure/overlap.h"

enum { METER_INTERVAL_MS = 2000, METER_READINGS = 5, METER_LANES = 256 }; /* ten seconds */

struct reading {
  int64_t at;    /* CLOCK_MONOTONIC ns */
  int64_t began; /* CLOCK_MONOTONIC ns of the first frame; 0: none yet */
  struct ledger ledger;
  uint64_t missed; /* whole results that slow readers missed */
  struct histogram_view steps[STEP_COUNT];
  double served[OVERLAP_ENGINES]; /* us that the engines of its device worked, for all pipelines */
  uint64_t runs, run_frames;      /* runs of its model and the frames in them, for all pipelines */
  int64_t busy;                   /* ns with frames on the device, summed over sessions */
  int64_t worked;                 /* ns of its lanes in turns that moved a frame, summed over sessions */
  int64_t lane_time[METER_LANES]; /* ns of processor time of each of its lanes; 0: not one of its lanes */
  int64_t lane_work[METER_LANES]; /* ns in such turns of all sessions on that lane */
  int64_t lane_own[METER_LANES];  /* of these, in its own turns; 0: it only writes results there */
};

struct meter;

/* NULL without memory. */
struct meter *meter_new(void);
struct meter *meter_free(struct meter *meter); /* accepts NULL; returns NULL */

/* The place for the next reading; replaces the oldest. */
struct reading *meter_next(struct meter *meter);
/* The last reading; NULL: none yet. */
const struct reading *meter_latest(const struct meter *meter);
/* The oldest reading; an empty one before the first. */
const struct reading *meter_oldest(const struct meter *meter);
/* Drops all readings before the last one. */
void meter_restart(struct meter *meter);

struct meter_rates {
  double seconds;         /* between the readings, without the time that does not count */
  double in_fps, out_fps; /* frames that came, and frames that were emitted */
  double in_bytes_per_s, out_bytes_per_s;
};

/* Rates between two readings; all 0 if no time has passed. Time before the first frame does not count. A time of less than a
 * quarter of a second counts as that, because a single frame has no rate. */
struct meter_rates meter_rates(const struct reading *now, const struct reading *before);

/* Busy share of its busiest lane between two readings; 0 if no time has passed. */
double meter_lane_share(const struct reading *now, const struct reading *before);
/* Share of a lane's time spent on this pipeline, without the time that other pipelines take; the largest of its lanes. */
double meter_host_share(const struct reading *now, const struct reading *before);
/* Average share of time in which its lanes moved its frames. For lanes that poll, which always use a processor. */
double meter_worked_share(const struct reading *now, const struct reading *before);

#endif
