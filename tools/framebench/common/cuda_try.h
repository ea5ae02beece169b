/* Checks every CUDA call of framebench's own measurements, and turns errors into problems. */
#ifndef FRAMED_FRAMEBENCH_COMMON_CUDA_TRY_H
#define FRAMED_FRAMEBENCH_COMMON_CUDA_TRY_H

#include "tools/framectl/common/problem.h"

#include <cuda_runtime_api.h>

static inline bool cuda_try(cudaError_t status, const char *what, struct problem *problem) {
  return status == cudaSuccess || problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s: %s, %s", what, cudaGetErrorName(status),
                                              cudaGetErrorString(status));
}

/* Calls a CUDA function and checks its result. */
#define CUDA_TRY(problem, function, ...) cuda_try(function(__VA_ARGS__), #function, (problem))

#endif
