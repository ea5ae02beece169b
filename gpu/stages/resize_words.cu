/*
 * resize: kernel for bytes that are picked or mixed where no side of a row shrinks.
 *
 * A thread makes a word of four neighbouring samples and goes down ROWS rows with it. The samples it takes from a row of
 * the source lie within eight bytes then: at most one pixel further for each pixel of the result. These come as
 * aligned words and are shifted into place, and one instruction picks the four first samples of them, one the four
 * others. Positions are quotients, so that of each column and row is worked out once for a block. Beyond the window, words
 * are filled from a mask.
 */
#include "gpu/stages/bytes.cuh"
#include "gpu/stages/resize_words.cuh"

namespace {

enum {
  THREADS_X = 32,
  THREADS_Y = 8,
  SAMPLES = 4,
  WINDOW = 8,
  ROWS = 16,
  COLUMNS = THREADS_X * SAMPLES,
  LINES = THREADS_Y * ROWS
};

static_assert(int(COLUMNS) + int(LINES) == int(THREADS_X) * int(THREADS_Y), "a thread finds one position");

/* Of a column: its two samples of a row, the weight of the second times 32. Of a row: the two rows, and both weights. */
struct alignas(16) position {
  uint32_t first, second, weight;
  uint32_t inside; /* the window: all bits, or none */
};

/* `index` counts samples; those of one pixel share its position. */
template <bool Mixed> __device__ __forceinline__ position find_column(const resize_plane &plane, uint32_t index) {
  const uint32_t pixel = index / plane.channels;
  const uint32_t channel = index % plane.channels;
  const uint32_t inside = pixel >= plane.x && pixel - plane.x < plane.width ? ~0U : 0U;
  /* Beyond the window, what stands at its edge, so that neighbours stay neighbours. */
  const uint32_t x = min(pixel < plane.x ? 0 : pixel - plane.x, plane.width - 1);
  if (!Mixed) {
    const uint32_t first = resize_nearest(x, plane.in_width, plane.width) * plane.channels + channel;
    return {first, first, 0, inside};
  }
  const resize_pair pair = resize_pair_at(x, plane.in_width, plane.width);
  return {pair.first * plane.channels + channel, pair.second * plane.channels + channel, resize_weight(pair) * 32, inside};
}

template <bool Mixed> __device__ __forceinline__ position find_row(const resize_plane &plane, uint32_t y) {
  const uint32_t inside = y >= plane.y && y - plane.y < plane.height ? ~0U : 0U;
  const uint32_t row = inside ? y - plane.y : 0;
  if (!Mixed) {
    const uint32_t first = resize_nearest(row, plane.in_height, plane.height);
    return {first, first, 0, inside};
  }
  const resize_pair pair = resize_pair_at(row, plane.in_height, plane.height);
  const uint32_t weight = resize_weight(pair);
  return {pair.first, pair.second, (RESIZE_ONE - weight) | weight << 16, inside};
}

/* What a thread needs to know of its four columns. */
struct columns {
  uint32_t base;            /* of the eight bytes in a row of the source */
  uint32_t firsts, seconds; /* which of them the samples are, as __byte_perm() wants it */
  uint32_t weights[SAMPLES];
  uint32_t inside; /* mask of the bytes that lie in the window */
};

__device__ __forceinline__ columns gather(const position *four, uint32_t in_row) {
  const uint32_t least = min(min(four[0].first, four[1].first), min(four[2].first, four[3].first));
  columns result = {min(least, in_row - WINDOW), 0, 0, {0, 0, 0, 0}, 0};
#pragma unroll
  for (int i = 0; i < SAMPLES; i++) {
    result.firsts |= ((four[i].first - result.base) & 7U) << 4 * i;
    result.seconds |= ((four[i].second - result.base) & 7U) << 4 * i;
    result.weights[i] = four[i].weight;
    result.inside |= four[i].inside & 0xffU << 8 * i;
  }
  return result;
}

struct eight_bytes {
  uint32_t low, high;
};

/* Where the eight bytes of a thread lie in each row. The third word is read only where they reach into it. */
template <bool Aligned> struct reader;

template <> struct reader<true> {
  const uint32_t *start;
  uint32_t third, shift, row;
  __device__ reader(const uint8_t *plane, uint32_t in_row, uint32_t base)
      : start(reinterpret_cast<const uint32_t *>(plane) + base / 4), third(base % 4 == 0 ? 1 : 2), shift(base % 4 * 8),
        row(in_row / 4) {}
  __device__ __forceinline__ eight_bytes at(uint32_t y) const {
    const uint32_t *words = start + uint64_t(y) * row;
    const uint32_t b = words[1];
    return {__funnelshift_r(words[0], b, shift), __funnelshift_r(b, words[third], shift)};
  }
};

template <> struct reader<false> {
  const uint8_t *start;
  uint32_t row;
  __device__ reader(const uint8_t *plane, uint32_t in_row, uint32_t base) : start(plane + base), row(in_row) {}
  __device__ __forceinline__ eight_bytes at(uint32_t y) const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(start + uint64_t(y) * row);
    const uint32_t *words = reinterpret_cast<const uint32_t *>(address - address % 4);
    const uint32_t shift = uint32_t(address % 4) * 8;
    const uint32_t b = words[1];
    return {__funnelshift_r(words[0], b, shift), __funnelshift_r(b, words[shift == 0 ? 1 : 2], shift)};
  }
};

