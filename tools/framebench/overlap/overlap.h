/* The parts of framebench overlap apart from its rows. */
#ifndef FRAMED_FRAMEBENCH_OVERLAP_OVERLAP_H
#define FRAMED_FRAMEBENCH_OVERLAP_OVERLAP_H

#include "gpu/gpu.h"
#include "tools/framebench/common/options.h"
#include "tools/framebench/common/results.h"

/* Rows with fewer slots show the gain of slots, and have no target. */
enum { OVERLAP_ENOUGH_SLOTS = 3 };

/* Turns of each row. */
enum { OVERLAP_TURNS = 3 };

struct overlap_bench {
  struct results *results;
  const struct options *options;
  struct gpu_device *device;
  bool cuda;
  unsigned kernels; /* kernels that run at once */
  double seconds;   /* for a row, in all turns together */
};

/* Adds the section of rows. */
bool overlap_rows(const struct overlap_bench *bench, struct problem *problem);

/*
 * Adds to a row the bound by the model of engines, host and notice, from the row's own times, as `bound_us`. `of_bound` is the
 * bound over the row's time, and `bound_by` its cause: "h2d", "kernel", "d2h", "host" or "slots". `kernels` as in struct
 * overlap_work.
 */
void overlap_bound(json_t *row, unsigned kernels);

/* Adds the section of targets, from the rows of the other sections. */
bool overlap_targets(struct results *results, bool cuda, struct problem *problem);

#endif
