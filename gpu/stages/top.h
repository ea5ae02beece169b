/*
 * top: the classes with the largest scores, best first, at a tie the lower one first: float32 [k, 2] of class and score.
 *
 * With softmax, scores are shares of 1: exp(score - largest) over the sum of that for all. The sum is formed in TOP_LANES
 * lanes (lane l adds l, l + TOP_LANES, ... in that order), which are added pairwise, l with l + width for width = half the
 * lanes down to 1, so that it does not depend on how many threads run. Scores beyond what is finite count as the largest float
 * or its negative, and what is not a number as the latter.
 */
#ifndef FRAMED_GPU_STAGES_TOP_H
#define FRAMED_GPU_STAGES_TOP_H

#include "gpu/record/parameters.h"
#include "gpu/stages/arithmetic.h"

enum { TOP_LANES = 1024, TOP_ROW = 2 };

struct top_constants {
  uint32_t classes, k;
  bool softmax;
};

extern const struct stage_descriptor top_stage;

int top_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

STAGE_INLINE float top_score(float value) { return arithmetic_clamp(value, -3.40282347e38F, 3.40282347e38F); }

/* Orders classes: greater scores first, then the lower class. Never 0. */
STAGE_INLINE unsigned long long top_key(float score, uint32_t index) {
  const uint32_t bits = arithmetic_bits(score + 0.0F); /* both zeros are one */
  const uint32_t ordered = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
  return (unsigned long long)ordered << 32 | (0xffffffffU - index);
}

STAGE_INLINE uint32_t top_key_class(unsigned long long key) { return 0xffffffffU - (uint32_t)key; }

STAGE_INLINE float top_key_score(unsigned long long key) {
  const uint32_t ordered = (uint32_t)(key >> 32);
  return arithmetic_from_bits(ordered & 0x80000000U ? ordered & 0x7fffffffU : ~ordered);
}

STAGE_INLINE float top_power(float value, float largest) { return arithmetic_exp(top_score(value) - largest); }

STAGE_INLINE void top_write(const struct top_constants *constants, unsigned long long key, float largest, float sum,
                            float *row) {
  const float score = top_key_score(key);
  row[0] = (float)top_key_class(key);
  row[1] = constants->softmax ? arithmetic_exp(score - largest) / sum : score;
}

#endif
