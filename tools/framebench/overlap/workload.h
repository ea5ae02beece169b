/* Workloads for overlap: kernels whose time has a chosen ratio to that of a copy, found by trials. */
#ifndef FRAMED_FRAMEBENCH_OVERLAP_WORKLOAD_H
#define FRAMED_FRAMEBENCH_OVERLAP_WORKLOAD_H

#include "tools/framebench/common/engine.h"

enum workload_kind { WORKLOAD_AFFINE, WORKLOAD_HALF, WORKLOAD_EQUAL, WORKLOAD_TWICE, WORKLOAD_KINDS };

extern const char *const workload_names[WORKLOAD_KINDS]; /* "affine", "work, half a copy" */

/* The costs of a single frame of that size. */
struct workload_costs {
  double copy; /* microseconds to the device */
  /* The kernel `work`: microseconds without a round, and for each round. */
  double base, round;
};

bool workload_measure(struct gpu_device *device, size_t frame_bytes, struct workload_costs *costs, struct problem *problem);

/* The rounds of `work` for a kernel of `kernel` microseconds, within the stage's limits. */
unsigned workload_rounds(const struct workload_costs *costs, double kernel);

/* NULL on a problem. `rounds` is 0 for affine. */
struct gpu_chain *workload_chain(enum workload_kind kind, size_t frame_bytes, const struct workload_costs *costs,
                                 unsigned *rounds, struct problem *problem);

#endif
