/*
 * What the kernels of resize_words.cu and resize_tiles.cu share: words of four neighbouring samples that are picked out of
 * eight bytes of a row of the source, and mixed.
 *
 * Where a row shrinks to no less than half, the first samples that four neighbours take from a row lie within eight bytes, at
 * most two pixels further for each pixel of the result, and so do the second ones. Both lie within the same eight bytes unless
 * pixels have three channels and the row shrinks.
 */
#ifndef FRAMED_GPU_STAGES_RESIZE_MIX_CUH
#define FRAMED_GPU_STAGES_RESIZE_MIX_CUH

#include "gpu/stages/bytes.cuh"

extern "C" {
#include "gpu/stages/resize/resize.h"
}

namespace {

enum { SAMPLES = 4 /* that a thread makes at a time */, WINDOW = 8 /* bytes that they are picked out of */ };

/* Of a column: its two samples of a row, the weight of the second times 4. Of a row: the two rows, and both weights. */
struct alignas(16) position {
  uint32_t first, second, weight;
  uint32_t inside; /* the window: all bits, or none */
};

/* What a thread needs to know of its four columns. */
struct columns {
  uint32_t first_base, second_base; /* of the eight bytes in a row of the source */
  uint32_t firsts, seconds;         /* which of them the samples are, as __byte_perm() wants it */
  uint32_t weights[SAMPLES];
  uint32_t inside; /* mask of the bytes that lie in the window */
};

/* Where the eight bytes begin that all samples lie in. */
__device__ __forceinline__ uint32_t first_base(const position *four, uint32_t in_row) {
  return min(min(min(four[0].first, four[1].first), min(four[2].first, four[3].first)), in_row - WINDOW);
}
__device__ __forceinline__ uint32_t second_base(const position *four, uint32_t in_row) {
  return min(min(min(four[0].second, four[1].second), min(four[2].second, four[3].second)), in_row - WINDOW);
}

__device__ __forceinline__ columns gather(const position *four, uint32_t first_base, uint32_t second_base) {
  columns result = {first_base, second_base, 0, 0, {0, 0, 0, 0}, 0};
#pragma unroll
  for (int i = 0; i < SAMPLES; i++) {
    result.firsts |= ((four[i].first - result.first_base) & 7U) << 4 * i;
    result.seconds |= ((four[i].second - result.second_base) & 7U) << 4 * i;
    result.weights[i] = four[i].weight;
    result.inside |= four[i].inside & 0xffU << 8 * i;
  }
  return result;
}

/* Words of a row as they were read, and how far the eight bytes lie behind their start. */
struct raw_bytes {
  uint32_t words[3];
  uint32_t shift;
};

__device__ __forceinline__ uint32_t pick(const raw_bytes &raw, uint32_t which) {
  return __byte_perm(__funnelshift_r(raw.words[0], raw.words[1], raw.shift),
                     __funnelshift_r(raw.words[1], raw.words[2], raw.shift), which);
}

/* The four first and the four second samples of a row. */
struct picked {
  uint32_t firsts, seconds;
};

/* Two samples of each of two rows, in the order upper, lower, upper, lower: mixed as resize_mix_rows() does, times 8, which
 * leaves the bits where they are. */
struct mixed_pair {
  uint32_t even, odd;
};

__device__ __forceinline__ mixed_pair mix_rows(uint32_t bytes, uint32_t weights) {
  constexpr uint32_t fraction = RESIZE_ONE / 256 - 1;
  return {__dp2a_lo(weights, bytes, uint32_t(RESIZE_ONE / 512)) & ~fraction,
          __dp2a_hi(weights, bytes, uint32_t(RESIZE_ONE / 512)) & ~fraction};
}

/* resize_mix_columns() with everything times 32, which puts the level into the highest byte; the weight times 4. */
__device__ __forceinline__ uint32_t mix_columns(uint32_t left, uint32_t right, uint32_t weight) {
  static_assert(RESIZE_ONE == 2048, "the level's place");
  return left * (RESIZE_ONE * 4U - weight) + (right * weight + RESIZE_ONE * 128U * 32U);
}

__device__ __forceinline__ uint32_t join_highest(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0073U), __byte_perm(c, d, 0x0073U), 0x5410U);
}

__device__ __forceinline__ uint32_t mix(const columns &at, const picked &upper, const picked &lower, uint32_t weights) {
  const mixed_pair left[2] = {mix_rows(__byte_perm(upper.firsts, lower.firsts, 0x5140U), weights),
                              mix_rows(__byte_perm(upper.firsts, lower.firsts, 0x7362U), weights)};
  const mixed_pair right[2] = {mix_rows(__byte_perm(upper.seconds, lower.seconds, 0x5140U), weights),
                               mix_rows(__byte_perm(upper.seconds, lower.seconds, 0x7362U), weights)};
  return join_highest(
      mix_columns(left[0].even, right[0].even, at.weights[0]), mix_columns(left[0].odd, right[0].odd, at.weights[1]),
      mix_columns(left[1].even, right[1].even, at.weights[2]), mix_columns(left[1].odd, right[1].odd, at.weights[3]));
}

} // namespace

#endif
