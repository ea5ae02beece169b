/*
 * threshold: compares each sample with a level; what is strictly above it, and the rest, become different things.
 *
 *   mode      above the level   the rest
 *   binary    high              low
 *   truncate  level             the sample
 *   to_zero   the sample        low
 *
 * A NaN is never above. On 8 bit formats the comparison is with the level as given (99 is not above 99.5), and
 * what is written is rounded to the nearest level, halves upwards.
 */
#ifndef FRAMED_GPU_STAGES_THRESHOLD_H
#define FRAMED_GPU_STAGES_THRESHOLD_H

#include "gpu/stages/arithmetic.h"

/* One of the two outcomes: `value`, or the sample itself. For bytes the choice is a mask, 0 or 255. */
struct threshold_side {
  float value;
  bool keep;
  uint8_t byte_value; /* 0 where the sample is kept */
  uint8_t byte_keep;
};

struct threshold_constants {
  float level;
  uint8_t byte_level; /* whole part of the level: v > 99.5 and v > 99 are the same for whole v */
  struct threshold_side above, rest;
};

extern const struct stage_descriptor threshold_stage;

int threshold_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

STAGE_INLINE float threshold_float(float value, struct threshold_constants constants) {
  float above = constants.above.keep ? value : constants.above.value;
  float rest = constants.rest.keep ? value : constants.rest.value;
  return value > constants.level ? above : rest;
}

STAGE_INLINE uint8_t threshold_byte(uint8_t value, struct threshold_constants constants) {
  uint8_t above = (uint8_t)((value & constants.above.byte_keep) | constants.above.byte_value);
  uint8_t rest = (uint8_t)((value & constants.rest.byte_keep) | constants.rest.byte_value);
  return value > constants.byte_level ? above : rest;
}

#endif
