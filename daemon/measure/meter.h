/*
 * A pipeline's readings over the last ten seconds, from which status takes rates and latencies.
 *
 * Counters and histograms only ever grow; a reading is a copy of them with its time, and what happened lately is the
 * difference between now and the oldest reading kept. The control loop takes one every two seconds.
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
  int64_t began; /* likewise, of the first frame ever; 0 before it */
  struct ledger ledger;
  uint64_t missed; /* whole results, by slow readers */
  struct histogram_view steps[STEP_COUNT];
  double served[OVERLAP_ENGINES]; /* us that the engines of its device have worked, for all pipelines there */
  uint64_t runs, run_frames;      /* of its model, and the frames in these, for all pipelines */
  int64_t busy;                   /* ns with frames on the device, of all sessions together */
  int64_t worked;                 /* ns of its lanes in turns that moved a frame, all sessions together */
  int64_t lane_time[METER_LANES]; /* ns of processor that each of its lanes has used; 0: not one of its lanes */
  int64_t lane_work[METER_LANES]; /* ns in such turns of all sessions that live there, also those of others; */
  int64_t lane_own[METER_LANES];  /* of these, in turns of its own; 0: it only writes results there */
};

struct meter;

/* NULL if there is no memory. */
struct meter *meter_new(void);
struct meter *meter_free(struct meter *meter); /* NULL is fine; returns NULL */

/* Where to put the next reading; it takes the place of the oldest. */
struct reading *meter_next(struct meter *meter);
/* The one that was taken last; NULL: none yet. */
const struct reading *meter_latest(const struct meter *meter);
/* The oldest one kept; before the first, one without anything. */
const struct reading *meter_oldest(const struct meter *meter);
/* What was before the reading that was taken last does not count any more. */
void meter_begin_anew(struct meter *meter);

struct meter_rates {
  double seconds;         /* between the readings, without what does not count */
  double in_fps, out_fps; /* frames that came, and frames that were emitted */
  double in_bytes_per_s, out_bytes_per_s;
};

/* What happened between two readings over the time that has passed; all 0 if none has. The time before the first frame ever
 * does not count. What happened in less than a quarter of a second counts as that much time's: a single frame has no rate. */
struct meter_rates meter_rates(const struct reading *now, const struct reading *before);

/* The share of the time between two readings in which its busiest lane used a processor; 0 if no time has passed. */
double meter_lane_share(const struct reading *now, const struct reading *before);
/* The share of a lane's time, without what other pipelines take, in which it worked on this one's frames; of the lane where it
 * is largest. */
double meter_host_share(const struct reading *now, const struct reading *before);
/* The share of time in which its lanes moved its frames, on average: for lanes that poll and so always use a processor. */
double meter_worked_share(const struct reading *now, const struct reading *before);

#endif
