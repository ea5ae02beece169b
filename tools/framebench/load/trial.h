/* One measurement: clients connected to each pipeline, a warm-up, the time that counts, and the account of it all. */
#ifndef FRAMED_FRAMEBENCH_LOAD_TRIAL_H
#define FRAMED_FRAMEBENCH_LOAD_TRIAL_H

#include "tools/framebench/load/client.h"
#include "tools/framebench/load/target.h"
#include "tools/framectl/common/progress.h"

struct load_plan {
  double rate;        /* frames a second of all clients together, due one after the other; 0: as fast as they are taken */
  unsigned in_flight; /* as in struct load_pace, of each client */
  unsigned clients;   /* of each pipeline; more than 1 need results that come back on the producer's connection */
  bool spin;
  enum load_transport transport; /* of native pipelines; others have none but ANY */
  int64_t warm_up_ns, duration_ns;
  struct progress *progress; /* NULL: nobody is shown how far it is */
};

struct load_outcome {
  struct load_figures figures;
  struct load_ledger *ledgers; /* of each pipeline, from before the first frame to the last result */
  uint64_t missed;             /* sums over the pipelines */
  uint64_t dropped;
  double seconds;      /* that were measured, */
  struct load_cpu cpu; /* and the processor's in them, */
  bool cpu_known;      /* if this process may see it */
};

/* `outcome` is to be cleared in any case. */
bool load_trial(const struct load_target *target, const struct load_plan *plan, struct load_outcome *outcome,
                struct problem *problem);
void load_outcome_clear(struct load_outcome *outcome);

/* Whether each latency belongs to its frame: results that are only counted say nothing of frames that were lost. */
bool load_outcome_is_sure(const struct load_outcome *outcome);

/* Frames that are measured and of which no result came. */
uint64_t load_outcome_lost(const struct load_outcome *outcome);

/* What `share` of all frames that are measured stay within, in microseconds: infinite where that many were lost. */
double load_outcome_quantile(const struct load_outcome *outcome, double share);

#endif
