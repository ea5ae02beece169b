/* The parts of framebench limits; each adds its sections. */
#ifndef FRAMED_FRAMEBENCH_LIMITS_LIMITS_H
#define FRAMED_FRAMEBENCH_LIMITS_LIMITS_H

#include "tools/framebench/common/options.h"
#include "tools/framebench/common/results.h"

typedef bool limits_part(struct results *results, const struct options *options, struct problem *problem);

/* Sockets, memory and wake-ups of the host. Forks: before any use of CUDA. */
limits_part limits_host;

/* With CUDA alone; the device is open and current. */
limits_part limits_copies, limits_calls, limits_round_trips;

/* The bare loop of CUDA, and beside it the engine; on the CPU the engine alone. */
bool limits_loop(struct results *results, const struct options *options, struct gpu_device *device, struct problem *problem);

/* What the engine pays for taking the times of frames: of none, of as many as the daemon takes, of all. */
bool limits_timing(struct results *results, const struct options *options, struct gpu_device *device, struct problem *problem);

/* Adds to the targets what limits_timing() found. */
void limits_timing_targets(struct results *results);

/* What the engine is held to, from the rows of limits_loop() and limits_timing(). */
void limits_targets(struct results *results);

#ifdef FRAMED_CUDA
/* GB/s each way of pinned copies of that size when both directions run at once. */
bool limits_both_ways(size_t bytes, double *rate, struct problem *problem);
#endif

#endif
