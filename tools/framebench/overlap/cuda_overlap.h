/* What framebench overlap measures with CUDA alone. */
#ifndef FRAMED_FRAMEBENCH_OVERLAP_CUDA_OVERLAP_H
#define FRAMED_FRAMEBENCH_OVERLAP_CUDA_OVERLAP_H

#include "gpu/gpu.h"
#include "tools/framebench/common/results.h"

/* The host waits for each copy and each kernel; `each`: microseconds a frame. */
bool overlap_cuda_serial(const struct gpu_chain *chain, unsigned device, bool pageable, double seconds, double *each,
                         struct problem *problem);

/* The programs of textbooks, and the same work through the engine. */
bool overlap_cuda_textbooks(struct results *results, struct gpu_device *device, struct problem *problem);

/* What CUPTI records of a run beside what the engine's own times say: busy time of each engine. Opens the device anew. */
bool overlap_cuda_witness(struct results *results, unsigned device, struct problem *problem);

#endif
