/*
 * Arithmetic of `sobel`: the gradient of gray over 3 by 3 pixels, its components as cv2.Sobel gives them.
 *
 * `magnitude` is the Euclidean length of the gradient (L2); `x` and `y` are the sizes of its components. For 8 bits
 * the components are whole numbers and so are their squares' sums, which floats hold exactly; the root is rounded once,
 * scaled once, and rounded to a level, halves upwards, saturating. Beyond the edges lies the mirror image (border.h).
 */
#ifndef FRAMED_GPU_STAGES_SOBEL_H
#define FRAMED_GPU_STAGES_SOBEL_H

#include "gpu/record/parameters.h"
#include "gpu/stages/arithmetic.h"

#include <math.h>

struct sobel_constants {
  int32_t output; /* enum sobel_output */
  float scale;
};

/* A component of the gradient, from the differences across three neighbouring rows or columns. */
STAGE_INLINE float sobel_component(float first, float middle, float last) { return first + 2.0F * middle + last; }

/* The root of a whole number below 2^24, rounded to nearest. On GPUs by the steps that their library takes, an
 * approximation made exact, but without its case for what is not normal: 0. */
STAGE_INLINE float sobel_root(float square) {
#ifdef __CUDA_ARCH__
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fmaxf(square, 1.0F)));
  const float root = square * inverse;
  return __fmaf_rn(__fmaf_rn(-root, root, square), 0.5F * inverse, root);
#else
  return sqrtf(square);
#endif
}

/* What is rounded to a level; at least 0. */
STAGE_INLINE float sobel_size(int32_t output, float scale, float x, float y) {
  if (output == SOBEL_MAGNITUDE) {
    return sobel_root(arithmetic_add_exact(x, x, y * y)) * scale;
  }
  return fabsf(output == SOBEL_X ? x : y) * scale;
}

STAGE_INLINE uint8_t sobel_byte(int32_t output, float scale, float x, float y) {
  return arithmetic_level(sobel_size(output, scale, x, y));
}

STAGE_INLINE float sobel_float(int32_t output, float scale, float x, float y) {
  if (output == SOBEL_MAGNITUDE) {
    return sqrtf(x * x + y * y) * scale;
  }
  return fabsf(output == SOBEL_X ? x : y) * scale;
}

extern const struct stage_descriptor sobel_stage;

int sobel_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

#endif