/* Two samples of each of two rows, in the order upper, lower, upper, lower: mixed to 1/256 of a level each. */
struct mixed_pair {
  uint32_t even, odd;
};

__device__ __forceinline__ mixed_pair mix_rows(uint32_t bytes, uint32_t weights) {
  return {__dp2a_lo(weights, bytes, uint32_t(RESIZE_ONE / 512)) / (RESIZE_ONE / 256),
          __dp2a_hi(weights, bytes, uint32_t(RESIZE_ONE / 512)) / (RESIZE_ONE / 256)};
}

/* resize_mix_columns() with everything times 32, which puts the level into the highest byte. */
__device__ __forceinline__ uint32_t mix_columns(uint32_t left, uint32_t right, uint32_t weight32) {
  static_assert(RESIZE_ONE == 2048, "the level's place");
  return left * (RESIZE_ONE * 32U) + RESIZE_ONE * 128U * 32U + (right - left) * weight32;
}

__device__ __forceinline__ uint32_t join_highest(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0073U), __byte_perm(c, d, 0x0073U), 0x5410U);
}

__device__ __forceinline__ uint32_t mix(const columns &at, const eight_bytes &upper, const eight_bytes &lower,
                                        uint32_t weights) {
  const uint32_t upper_firsts = __byte_perm(upper.low, upper.high, at.firsts);
  const uint32_t lower_firsts = __byte_perm(lower.low, lower.high, at.firsts);
  const uint32_t upper_seconds = __byte_perm(upper.low, upper.high, at.seconds);
  const uint32_t lower_seconds = __byte_perm(lower.low, lower.high, at.seconds);
  const mixed_pair left[2] = {mix_rows(__byte_perm(upper_firsts, lower_firsts, 0x5140U), weights),
                              mix_rows(__byte_perm(upper_firsts, lower_firsts, 0x7362U), weights)};
  const mixed_pair right[2] = {mix_rows(__byte_perm(upper_seconds, lower_seconds, 0x5140U), weights),
                               mix_rows(__byte_perm(upper_seconds, lower_seconds, 0x7362U), weights)};
  return join_highest(
      mix_columns(left[0].even, right[0].even, at.weights[0]), mix_columns(left[0].odd, right[0].odd, at.weights[1]),
      mix_columns(left[1].even, right[1].even, at.weights[2]), mix_columns(left[1].odd, right[1].odd, at.weights[3]));
}

