/*
 * work: n rounds of v = sin(v) * cos(v) + v, to load the device by a known amount.
 *
 * Sine and cosine are evaluated here and not by a library, so that both backends give the same bits and the C
 * compiler can vectorise the rounds. The product is within 1e-7 of the true one up to |v| = 8192; beyond, its
 * error is under 1e-7 of |v|, which is how finely floats of that size are spaced.
 * 8 bit samples are mapped to 0..1 and back; infinities become NaN, as sin(infinity) is.
 */
#ifndef FRAMED_GPU_STAGES_WORK_H
#define FRAMED_GPU_STAGES_WORK_H

#include "gpu/stages/arithmetic.h"

struct work_constants {
  uint32_t rounds;
};

extern const struct stage_descriptor work_stage;

int work_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

/* One round. The argument is reduced by quarter turns in three steps whose products are exact for small counts;
 * an odd count of them changes only the sign of sin * cos. */
STAGE_INLINE float work_round(float v) {
  const float shifted = v * 0.636619772F + 12582912.0F; /* 2 / pi; the sum's low bits are the nearest integer */
  const float turns = shifted - 12582912.0F;
  float r = ((v - turns * 1.5703125F) - turns * 4.83751297e-4F) - turns * 7.54978999e-8F;
  r = r > 0.79F ? 0.79F : r; /* in range already unless |v| is huge; a NaN passes both lines */
  r = r < -0.79F ? -0.79F : r;
  const float square = r * r;
  const float sine =
      r + r * square * (-1.66666667e-1F + square * (8.33333333e-3F + square * (-1.98412698e-4F + square * 2.75573e-6F)));
  const float cosine =
      1.0F + square * (-0.5F + square * (4.16666667e-2F + square * (-1.38888889e-3F + square * 2.48015873e-5F)));
  const float product = sine * cosine;
  const uint32_t sign = arithmetic_bits(shifted) << 31;
  return arithmetic_from_bits(arithmetic_bits(product) ^ sign) + v;
}

STAGE_INLINE float work_from_byte(uint8_t value) { return (float)value * (1.0F / 255.0F); }
STAGE_INLINE uint8_t work_to_byte(float value) { return arithmetic_level(value * 255.0F); }

#endif
