/*
 * Frames back to back on several devices at once, each on a thread of its own, without a daemon: what processors, memory and
 * links of the host allow them together.
 */
#ifndef FRAMED_FRAMEBENCH_SCALE_ALONE_H
#define FRAMED_FRAMEBENCH_SCALE_ALONE_H

#include "gpu/gpu.h"
#include "tools/framectl/common/problem.h"

struct alone_setup {
  const struct gpu_chain *chain;
  struct gpu_device *const *devices; /* number 0 and the next ones */
  unsigned count, slots;             /* slots of each */
  bool bare;                         /* CUDA alone, for a chain of one stage without state; else the engine, */
  bool spin;                         /* which asks the device, or sleeps until it is told */
  double seconds;
};

/* `rate`: frames a second of all devices together. */
bool alone_run(const struct alone_setup *setup, double *rate, struct problem *problem);

#endif
