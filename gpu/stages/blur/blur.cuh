/* What the two ways of `blur` share. blur_walk.cu has bytes; blur.cu has floats and the bytes that it does not take. */
#ifndef FRAMED_GPU_STAGES_BLUR_CUH
#define FRAMED_GPU_STAGES_BLUR_CUH

#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/blur/blur.h"
#include "gpu/stages/border.h"
}

struct blur_geometry {
  int32_t width, height, channels, radius;
  __device__ __host__ int32_t row() const { return width * channels; }
};

static inline uint32_t blur_parts(int32_t whole, int32_t part) {
  return (uint32_t(whole) + uint32_t(part) - 1) / uint32_t(part);
}

/* Whether the fast way takes such an image on this device, and enqueues it. */
bool blur_walk_takes(const blur_geometry &image);
int blur_walk(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream);

#endif
