/* One measurement: connects clients to each pipeline, warms up, measures, and collects the results. */
#ifndef FRAMED_FRAMEBENCH_LOAD_TRIAL_H
#define FRAMED_FRAMEBENCH_LOAD_TRIAL_H

#include "tools/framebench/load/client.h"
#include "tools/framebench/load/target.h"
#include "tools/framectl/common/progress.h"

struct load_plan {
  double rate;        /* frames per second of all clients together, evenly distributed; 0: as fast as possible */
  unsigned in_flight; /* as in struct load_pace, for each client */
  unsigned clients;   /* for each pipeline; more than 1 need results on the producer's connection */
  bool spin;
  enum load_transport transport; /* of native pipelines; others accept only ANY */
  int64_t warm_up_ns, duration_ns;
  struct progress *progress; /* NULL: no progress line */
};

struct load_outcome {
  struct load_figures figures;
  struct load_ledger *ledgers; /* of each pipeline, from before the first frame to the last result */
  uint64_t missed;             /* sums over the pipelines */
  uint64_t dropped;
  double seconds;      /* measured */
  struct load_cpu cpu; /* the daemon's processor time in that period */
  bool cpu_known;      /* this process may read it */
};

/* The caller clears `outcome` in any case. */
bool load_trial(const struct load_target *target, const struct load_plan *plan, struct load_outcome *outcome,
                struct problem *problem);
void load_outcome_clear(struct load_outcome *outcome);

/* Whether each latency belongs to its frame. Results that are only counted cannot show lost frames. */
bool load_outcome_is_sure(const struct load_outcome *outcome);

/* The number of measured frames without a result. */
uint64_t load_outcome_lost(const struct load_outcome *outcome);

/* The latency that `share` of all measured frames do not exceed, in microseconds; infinite if too many were lost. */
double load_outcome_quantile(const struct load_outcome *outcome, double share);

#endif
