/* The measurements of framebench overlap that use only CUDA. */
#ifndef FRAMED_FRAMEBENCH_OVERLAP_CUDA_OVERLAP_H
#define FRAMED_FRAMEBENCH_OVERLAP_CUDA_OVERLAP_H

#include "gpu/gpu.h"
#include "tools/framebench/common/results.h"

/* The host waits for each copy and each kernel. `each`: microseconds per frame. */
bool overlap_cuda_serial(const struct gpu_chain *chain, unsigned device, bool pageable, double seconds, double *each,
                         struct problem *problem);

/* Measures textbook programs, and the same work with the engine. */
bool overlap_cuda_textbooks(struct results *results, struct gpu_device *device, struct problem *problem);

/* Compares the busy time of each engine as CUPTI records it with the engine's own times. Opens the device again. */
bool overlap_cuda_witness(struct results *results, unsigned device, struct problem *problem);

#endif
