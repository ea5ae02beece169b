/*
 * Frames back to back on several devices at once, each with its own thread, without a daemon. This shows what processors,
 * memory and links of the host allow.
 */
#ifndef FRAMED_FRAMEBENCH_SCALE_ALONE_H
#define FRAMED_FRAMEBENCH_SCALE_ALONE_H

#include "gpu/gpu.h"
#include "tools/framectl/common/problem.h"

struct alone_setup {
  const struct gpu_chain *chain;
  struct gpu_device *const *devices; /* from number 0 on */
  unsigned count, slots;             /* slots of each */
  bool bare;                         /* only CUDA, for a chain of one stage without state; otherwise the engine */
  bool spin;                         /* the engine polls the device; otherwise it sleeps until a callback */
  double seconds;
};

/* `rate`: frames per second of all devices together. */
bool alone_run(const struct alone_setup *setup, double *rate, struct problem *problem);

#endif
