/*
 * Arithmetic of `convert`: from any pixel format to any other, in whole numbers.
 *
 * What the formats mean, as ffmpeg has it: gray, grayf32le and RGB use the full range, so luma is expanded on its
 * way to gray; the YUV formats use the range that the parameter says. grayf32le is gray / 255; on its way to any other
 * format it is rounded to 8 bits first. Chroma sits in the middle of the pixels it covers: it is repeated for each of
 * them on the way up, and their average on the way down (pixels that an odd size lacks count as copies of the last).
 * From one YUV format to another no level changes.
 *
 * Levels are kept in 1/32 (int16_t), coefficients as parts of 8192, and each product is rounded to 1/32 once. No level differs
 * from swscale's by more than 1, nor the mean of a picture by more than 0.1, with the flags
 * `accurate_rnd+full_chroma_int+full_chroma_inp` and `neighbor` where chroma goes up, `area` where it goes down. swscale does
 * three things otherwise: it scales chroma of odd sizes by a little more or less than 2, lets colours that RGB cannot hold wrap
 * around, and makes floats of limited luma, unless they go through gray.
 */
#ifndef FRAMED_GPU_STAGES_CONVERT_H
#define FRAMED_GPU_STAGES_CONVERT_H

#include "gpu/stages/arithmetic.h"

enum { CONVERT_ONE = 32 /* one level */, CONVERT_WHITE = 255 * CONVERT_ONE };

/* All coefficients are k * 8192 and fit int16_t; offsets are in levels. */
struct convert_constants {
  int16_t gray[3]; /* RGB to gray */
  int16_t luma[3]; /* RGB to luma */
  int16_t cb[3];   /* RGB to the chromas */
  int16_t cr[3];
  int16_t compress; /* gray to luma */
  int16_t expand;   /* luma to gray */
  int16_t red_cr, green_cb, green_cr, blue_cb;
  int16_t black; /* luma of black: 16 or 0 */
};

/* Levels times 128, or in 1/32: numbers of 16 bits, which the CPU takes as such, many at once, and a GPU as words. */
#ifdef __CUDA_ARCH__
typedef int32_t convert_value;
#else
typedef int16_t convert_value;
#endif

/* Level (0 to 255, or a difference of levels) times coefficient, in 1/32 of a level. The level comes times 128;
 * for the CPU written so that compilers find the instruction for a rounded high product. */
STAGE_INLINE convert_value convert_multiply(convert_value level128, int16_t coefficient) {
#ifdef __CUDA_ARCH__
  return (level128 * coefficient + (1 << 14)) >> 15;
#else
  return (int16_t)(((((int32_t)level128 * coefficient) >> 14) + 1) >> 1);
#endif
}

/* From 1/32 of a level to a level, saturating. */
STAGE_INLINE uint8_t convert_level(convert_value value) {
#ifdef __CUDA_ARCH__
  return (uint8_t)max(0, min(255, (value + CONVERT_ONE / 2) >> 5));
#else
  int16_t level = (int16_t)((int16_t)(value + CONVERT_ONE / 2) >> 5);
  level = level < 0 ? (int16_t)0 : level;
  level = level > 255 ? (int16_t)255 : level;
  return (uint8_t)level;
#endif
}

/* Three levels times 128, weighted. */
STAGE_INLINE convert_value convert_weigh(const int16_t weights[3], convert_value red, convert_value green, convert_value blue) {
  return (convert_value)(convert_multiply(red, weights[0]) + convert_multiply(green, weights[1]) +
                         convert_multiply(blue, weights[2]));
}

/* Levels times 128, here and below. */
STAGE_INLINE convert_value convert_rgb_to_gray(const struct convert_constants *k, convert_value red, convert_value green,
                                               convert_value blue) {
  return convert_weigh(k->gray, red, green, blue);
}

STAGE_INLINE uint8_t convert_rgb_to_luma(const struct convert_constants *k, convert_value red, convert_value green,
                                         convert_value blue) {
  return convert_level((convert_value)(convert_weigh(k->luma, red, green, blue) + k->black * CONVERT_ONE));
}

/* One chroma (weights: cb or cr) of the average colour of some pixels. */
STAGE_INLINE uint8_t convert_rgb_to_chroma(const int16_t weights[3], convert_value red, convert_value green,
                                           convert_value blue) {
  return convert_level((convert_value)(convert_weigh(weights, red, green, blue) + 128 * CONVERT_ONE));
}

STAGE_INLINE convert_value convert_luma_to_gray(const struct convert_constants *k, uint8_t luma) {
  return convert_multiply((convert_value)((luma - k->black) * 128), k->expand);
}

STAGE_INLINE uint8_t convert_gray_to_luma(const struct convert_constants *k, uint8_t gray) {
  return convert_level((convert_value)(convert_multiply((convert_value)(gray * 128), k->compress) + k->black * CONVERT_ONE));
}

/* Chroma, times 128, as the other functions of this group want it. */
STAGE_INLINE convert_value convert_chroma(uint8_t chroma) { return (convert_value)((chroma - 128) * 128); }

/* What chroma adds to gray, all in 1/32 of a level. */
STAGE_INLINE convert_value convert_red_shift(const struct convert_constants *k, convert_value cr) {
  return convert_multiply(cr, k->red_cr);
}

STAGE_INLINE convert_value convert_green_shift(const struct convert_constants *k, convert_value cb, convert_value cr) {
  return (convert_value)(-convert_multiply(cb, k->green_cb) - convert_multiply(cr, k->green_cr));
}

STAGE_INLINE convert_value convert_blue_shift(const struct convert_constants *k, convert_value cb) {
  return convert_multiply(cb, k->blue_cb);
}

/* Gray in 1/32 of a level to 0..1. Division takes a GPU long: multiplying by the inverse and adding what is left, times the
 * inverse, gives the same for every number that there is. */
STAGE_INLINE float convert_gray_to_float(convert_value gray) {
#ifdef __CUDA_ARCH__
  const float inverse = 1.0F / CONVERT_WHITE;
  const float whole = __int_as_float(0x4b000000 + max(0, min(CONVERT_WHITE, gray))) - 8388608.0F;
  const float near = whole * inverse;
  return __fmaf_rn(__fmaf_rn(-near, float(CONVERT_WHITE), whole), inverse, near);
#else
  convert_value floor = gray < 0 ? (convert_value)0 : gray;
  return (float)(floor > CONVERT_WHITE ? (convert_value)CONVERT_WHITE : floor) / (float)CONVERT_WHITE;
#endif
}

/* 0..1 to a level; what is no number is black. */
STAGE_INLINE uint8_t convert_float_to_gray(float value) {
  return (uint8_t)arithmetic_whole(arithmetic_clamp(value, 0.0F, 1.0F) * 255.0F + 0.5F);
}

extern const struct stage_descriptor convert_stage;

int convert_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

#endif
