/*
 * Streams of three priorities. The driver has numbers for them, the lowest for what goes first; where it has only two, normal
 * is low.
 */
#include "gpu/cuda/cuda.h"

bool cuda_stream_find_priorities(struct cuda_device *device, struct gpu_error *error) {
  int least, greatest;
  if (!CUDA_CALL(&device->base, error, cudaDeviceGetStreamPriorityRange, &least, &greatest)) {
    return false;
  }
  device->priorities[priority_rank(GPU_PRIORITY_HIGH)] = greatest;
  device->priorities[priority_rank(GPU_PRIORITY_NORMAL)] = (least + greatest) / 2;
  device->priorities[priority_rank(GPU_PRIORITY_LOW)] = least;
  return true;
}

bool cuda_stream_new(struct gpu_device *device, enum gpu_priority priority, const struct cuda_share *share,
                     cudaStream_t *stream, struct gpu_error *error) {
  struct cuda_device *of = (struct cuda_device *)device;
  const int number = of->priorities[priority_rank(priority)];
  if (share) {
    return cuda_share_stream(of, share, number, stream, error);
  }
  return CUDA_CALL(device, error, cudaStreamCreateWithPriority, stream, cudaStreamNonBlocking, number);
}
