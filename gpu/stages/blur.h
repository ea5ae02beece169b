/*
 * Arithmetic of `blur`: a Gaussian, first down the columns, then along the rows, as cv2.GaussianBlur.
 *
 * The weight at distance k is exp(-k * k / (2 * sigma * sigma)), cut off at the radius; all weights sum to 1. Both
 * passes work in single precision, from the middle outwards, the two samples at one distance being added first; bytes
 * are rounded once at the end, halves upwards. Beyond the edges lies the mirror image (border.h).
 */
#ifndef FRAMED_GPU_STAGES_BLUR_H
#define FRAMED_GPU_STAGES_BLUR_H

#include "gpu/stages/arithmetic.h"

/* Up to the second radius the GPU needs no scratch memory. */
enum { BLUR_MAX_RADIUS = 256, BLUR_TILE_RADIUS = 12 };

struct blur_constants {
  uint32_t radius;
  uint32_t channels;
  double ratio; /* weight at distance 1 over that at distance 0 */
};

/* Weights by distance; more than a plan can hold, so they are made for each frame. */
struct blur_weights {
  float at[BLUR_MAX_RADIUS + 1];
};

/* With products alone, since they are the same on every processor: the weights are ratio to the power of k * k. */
static inline struct blur_weights blur_make_weights(const struct blur_constants *constants) {
  double exact[BLUR_MAX_RADIUS + 1] = {1};
  double sum = 1;
  double step = constants->ratio;
  for (uint32_t k = 1; k <= constants->radius; k++) {
    exact[k] = exact[k - 1] * step;
    step *= constants->ratio * constants->ratio;
    sum += 2 * exact[k];
  }
  struct blur_weights weights;
  for (uint32_t k = 0; k <= constants->radius; k++) {
    weights.at[k] = (float)(exact[k] / sum);
  }
  return weights;
}

/* Adds the sum of the two samples at one distance to what the nearer ones gave. */
STAGE_INLINE float blur_add(float sum, float both, float weight) { return sum + weight * both; }

extern const struct stage_descriptor blur_stage;

int blur_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

#endif
