/*
 * resize: what one sample of the result is made of, for the kernel in resize.cu.
 *
 * A filter has a position, found once for each column and each row of a block, and makes a sample at a column and a row. The
 * sums go down the columns first, then along the row, each in the order of the samples (resize.h).
 */
#ifndef FRAMED_GPU_STAGES_RESIZE_FILTERS_CUH
#define FRAMED_GPU_STAGES_RESIZE_FILTERS_CUH

#include "gpu/stages/bytes.cuh"

extern "C" {
#include "gpu/stages/resize/resize.h"
}

namespace {

/* The samples of one channel of a plane: all in global memory, with 64 bit indices, or a rectangle in shared memory. */
template <typename Sample, typename Index> struct resize_source {
  const Sample *samples;
  Index row, offset;
  uint32_t step;
  __device__ __forceinline__ Sample at(uint32_t x, uint32_t y) const {
    const Sample *sample = samples + (y * row + (x * step + offset));
    if constexpr (sizeof(Index) == 8) {
      return __ldg(sample);
    }
    return *sample;
  }
};

__device__ __forceinline__ float resize_value(float sample) { return sample; }
__device__ __forceinline__ float resize_value(uint8_t sample) { return __uint_as_float(0x4b000000U | sample) - bytes_bias; }
__device__ __forceinline__ void resize_round(float value, float &sample) { sample = value; }
__device__ __forceinline__ void resize_round(float value, uint8_t &sample) { sample = uint8_t(bytes_level(value)); }

__device__ __forceinline__ void resize_bar(float fill, float &sample) { sample = fill; }
__device__ __forceinline__ void resize_bar(float fill, uint8_t &sample) { sample = arithmetic_level(fill); }

/* ROWS are made together, so that their loads do not wait for one another. */
struct resize_pick {
  enum { ROWS = 4 };
  struct position {
    uint32_t first, last;
  };
  static __device__ position find(uint32_t x, uint32_t in, uint32_t out) {
    const uint32_t first = resize_nearest(x, in, out);
    return {first, first};
  }
  template <typename Source, typename Sample>
  static __device__ __forceinline__ void make(const Source &in, const position &column, const position &row, Sample &to) {
    to = in.at(column.first, row.first);
  }
};

/* Bilinear of bytes. */
struct resize_mix {
  enum { ROWS = 1 };
  struct alignas(16) position {
    uint32_t first, last, weight;
  };
  static __device__ position find(uint32_t x, uint32_t in, uint32_t out) {
    const resize_pair pair = resize_pair_at(x, in, out);
    return {pair.first, pair.second, resize_weight(pair)};
  }
  template <typename Source>
  static __device__ __forceinline__ void make(const Source &in, const position &column, const position &row, uint8_t &to) {
    const uint32_t left = resize_mix_rows(in.at(column.first, row.first), in.at(column.first, row.last), row.weight);
    const uint32_t right = resize_mix_rows(in.at(column.last, row.first), in.at(column.last, row.last), row.weight);
    to = resize_mix_columns(left, right, column.weight);
  }
};

/* Weighted sums of TAPS samples on each axis, or of fewer unless the filter takes ALL; TAPS is 0 for any number of them, of
 * which those between the first and the last have the second weight. */
template <int TAPS, bool ALL> struct resize_weighted {
  enum { ROWS = 1 };
  struct position {
    uint32_t first, last;
    float weights[TAPS == 2 ? 2 : 3];
  };

  template <typename Value> static __device__ __forceinline__ float sum(const position &at, const Value &value) {
    float total = value(at.first) * at.weights[0];
    if constexpr (TAPS == 0) {
      for (uint32_t i = at.first + 1; i < at.last; i++) {
        total += value(i) * at.weights[1];
      }
      return at.first == at.last ? total : total + value(at.last) * at.weights[2];
    } else {
#pragma unroll
      for (uint32_t i = 1; i < TAPS; i++) {
        /* What is not there stays out of the sum: even with a weight of 0 an infinite sample or -0 would change it. */
        const float more = total + value(i == TAPS - 1 ? at.last : min(at.first + i, at.last)) * at.weights[i];
        total = ALL || at.first + i <= at.last ? more : total;
      }
      return total;
    }
  }
  template <typename Source, typename Sample>
  static __device__ __forceinline__ void make(const Source &in, const position &column, const position &row, Sample &to) {
    const auto down = [&](uint32_t x) { return sum(row, [&](uint32_t y) { return resize_value(in.at(x, y)); }); };
    resize_round(sum(column, down), to);
  }
};

/* Bilinear of floats. */
struct resize_mix_of_floats : resize_weighted<2, true> {
  static __device__ position find(uint32_t x, uint32_t in, uint32_t out) {
    const resize_pair pair = resize_pair_at(x, in, out);
    const float weight = resize_weight_float(pair);
    return {pair.first, pair.second, {1.0F - weight, weight}};
  }
};

template <int TAPS, bool ALL> struct resize_average : resize_weighted<TAPS, ALL> {
  using typename resize_weighted<TAPS, ALL>::position;
  static __device__ position find(uint32_t x, uint32_t in, uint32_t out) {
    const resize_span span = resize_span_at(x, in, out);
    if constexpr (TAPS == 0) {
      return {span.first, span.last, {span.head, span.body, span.tail}};
    } else {
      position at = {span.first, span.last, {}};
#pragma unroll
      for (uint32_t i = 0; i < TAPS; i++) {
        at.weights[i] = resize_span_weight(&span, span.first + i);
      }
      return at;
    }
  }
};

} // namespace

#endif
