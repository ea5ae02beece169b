/*
 * Arithmetic of `blur`: a Gaussian, first down the columns, then along the rows, as cv2.GaussianBlur.
 *
 * The weight at distance k is exp(-k * k / (2 * sigma * sigma)), cut off at the radius; all weights sum to 1. Floats are
 * added in single precision, from the middle outwards, the two samples at one distance being added first.
 *
 * For bytes the weights are multiples of 1/8192, chosen so that the sum from any distance outwards is as near as it can be
 * and all of them sum to 1; what the columns give is rounded to 1/8 of a level, what the rows give to a level, halves
 * upwards. Every product and every sum then has 24 bits at most and is exact in floats as in integers, in any order, with
 * multiply and add in one step or in two. Rounded weights change a result by less than 0.3 of a level
 * up to sigma 4, whatever the image shows; for any sigma they change noise by 0.12 of a level (root mean square) at most,
 * and pictures by less.
 *
 * Beyond the edges lies the mirror image (border.h).
 */
#ifndef FRAMED_GPU_STAGES_BLUR_H
#define FRAMED_GPU_STAGES_BLUR_H

#include "gpu/record/parameters.h"
#include "gpu/stages/arithmetic.h"

/* Steps of the weights and of the columns' sums, for bytes. */
#define BLUR_UNIT 8192.0F
#define BLUR_STEP 8.0F

struct blur_constants {
  uint32_t radius;
  uint32_t channels;
  double ratio; /* weight at distance 1 over that at distance 0 */
  uint32_t floats;
};

/* Weights by distance; more than a plan can hold, so they are made for each frame. */
struct blur_weights {
  float at[BLUR_MAX_RADIUS + 1];
};

/* Multiples of 1 / BLUR_UNIT from weights that sum to `sum`: each is the difference of two rounded sums of the outer ones. They
 * have 11 bits, as the GPU's 16 bit floats: where one is above a half, or one beside the middle about a quarter, all are even.
 */
static inline void blur_round_weights(const double *exact, double sum, uint32_t radius, float *weights) {
  const double unit = exact[0] > sum * 0.5 || exact[1] > sum * 0.249 ? 2 : 1;
  double outer = 0;
  double rounded = 0;
  for (uint32_t k = radius; k > 0; k--) {
    outer += exact[k];
    double next = (double)(int32_t)(outer / sum * (double)BLUR_UNIT / unit + 0.5) * unit;
    weights[k] = (float)(next - rounded) / BLUR_UNIT;
    rounded = next;
  }
  weights[0] = 1.0F - 2.0F * (float)rounded / BLUR_UNIT;
}

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
  if (!constants->floats) {
    blur_round_weights(exact, sum, constants->radius, weights.at);
  }
  return weights;
}

/* Adds the sum of the two samples at one distance to what the nearer ones gave. */
STAGE_INLINE float blur_add(float sum, float both, float weight) { return sum + weight * both; }

/* What the columns of bytes give, rounded: below 2^20, floats have steps of 1 / BLUR_STEP once that is added. Half a step
 * of the sum's decides where it lies between two. */
STAGE_INLINE float blur_round_sum(float sum) {
  const float coarse = 8388608.0F / BLUR_STEP;
  return ((sum + 0.5F / BLUR_UNIT) + coarse) - coarse;
}

extern const struct stage_descriptor blur_stage;

/* Not 0 in tests alone: the GPU's fast kernel shares its work out as if the device had so many processors, so that small frames
 * show what is wrong. */
extern int32_t blur_pretended_processors;

int blur_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

#endif
