/* What the two ways of `blur` share: blur.cu has narrow ones and chooses, blur_wide.cu has the others. */
#ifndef FRAMED_GPU_STAGES_BLUR_CUH
#define FRAMED_GPU_STAGES_BLUR_CUH

#include "gpu/stages/bytes.cuh"

extern "C" {
#include "gpu/stages/blur.h"
#include "gpu/stages/border.h"
}

struct blur_geometry {
  int32_t width, height, channels, radius;
  __device__ __host__ int32_t row() const { return width * channels; }
};

static __device__ __forceinline__ float blur_rounded(float sum, float) { return sum; }
static __device__ __forceinline__ uint8_t blur_rounded(float sum, uint8_t) { return arithmetic_level(sum); }

static inline uint32_t blur_parts(int32_t whole, int32_t part) {
  return (uint32_t(whole) + uint32_t(part) - 1) / uint32_t(part);
}

/* Enqueues any radius as two kernels, with the columns' sums in `summed` between them. */
int blur_wide(const uint8_t *in, uint8_t *out, float *summed, const blur_geometry &image, const blur_weights &weights,
              cudaStream_t stream);
int blur_wide(const float *in, float *out, float *summed, const blur_geometry &image, const blur_weights &weights,
              cudaStream_t stream);

#endif
