/*
 * Copies of small frames by a kernel, which reads and writes the pinned memory itself.
 *
 * A copy engine takes microseconds to be handed a copy, and more to hand the stream on to the kernels and back, in which the
 * link moves what a small frame is; kernels of one graph follow each other within one (H200: a frame of 4 KiB alone takes 11
 * or 18 us by the engines, from one moment to the next, and 11 by kernels; one of 64 KiB 20 and 14). They are given precedence:
 * what they wait for is a place among the thousands of blocks of some other program's large frame.
 */
#include <cuda_runtime.h>

#include <cstdint>

extern "C" {
#include "gpu/cuda/copy.h"
}

namespace {

enum { THREADS = 128 };

__global__ void copy_kernel(unsigned char *__restrict__ to, const unsigned char *__restrict__ from, size_t bytes) {
  const size_t packs = bytes / sizeof(uint4);
  const size_t index = size_t(blockIdx.x) * THREADS + threadIdx.x;
  if (index < packs) {
    reinterpret_cast<uint4 *>(to)[index] = reinterpret_cast<const uint4 *>(from)[index];
  }
  const size_t last = packs * sizeof(uint4) + index;
  if (last < bytes) {
    to[last] = from[last];
  }
}

} // namespace

/* At least as many threads as there are bytes behind the last whole pack, of which each thread takes one. */
extern "C" int cuda_copy(void *to, const void *from, size_t bytes, void *stream) {
  int greatest;
  cudaError_t status = cudaDeviceGetStreamPriorityRange(nullptr, &greatest);
  if (status != cudaSuccess) {
    return status;
  }
  cudaLaunchAttribute precedence = {};
  precedence.id = cudaLaunchAttributePriority;
  precedence.val.priority = greatest;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(unsigned(bytes / sizeof(uint4) / THREADS + 1));
  launch.blockDim = dim3(THREADS);
  launch.stream = static_cast<cudaStream_t>(stream);
  launch.attrs = &precedence;
  launch.numAttrs = 1;
  return cudaLaunchKernelEx(&launch, copy_kernel, static_cast<unsigned char *>(to), static_cast<const unsigned char *>(from),
                            bytes);
}
