/* What the ways of `blur` share: blur_matrix.cu has the narrow ones of bytes, blur.cu those of floats, and chooses;
 * blur_wide.cu has the others. */
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

/* blur_add(), for bytes in one step (blur.h), and the roundings after each pass. */
template <typename Sample> static __device__ __forceinline__ float blur_next(float sum, float both, float weight) {
  return sizeof(Sample) == 1 ? arithmetic_add_exact(weight, both, sum) : blur_add(sum, both, weight);
}
template <typename Sample> static __device__ __forceinline__ float blur_summed(float sum) {
  return sizeof(Sample) == 1 ? blur_round_sum(sum) : sum;
}
static __device__ __forceinline__ float blur_rounded(float sum, float) { return sum; }
static __device__ __forceinline__ uint8_t blur_rounded(float sum, uint8_t) { return arithmetic_level(sum); }

static inline uint32_t blur_parts(int32_t whole, int32_t part) {
  return (uint32_t(whole) + uint32_t(part) - 1) / uint32_t(part);
}

/* Enqueues what is not wide (blur_is_wide()). */
int blur_matrix(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream);

/* Enqueues any radius as two kernels, with the columns' sums in `summed` between them. */
int blur_wide(const uint8_t *in, uint8_t *out, float *summed, const blur_geometry &image, const blur_weights &weights,
              cudaStream_t stream);
int blur_wide(const float *in, float *out, float *summed, const blur_geometry &image, const blur_weights &weights,
              cudaStream_t stream);

#endif
