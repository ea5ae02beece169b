/*
 * Frames back to back with CUDA alone: the least code that keeps slots busy, with no timing, no errors that anyone
 * survives and no accounts. What the engine is measured against. The kernel is that of the chain's only stage.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_CUDA_BARE_H
#define FRAMED_FRAMEBENCH_COMMON_CUDA_BARE_H

#include "gpu/gpu.h"
#include "tools/framebench/common/samples.h"
#include "tools/framectl/common/problem.h"

struct bare_setup {
  const struct gpu_chain *chain; /* of one stage without state; input and output of one size */
  unsigned device, slots;
  bool callback; /* cudaLaunchHostFunc, eventfd and epoll; else the event is polled */
  bool graph;
  bool copied;   /* by kernels, not by the engines */
  bool pageable; /* only for bare_serial() */
};

struct bare;

struct bare *bare_new(const struct bare_setup *setup, struct problem *problem);
struct bare *bare_free(struct bare *bare); /* NULL is fine; returns NULL */

/* Runs about `seconds` long; `each` gets microseconds a frame. */
bool bare_run_for(struct bare *bare, double seconds, double *each, struct problem *problem);

/* One frame at a time, polled: from before its first copy is enqueued until its result is seen, in microseconds. */
bool bare_round_trips(struct bare *bare, unsigned count, struct samples *samples, struct problem *problem);

/* Frames without any overlap: the host waits for each copy and each kernel. `each`: microseconds a frame. */
bool bare_serial(struct bare *bare, double seconds, double *each, struct problem *problem);

#endif
