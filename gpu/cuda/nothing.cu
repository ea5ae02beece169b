/* A kernel that does nothing, for cuda_overhead.c to time. */
#include <cuda_runtime.h>

namespace {

__global__ void nothing_kernel() {}

} // namespace

extern "C" int cuda_nothing(void *stream) {
  nothing_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
  return cudaGetLastError();
}
