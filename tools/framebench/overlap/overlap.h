/* The parts of framebench overlap beside its rows. */
#ifndef FRAMED_FRAMEBENCH_OVERLAP_OVERLAP_H
#define FRAMED_FRAMEBENCH_OVERLAP_OVERLAP_H

#include "gpu/gpu.h"
#include "tools/framebench/common/options.h"
#include "tools/framebench/common/results.h"

/* Rows with fewer are there to show what slots win, and are held to nothing. */
enum { OVERLAP_ENOUGH_SLOTS = 3 };

/* How often a row is measured. */
enum { OVERLAP_TURNS = 3 };

struct overlap_bench {
  struct results *results;
  const struct options *options;
  struct gpu_device *device;
  bool cuda;
  unsigned kernels; /* that run at once */
  double seconds;   /* a row, in all turns together */
};

/* Adds the section of rows. */
bool overlap_rows(const struct overlap_bench *bench, struct problem *problem);

/* Adds to a row what the model of engines, host and notice allows, from the row's own times, as `bound_us`; that over the
 * row's time as `of_bound`; and as `bound_by` what of them it is: "h2d", "kernel", "d2h", "host" or "slots". `kernels` as in
 * struct overlap_work. */
void overlap_bound(json_t *row, unsigned kernels);

/* Adds the section of targets, from the rows of the other sections. */
bool overlap_targets(struct results *results, bool cuda, struct problem *problem);

#endif
