/*
 * affine: out = in * scale + offset, on every sample of every format.
 *
 * 8 bit samples are rounded to the nearest level, halves upwards, and saturate at 0 and 255. The sum is formed
 * in single precision, product first, each step rounded once.
 */
#ifndef FRAMED_GPU_STAGES_AFFINE_H
#define FRAMED_GPU_STAGES_AFFINE_H

#include "gpu/stages/arithmetic.h"

struct affine_constants {
  float scale, offset;
};

extern const struct stage_descriptor affine_stage;

int affine_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

STAGE_INLINE float affine_float(float value, struct affine_constants constants) {
  return value * constants.scale + constants.offset;
}

STAGE_INLINE uint8_t affine_byte(uint8_t value, struct affine_constants constants) {
  return arithmetic_level(affine_float((float)value, constants));
}

#endif
