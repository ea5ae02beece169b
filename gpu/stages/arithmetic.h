/*
 * Arithmetic that several stages share; each function gives the same bits on both backends.
 *
 * No function branches on data: comparisons are written as selections, which both compilers turn into minimum,
 * maximum and mask instructions, so that the C compiler can vectorise the loops around them.
 */
#ifndef FRAMED_GPU_STAGES_ARITHMETIC_H
#define FRAMED_GPU_STAGES_ARITHMETIC_H

#include "gpu/stage.h"

/* A float and its bits. (No memcpy: its checked form keeps the C compiler from vectorising the loop around it.) */
union arithmetic_word {
  float number;
  uint32_t bits;
};

STAGE_INLINE uint32_t arithmetic_bits(float number) {
  union arithmetic_word word;
  word.number = number;
  return word.bits;
}

STAGE_INLINE float arithmetic_from_bits(uint32_t bits) {
  union arithmetic_word word;
  word.bits = bits;
  return word.number;
}

/* Limits a value to [low, high]; what is not a number becomes `low`. */
STAGE_INLINE float arithmetic_clamp(float value, float low, float high) {
#ifdef __CUDA_ARCH__
  return fminf(fmaxf(value, low), high); /* the same, an instruction each */
#else
  float above = value > low ? value : low;
  return above < high ? above : high;
#endif
}

/* a * b + c where floats hold the product exactly, so that one rounding and two are the same. */
STAGE_INLINE float arithmetic_add_exact(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}

/* The whole part of a number from 0 to 2^22. GPUs convert at an eighth of the rate at which they add: towards zero, what
 * is added to 2^23 lands in the lowest bits of the sum. */
STAGE_INLINE uint32_t arithmetic_whole(float value) {
#ifdef __CUDA_ARCH__
  return arithmetic_bits(__fadd_rz(value, 8388608.0F)) - 0x4b000000U;
#else
  return (uint32_t)(int32_t)value;
#endif
}

/* The nearest 8 bit level, halves upwards, saturating; what is not a number becomes 0. */
STAGE_INLINE uint8_t arithmetic_level(float value) {
  return (uint8_t)arithmetic_whole(arithmetic_clamp(value, 0.0F, 255.0F) + 0.5F);
}

/* e to the power of x, to within some units of the last place; limited to what floats have beyond -87 and 88, and the least
 * of that for what is not a number. */
STAGE_INLINE float arithmetic_exp(float x) {
  const float within = arithmetic_clamp(x, -87.0F, 88.0F);
  const float twos = within * 1.44269504F + 12582912.0F - 12582912.0F; /* rounded to a whole number */
  const float rest = within - twos * 0.693359375F + twos * 2.12194440e-4F;
  float sum = 1.0F / 5040.0F;
  sum = sum * rest + 1.0F / 720.0F;
  sum = sum * rest + 1.0F / 120.0F;
  sum = sum * rest + 1.0F / 24.0F;
  sum = sum * rest + 1.0F / 6.0F;
  sum = sum * rest + 0.5F;
  sum = sum * rest + 1.0F;
  sum = sum * rest + 1.0F;
  return sum * arithmetic_from_bits((uint32_t)((int32_t)twos + 127) << 23);
}

/* The nearest float16, as its bits; at a tie the even one. */
STAGE_INLINE uint16_t arithmetic_half(float value) {
#ifdef __CUDA_ARCH__
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#else
  const uint32_t bits = arithmetic_bits(value);
  const uint32_t size = bits & 0x7fffffffU;
  const uint32_t usual = (size - 0x38000000U + 0xfffU + (size >> 13 & 1U)) >> 13;
  const uint32_t small = arithmetic_bits(arithmetic_from_bits(size) + 0.5F) - 0x3f000000U; /* its last place is that of 0.5 */
  uint32_t half = size < 0x38800000U ? small : usual;
  half = size >= 0x477ff000U ? 0x7c00U : half;
  half = size > 0x7f800000U ? 0x7fffU : half;
  return (uint16_t)(size > 0x7f800000U ? half : half | (bits >> 16 & 0x8000U));
#endif
}

#endif