template <bool Aligned> __device__ __forceinline__ void store(uint8_t *out, uint32_t left, uint32_t word) {
  if (Aligned) {
    *reinterpret_cast<uint32_t *>(out) = word;
  } else {
#pragma unroll
    for (uint32_t i = 0; i < SAMPLES; i++) {
      if (i < left) {
        out[i] = uint8_t(word >> 8 * i);
      }
    }
  }
}

template <bool Mixed, bool Aligned>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    resize_words_kernel(const uint8_t *__restrict__ in, uint8_t *__restrict__ out, resize_constants constants) {
  __shared__ position found[COLUMNS + LINES];
  const resize_plane &plane = constants.plane[blockIdx.z];
  const uint32_t row = plane.out_width * plane.channels;
  const uint32_t thread = threadIdx.y * THREADS_X + threadIdx.x;
  found[thread] = thread < COLUMNS ? find_column<Mixed>(plane, min(blockIdx.x * COLUMNS + thread, row - 1))
                                   : find_row<Mixed>(plane, blockIdx.y * LINES + thread - COLUMNS);
  __syncthreads();
  const uint32_t x = blockIdx.x * COLUMNS + threadIdx.x * SAMPLES;
  if (x >= row) {
    return;
  }
  const uint32_t in_row = plane.in_width * plane.channels;
  const columns at = gather(found + threadIdx.x * SAMPLES, in_row);
  const reader<Aligned> source(in + plane.in_offset, in_row, at.base);
  const uint32_t bars = arithmetic_level(plane.fill) * 0x01010101U;
  const position *line = found + COLUMNS + threadIdx.y * ROWS;
  const uint32_t first = blockIdx.y * LINES + threadIdx.y * ROWS;
  const uint32_t end = min(first + ROWS, plane.out_height);
  uint8_t *target = out + plane.out_offset + uint64_t(first) * row + x;
#pragma unroll 4
  for (uint32_t y = first; y < end; y++, line++, target += row) {
    const position rows = *line;
    const eight_bytes upper = source.at(rows.first);
    const uint32_t word =
        Mixed ? mix(at, upper, source.at(rows.second), rows.weight) : __byte_perm(upper.low, upper.high, at.firsts);
    const uint32_t inside = at.inside & rows.inside;
    store<Aligned>(target, row - x, (word & inside) | (bars & ~inside));
  }
}

template <bool Aligned> auto kernel_of(const resize_constants &constants) {
  return constants.filter == RESIZE_BILINEAR ? resize_words_kernel<true, Aligned> : resize_words_kernel<false, Aligned>;
}

/* Whether all rows begin at words. */
bool is_aligned(const resize_constants &constants) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < constants.planes; i++) {
    const resize_plane &plane = constants.plane[i];
    all |= plane.in_offset | plane.out_offset | uint64_t(plane.in_width) * plane.channels |
           uint64_t(plane.out_width) * plane.channels;
  }
  return all % SAMPLES == 0;
}

} // namespace

bool resize_words_take(const resize_constants &constants) {
  bool good = constants.filter != RESIZE_AREA;
  for (uint32_t i = 0; i < constants.planes; i++) {
    const resize_plane &plane = constants.plane[i];
    good = good && plane.in_width <= plane.width && plane.in_width * plane.channels >= WINDOW;
  }
  return good;
}

int resize_words(const resize_constants &constants, const stage_call *call, cudaStream_t stream) {
  const dim3 threads(THREADS_X, THREADS_Y);
  const resize_plane &plane = constants.plane[0];
  const dim3 blocks((plane.out_width * plane.channels + COLUMNS - 1) / COLUMNS, (plane.out_height + LINES - 1) / LINES,
                    constants.planes);
  const auto kernel = is_aligned(constants) ? kernel_of<true>(constants) : kernel_of<false>(constants);
  kernel<<<blocks, threads, 0, stream>>>(static_cast<const uint8_t *>(call->input), static_cast<uint8_t *>(call->output),
                                         constants);
  return cudaGetLastError();
}
