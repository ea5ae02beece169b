/*
 * resize: kernel for bytes that are picked or mixed where rows shrink to no less than half.
 *
 * A thread makes a word of four neighbouring samples and goes down ROWS rows with it. The first samples that it takes from a
 * row of the source lie within eight bytes then, at most two pixels further for each pixel of the result, and so do the second
 * ones. These come as aligned words and are shifted into place, and one instruction picks four samples of them. Both lie within
 * the same eight bytes unless pixels have three channels and the row shrinks. Rows are read in batches, so that the loads of
 * several are under way together; where columns do not shrink, the lower row of one is the upper row of the next or of one soon
 * after, and is not read again. Positions are quotients, so each column's and each row's is worked out once for a block. Beyond
 * the window, words are filled from a mask.
 */
#include "gpu/stages/resize/resize_mix.cuh"
#include "gpu/stages/resize/resize_words.cuh"

namespace {

enum { THREADS_X = 32, THREADS_Y = 8, ROWS = 16, BATCH = 4, COLUMNS = THREADS_X * SAMPLES, LINES = THREADS_Y * ROWS };

static_assert(int(COLUMNS) + int(LINES) == int(THREADS_X) * int(THREADS_Y), "a thread finds one position");

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
  return {pair.first * plane.channels + channel, pair.second * plane.channels + channel, resize_weight(pair) * 4, inside};
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

/* Where the eight bytes of a thread lie in each row. The third word is read only where they reach into it. */
template <bool Aligned> struct reader {
  const uint8_t *start;
  uint32_t row, shift;
  __device__ reader(const uint8_t *plane, uint32_t in_row, uint32_t base)
      : start(plane + (Aligned ? base / 4 * 4 : base)), row(in_row), shift(base % 4 * 8) {}
  __device__ __forceinline__ raw_bytes at(uint32_t y) const {
    const uint8_t *place = start + uint64_t(y) * row;
    const uint32_t beyond = Aligned ? 0 : uint32_t(reinterpret_cast<uintptr_t>(place) % 4);
    const uint32_t *words = reinterpret_cast<const uint32_t *>(place - beyond);
    const uint32_t bits = Aligned ? shift : beyond * 8;
    return {{words[0], words[1], bits != 0 ? words[2] : 0}, bits};
  }
};

/* Reads what a thread takes from a row: first all words of several rows, then samples. */
template <bool Aligned, bool Split> struct row_reader {
  reader<Aligned> first, second;
  struct raw {
    raw_bytes first, second;
  };
  __device__ row_reader(const uint8_t *plane, uint32_t in_row, const columns &at)
      : first(plane, in_row, at.first_base), second(plane, in_row, at.second_base) {}
  __device__ __forceinline__ raw read(uint32_t y) const {
    raw result;
    result.first = first.at(y);
    result.second = Split ? second.at(y) : result.first;
    return result;
  }
  static __device__ __forceinline__ picked take(const raw &from, const columns &at) {
    return {pick(from.first, at.firsts), pick(from.second, at.seconds)};
  }
};

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

/* Two rows are read for each row of the result, or one where the upper one is known from before. */
enum class way { nearest, overlapping, apart };

/* What a thread keeps from row to row. */
struct rows_before {
  picked upper, lower;
  uint32_t first; /* where the upper one is */
};

template <way Way>
__device__ __forceinline__ uint32_t make(const columns &at, const position &rows, const picked &upper, const picked &lower,
                                         rows_before &before) {
  if (Way == way::nearest) {
    return upper.firsts;
  }
  if (Way == way::apart) {
    return mix(at, upper, lower, rows.weight);
  }
  before.upper = rows.first == before.first ? before.upper : before.lower;
  before.lower = lower;
  before.first = rows.first;
  return mix(at, before.upper, lower, rows.weight);
}

/* What some rows of the result are made of. */
template <way Way, bool Aligned, bool Split> struct batch {
  using reader = row_reader<Aligned, Split>;
  typename reader::raw upper[BATCH], lower[BATCH];
  __device__ __forceinline__ void read(const reader &source, const position *line) {
#pragma unroll
    for (uint32_t i = 0; i < BATCH; i++) {
      lower[i] = source.read(Way == way::nearest ? line[i].first : line[i].second);
      upper[i] = Way == way::apart ? source.read(line[i].first) : lower[i];
    }
  }
};

template <way Way, bool Aligned, bool Split>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    resize_words_kernel(const uint8_t *__restrict__ in, uint8_t *__restrict__ out, resize_constants constants) {
  __shared__ position found[COLUMNS + LINES];
  const resize_plane &plane = constants.plane[blockIdx.z];
  const uint32_t row = plane.out_width * plane.channels;
  const uint32_t thread = threadIdx.y * THREADS_X + threadIdx.x;
  found[thread] = thread < COLUMNS ? find_column<Way != way::nearest>(plane, min(blockIdx.x * COLUMNS + thread, row - 1))
                                   : find_row<Way != way::nearest>(plane, blockIdx.y * LINES + thread - COLUMNS);
  __syncthreads();
  const uint32_t x = blockIdx.x * COLUMNS + threadIdx.x * SAMPLES;
  const uint32_t first = blockIdx.y * LINES + threadIdx.y * ROWS;
  if (x >= row || first >= plane.out_height) {
    return;
  }
  const uint32_t in_row = plane.in_width * plane.channels;
  const position *four = found + threadIdx.x * SAMPLES;
  const uint32_t base = first_base(four, in_row);
  const columns at = gather(four, base, Split ? second_base(four, in_row) : base);
  const row_reader<Aligned, Split> source(in + plane.in_offset, in_row, at);
  const uint32_t bars = arithmetic_level(plane.fill) * 0x01010101U;
  const position *line = found + COLUMNS + threadIdx.y * ROWS;
  const uint32_t end = min(first + ROWS, plane.out_height);
  uint8_t *target = out + plane.out_offset + uint64_t(first) * row + x;
  rows_before before = {{0, 0}, {0, 0}, line->first};
  if (Way == way::overlapping) {
    before.upper = source.take(source.read(line->first), at);
  }
  batch<Way, Aligned, Split> next;
  next.read(source, line);
#pragma unroll 1
  for (uint32_t y = first; y < end; y += BATCH, line += BATCH) {
    const batch<Way, Aligned, Split> now = next;
    if (y + BATCH < first + ROWS) {
      next.read(source, line + BATCH);
    }
#pragma unroll
    for (uint32_t i = 0; i < BATCH; i++, target += row) {
      const uint32_t word = make<Way>(at, line[i], source.take(now.upper[i], at), source.take(now.lower[i], at), before);
      const uint32_t inside = at.inside & line[i].inside;
      if (y + i < end) {
        store<Aligned>(target, row - x, (word & inside) | (bars & ~inside));
      }
    }
  }
}

template <bool Aligned, bool Split> auto kernel_of(const resize_constants &constants, bool overlapping) {
  return constants.filter == RESIZE_NEAREST ? resize_words_kernel<way::nearest, Aligned, false>
         : overlapping                      ? resize_words_kernel<way::overlapping, Aligned, Split>
                                            : resize_words_kernel<way::apart, Aligned, Split>;
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

/* Whether the four second samples may lie elsewhere than the first ones. */
bool is_split(const resize_constants &constants) {
  return constants.plane[0].channels > 2 && constants.plane[0].in_width > constants.plane[0].width;
}

bool is_overlapping(const resize_constants &constants) {
  bool all = true;
  for (uint32_t i = 0; i < constants.planes; i++) {
    all = all && constants.plane[i].in_height <= constants.plane[i].height;
  }
  return all;
}

} // namespace

bool resize_words_take(const resize_constants &constants) {
  bool good = constants.filter != RESIZE_AREA;
  for (uint32_t i = 0; i < constants.planes; i++) {
    const resize_plane &plane = constants.plane[i];
    good = good && plane.in_width <= 2 * plane.width && plane.in_width * plane.channels >= WINDOW;
  }
  return good;
}

int resize_words(const resize_constants &constants, const stage_call *call, cudaStream_t stream) {
  const dim3 threads(THREADS_X, THREADS_Y);
  const resize_plane &plane = constants.plane[0];
  const dim3 blocks((plane.out_width * plane.channels + COLUMNS - 1) / COLUMNS, (plane.out_height + LINES - 1) / LINES,
                    constants.planes);
  const bool overlapping = is_overlapping(constants);
  const bool split = is_split(constants);
  const auto kernel = is_aligned(constants) ? split ? kernel_of<true, true>(constants, overlapping)
                                                    : kernel_of<true, false>(constants, overlapping)
                      : split ? kernel_of<false, true>(constants, overlapping)
                                            : kernel_of<false, false>(constants, overlapping);
  kernel<<<blocks, threads, 0, stream>>>(static_cast<const uint8_t *>(call->input), static_cast<uint8_t *>(call->output),
                                         constants);
  return cudaGetLastError();
}
