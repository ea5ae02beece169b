/*
 * resize: bilinear of bytes, four neighbouring samples at a time, where no row loses more than half.
 *
 * The first samples that four neighbours take from a row of the source lie within eight bytes then, at most two pixels further
 * for each pixel of the result, and so do the second ones. Both lie within the same eight bytes unless pixels have three
 * channels and the row shrinks. One instruction picks four of eight bytes, and one adds two products.
 */
#ifndef FRAMED_GPU_STAGES_RESIZE_WORDS_CUH
#define FRAMED_GPU_STAGES_RESIZE_WORDS_CUH

#include "gpu/stages/resize/resize_filters.cuh"

namespace {

enum { RESIZE_WORD = 4 };

/* n / divisor is n * factor / 2^(32 + shift) for n below 2^31. */
struct resize_inverse {
  uint32_t factor, shift;
  __device__ __forceinline__ uint32_t divide(uint32_t n) const { return __umulhi(n, factor) >> shift; }
};

/* The filter. APART: the windows may be. Its positions are those of resize_mix, from products with the inverse of 2 * out,
 * where in * out is below 2^30. */
template <bool APART> struct resize_mix_words : resize_mix {
  using resize_mix::find;
  static __device__ __forceinline__ position find(uint32_t x, uint32_t in, uint32_t out, const resize_inverse &twice) {
    const uint32_t centre = (2 * x + 1) * in, distance = centre > out ? centre - out : 0;
    const uint32_t first = twice.divide(distance), part = distance - first * 2 * out;
    return {first, min(first + 1, in - 1), twice.divide(part * RESIZE_ONE + out)};
  }
};

/* Eight bytes of a row: where they begin, as a whole word and the rest in bits. */
struct resize_window {
  uint32_t word, shift;

  resize_window() = default;
  __device__ __forceinline__ explicit resize_window(uint32_t base) : word(base / RESIZE_WORD), shift(base % RESIZE_WORD * 8) {}
  __device__ __forceinline__ uint2 load(const uint32_t *row) const {
    const uint32_t first = row[word], second = row[word + 1], third = row[word + 2];
    return {__funnelshift_r(first, second, shift), __funnelshift_r(second, third, shift)};
  }
};

/* The mixed rows that resize_mix_rows() makes times 8, which leaves the bits where they are: the first two, and the others, of
 * two samples of each row in the order upper, lower, upper, lower. */
__device__ __forceinline__ uint32_t resize_rows_low(uint32_t bytes, uint32_t weights) {
  return __dp2a_lo(weights, bytes, uint32_t(RESIZE_ONE / 512)) & ~uint32_t(RESIZE_ONE / 256 - 1);
}
__device__ __forceinline__ uint32_t resize_rows_high(uint32_t bytes, uint32_t weights) {
  return __dp2a_hi(weights, bytes, uint32_t(RESIZE_ONE / 512)) & ~uint32_t(RESIZE_ONE / 256 - 1);
}

/* resize_mix_columns() of such rows, times 32, which puts the level into the highest byte; the weight is times 4. */
__device__ __forceinline__ uint32_t resize_high_level(uint32_t left, uint32_t right, uint32_t weight) {
  static_assert(RESIZE_ONE == 2048, "the level's place");
  return left * (RESIZE_ONE * 4U - weight) + (right * weight + RESIZE_ONE * 128U * 32U);
}

/* The four columns of a thread. */
template <bool APART> struct resize_columns {
  resize_window first, second;   /* the same unless they are APART */
  uint32_t firsts, seconds;      /* which bytes of them are taken, as __byte_perm() wants it */
  uint32_t weights[RESIZE_WORD]; /* of the second samples, times 4 */

  resize_columns() = default;
  __device__ __forceinline__ resize_columns(const uint32_t (&left)[RESIZE_WORD], const uint32_t (&right)[RESIZE_WORD],
                                            const uint32_t (&all)[RESIZE_WORD])
      : first(least(left)), second(APART ? least(right) : least(left)), firsts(0), seconds(0) {
#pragma unroll
    for (int i = 0; i < RESIZE_WORD; i++) {
      firsts |= ((left[i] - least(left)) & 7U) << 4 * i;
      seconds |= ((right[i] - least(APART ? right : left)) & 7U) << 4 * i;
      weights[i] = all[i];
    }
  }
  static __device__ __forceinline__ uint32_t least(const uint32_t (&samples)[RESIZE_WORD]) {
    return min(min(samples[0], samples[1]), min(samples[2], samples[3]));
  }

  /* The levels of four samples, from two rows of the source with both their weights. */
  __device__ __forceinline__ uint32_t mix(const uint32_t *upper, const uint32_t *lower, uint32_t rows) const {
    const uint2 above = first.load(upper), below = first.load(lower);
    const uint2 above_right = APART ? second.load(upper) : above, below_right = APART ? second.load(lower) : below;
    const uint32_t a = __byte_perm(above.x, above.y, firsts), b = __byte_perm(below.x, below.y, firsts);
    const uint32_t c = __byte_perm(above_right.x, above_right.y, seconds);
    const uint32_t d = __byte_perm(below_right.x, below_right.y, seconds);
    uint32_t levels[RESIZE_WORD];
#pragma unroll
    for (int i = 0; i < RESIZE_WORD; i += 2) {
      const uint32_t order = i == 0 ? 0x5140U : 0x7362U;
      const uint32_t left = __byte_perm(a, b, order), right = __byte_perm(c, d, order);
      levels[i] = resize_high_level(resize_rows_low(left, rows), resize_rows_low(right, rows), weights[i]);
      levels[i + 1] = resize_high_level(resize_rows_high(left, rows), resize_rows_high(right, rows), weights[i + 1]);
    }
    return __byte_perm(__byte_perm(levels[0], levels[1], 0x0073U), __byte_perm(levels[2], levels[3], 0x0073U), 0x5410U);
  }
};

} // namespace

#endif
