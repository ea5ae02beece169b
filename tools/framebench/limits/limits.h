/* The parts of framebench limits; each adds its sections. */
#ifndef FRAMED_FRAMEBENCH_LIMITS_LIMITS_H
#define FRAMED_FRAMEBENCH_LIMITS_LIMITS_H

#include "tools/framebench/common/options.h"
#include "tools/framebench/common/results.h"

typedef bool limits_part(struct results *results, const struct options *options, struct problem *problem);

/* Sockets, memory and wake-ups of the host. Forks, so call it before any use of CUDA. */
limits_part limits_host;

/* Uses only CUDA; the device must be open and current. */
limits_part limits_copies, limits_calls, limits_round_trips;

/* Compares the engine with the bare loop of CUDA. On the CPU it measures only the engine. */
bool limits_loop(struct results *results, const struct options *options, struct gpu_device *device, struct problem *problem);

/* Measures the cost of frame times: none timed, as many as the daemon times, all timed. */
bool limits_timing(struct results *results, const struct options *options, struct gpu_device *device, struct problem *problem);

/* Adds targets from the rows of limits_timing(). */
void limits_timing_targets(struct results *results);

/* Adds targets from the rows of limits_loop() and limits_timing(). */
void limits_targets(struct results *results);

#ifdef FRAMED_CUDA
/* GB/s in each direction of pinned copies of that size while both directions are busy. */
bool limits_both_ways(size_t bytes, double *rate, struct problem *problem);
#endif

#endif
