/* How long a stage's kernels take on the device: many launches in a graph, over buffers that no cache can hold. */
#ifndef FRAMED_FRAMEBENCH_STAGES_CUDA_STAGES_H
#define FRAMED_FRAMEBENCH_STAGES_CUDA_STAGES_H

#include "gpu/gpu.h"
#include "tools/framectl/common/problem.h"

/* Microseconds for one frame. `frame`: what is in it; NULL: small numbers, all the same. */
bool stages_cuda_time(const struct stage_plan *plan, const void *frame, bool quick, double *each, struct problem *problem);

/* Bytes that the device's memory moves in a microsecond when it copies, those read and those written together. */
bool stages_cuda_copy_rate(bool quick, double *rate, struct problem *problem);

#endif
