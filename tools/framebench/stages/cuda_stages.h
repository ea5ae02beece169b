/* Measures a stage's kernels on the device: many launches in a graph, with buffers larger than any cache. */
#ifndef FRAMED_FRAMEBENCH_STAGES_CUDA_STAGES_H
#define FRAMED_FRAMEBENCH_STAGES_CUDA_STAGES_H

#include "gpu/gpu.h"
#include "tools/framectl/common/problem.h"

/* Microseconds per frame. `frame`: its content; NULL: small equal numbers. */
bool stages_cuda_time(const struct stage_plan *plan, const void *frame, bool quick, double *each, struct problem *problem);

/* The rate of copies in the device's memory: bytes per microsecond, read and written together. */
bool stages_cuda_copy_rate(bool quick, double *rate, struct problem *problem);

#endif
