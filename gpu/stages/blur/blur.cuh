/* What the ways of `blur` share. Of bytes, blur_walk.cu has large frames, blur_chain.cu the narrow ones of gray, blur_matrix.cu
 * other narrow ones, and blur_far.cu the rest; of floats, blur.cu has the narrow ones, and blur_wide.cu the others. blur.cu
 * chooses. */
#ifndef FRAMED_GPU_STAGES_BLUR_CUH
#define FRAMED_GPU_STAGES_BLUR_CUH

#include "gpu/stages/bytes.cuh"

extern "C" {
#include "gpu/stages/blur/blur.h"
#include "gpu/stages/border.h"
}

struct blur_geometry {
  int32_t width, height, channels, radius;
  __device__ __host__ int32_t row() const { return width * channels; }
};

/* Weights of bytes are 0 from some distance on; those behind it add nothing. Only blurs that reach no further than 4 are so
 * narrow that their weights are made up of two parts. */
static inline uint32_t blur_used_radius(const blur_weights &weights, uint32_t radius) {
  while (radius > 1 && weights.at[radius] == 0.0F) {
    radius--;
  }
  return radius;
}

/* Whether a weight of bytes is a 16 bit float, which has 11 bits; else two make it up. */
static inline bool blur_is_half(float weight) {
  const uint32_t steps = uint32_t(weight * BLUR_UNIT);
  return steps % (steps > 4096 ? 4 : steps > 2048 ? 2 : 1) == 0;
}
static inline int32_t blur_weight_parts(const blur_weights &weights, int32_t radius) {
  int32_t parts = 1;
  for (int32_t k = 0; k <= radius; k++) {
    parts = blur_is_half(weights.at[k]) ? parts : 2;
  }
  return parts;
}

static inline uint32_t blur_parts(int32_t whole, int32_t part) {
  return (uint32_t(whole) + uint32_t(part) - 1) / uint32_t(part);
}

/* Whether there is a faster way for large frames on this device, and enqueues it. */
bool blur_walk_takes(const blur_geometry &image, const blur_weights &weights);
int blur_walk(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream);

/* Whether there is a way for gray in registers, and enqueues it. */
bool blur_chain_takes(const blur_geometry &image);
int blur_chain(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream);

/* Enqueues what is not wide (blur_is_wide()). */
int blur_matrix(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream);

/* Enqueue any radius as two kernels, with the columns' sums in `summed` between them. */
int blur_far(const uint8_t *in, uint8_t *out, void *summed, const blur_geometry &image, const blur_weights &weights,
             cudaStream_t stream);
int blur_wide(const float *in, float *out, float *summed, const blur_geometry &image, const blur_weights &weights,
              cudaStream_t stream);

#endif
