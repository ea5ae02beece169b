/*
 * Bytes within words: the instructions that take a byte out of a word, or put four into one, at the full rate.
 *
 * A byte below the exponent of 2^23 is a float already: 2^23 plus the byte. Differences of such floats need no more; for
 * the byte itself, 2^23 is subtracted.
 */
#ifndef FRAMED_GPU_STAGES_BYTES_CUH
#define FRAMED_GPU_STAGES_BYTES_CUH

#include "gpu/stages/launch.cuh"

constexpr float bytes_bias = 8388608.0F;

/* 2^23 plus byte `index` of a word. */
static __device__ __forceinline__ float bytes_biased(uint32_t word, int index) {
  return __uint_as_float(__byte_perm(word, 0x4b000000U, 0x7440U + uint32_t(index)));
}

static __device__ __forceinline__ float bytes_float(uint32_t word, int index) { return bytes_biased(word, index) - bytes_bias; }

/* The level of a number that is not below 0, as arithmetic_level() rounds it, in the lowest byte; the others are not 0. */
static __device__ __forceinline__ uint32_t bytes_level(float value) {
  return __float_as_uint(__fadd_rz(fminf(value, 255.0F) + 0.5F, bytes_bias));
}

/* The lowest bytes of four words as one. */
static __device__ __forceinline__ uint32_t bytes_join(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0040U), __byte_perm(c, d, 0x0040U), 0x5410U);
}

#endif
