/*
 * Frames back to back with CUDA alone: the least code that keeps slots busy, without timing, error recovery or accounts. The
 * engine is compared with this loop. The kernel is that of the chain's only stage.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_CUDA_BARE_H
#define FRAMED_FRAMEBENCH_COMMON_CUDA_BARE_H

#include "gpu/gpu.h"
#include "tools/framebench/common/samples.h"
#include "tools/framectl/common/problem.h"

struct bare_setup {
  const struct gpu_chain *chain; /* one stage without state, with input and output of one size */
  unsigned device, slots;
  bool callback; /* cudaLaunchHostFunc, eventfd and epoll; otherwise the event is polled */
  bool graph;
  bool copied;   /* by kernels in place of copy engines */
  bool pageable; /* only for bare_serial() */
};

struct bare;

struct bare *bare_new(const struct bare_setup *setup, struct problem *problem);
struct bare *bare_free(struct bare *bare); /* NULL is valid; returns NULL */

/* Runs for about `seconds`. `each` receives microseconds per frame. */
bool bare_run_for(struct bare *bare, double seconds, double *each, struct problem *problem);

/* Runs one frame at a time and polls. Measures microseconds from before the first copy is enqueued until the result is seen. */
bool bare_round_trips(struct bare *bare, unsigned count, struct samples *samples, struct problem *problem);

/* Runs frames without any overlap: the host waits for each copy and each kernel. `each`: microseconds per frame. */
bool bare_serial(struct bare *bare, double seconds, double *each, struct problem *problem);

#endif
