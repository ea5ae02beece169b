/*
 * resize: the kernel for all filters, formats and sizes, and how it is launched. Bytes that are averages of squares have
 * resize_squares.cu.
 *
 * A block makes a tile of the result, for one plane (blockIdx.z). First it lets the rectangle of the source come that the tile
 * is made of, into shared memory; meanwhile it finds positions, which are quotients, once for each column and row. Then each
 * thread makes some columns of some rows. Neighbouring threads make neighbouring samples, whatever the number of channels, or
 * words of four neighbours (resize_words.cuh).
 *
 * The rectangle comes in pieces of 16 bytes. Threads read the source from global memory where its rows do not begin at such
 * pieces, where the rectangle is too large, and for nearest, which would not use most of it.
 */
#include "gpu/stages/async.cuh"
#include "gpu/stages/resize/resize_squares.cuh"
#include "gpu/stages/resize/resize_words.cuh"

#include <algorithm>
#include <type_traits>

namespace {

enum {
  THREADS_X = 32,
  THREADS_Y = 8,
  THREADS = THREADS_X * THREADS_Y,
  EACH = 4, /* columns that a thread makes */
  COLUMNS = THREADS_X * EACH,
  MOST_LINES = 64,
  LEAST_LINES = 2,
  BLOCKS = 132 * 2,        /* that keep a large device busy */
  ALWAYS_SHARED = 40 << 10 /* bytes that a block may always have, beside the positions */
};

/* Blocks that are to run on a processor: all that it has threads for. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { AT_ONCE = 4 };
#else
enum { AT_ONCE = 6 };
#endif

static_assert(int(COLUMNS) + int(MOST_LINES) <= int(THREADS), "a thread finds one position");

/* How a plane is parted. */
struct tile {
  uint64_t across, down;                   /* by how much the source is longer, times 2^32 */
  resize_inverse twice_across, twice_down; /* of twice the result's sides */
};

struct tiling {
  uint32_t lines; /* of a tile */
  uint32_t pitch; /* samples of a row of the rectangle in shared memory */
  uint32_t rows;  /* of the rectangle; 0: there is none */
  tile plane[RESIZE_MAX_PLANES];
};

/* The distance of a pixel from the window's start; beyond the window, that of what stands at its edge. */
__device__ __forceinline__ uint32_t place(uint32_t index, uint32_t start, uint32_t size) {
  return min(index < start ? 0 : index - start, size - 1);
}

/* A pixel of the source at or shortly before the first that a place in the result is made of. */
__device__ __forceinline__ uint32_t before(uint32_t place, uint64_t step) {
  const uint32_t at = uint32_t(place * step >> 32);
  return at > 0 && step >> 32 == 0 ? at - 1 : at;
}

template <typename Filter>
constexpr bool is_words = std::is_same_v<Filter, resize_mix_words<true>> || std::is_same_v<Filter, resize_mix_words<false>>;

/* What a block works on: samples `left` to `right` of a row of the result, and some lines. */
struct area {
  const resize_plane &plane;
  uint32_t channels, row, left, top, lines, thread;

  __device__ __forceinline__ area(const resize_plane &plane, uint32_t most)
      : plane(plane), channels(plane.channels), row(plane.out_width * channels), left(blockIdx.x * COLUMNS),
        top(blockIdx.y * most), lines(min(most, plane.out_height - top)), thread(threadIdx.y * THREADS_X + threadIdx.x) {}

  __device__ __forceinline__ uint32_t pixel(uint32_t column) const {
    const uint32_t sample = min(left + column, row - 1);
    return channels == 1 ? sample : sample / channels;
  }
  __device__ __forceinline__ uint32_t channel(uint32_t column) const {
    return left + column - (channels == 1 ? left + column : (left + column) / channels * channels);
  }
  __device__ __forceinline__ bool shows_column(uint32_t column) const { return pixel(column) - plane.x < plane.width; }
  __device__ __forceinline__ bool shows_line(uint32_t line) const { return top + line - plane.y < plane.height; }

  template <typename Filter> __device__ __forceinline__ void find(typename Filter::position *found) const {
    if (thread < COLUMNS) {
      found[thread] = Filter::find(place(pixel(thread), plane.x, plane.width), plane.in_width, plane.width);
    } else if (thread - COLUMNS < lines) {
      found[thread] = Filter::find(place(top + thread - COLUMNS, plane.y, plane.height), plane.in_height, plane.height);
    }
  }
};

/* Lets the rectangle come that the area is made of, and returns its samples as those of the plane. */
template <typename Sample>
__device__ __forceinline__ resize_source<Sample, uint32_t> fetch(const area &area, const Sample *in, const tiling &tiling,
                                                                 uint8_t *shared) {
  constexpr uint32_t piece = ASYNC_BYTES / sizeof(Sample);
  const resize_plane &plane = area.plane;
  const tile &tile = tiling.plane[blockIdx.z];
  const uint32_t in_row = plane.in_width * area.channels;
  const uint32_t left = before(place(area.pixel(0), plane.x, plane.width), tile.across) * area.channels / piece * piece;
  const uint32_t top = before(place(area.top, plane.y, plane.height), tile.down);
  const uint32_t pieces = min(tiling.pitch, in_row - left) / piece, rows = min(tiling.rows, plane.in_height - top);
  const uint32_t shift = pieces <= 8 ? 3 : pieces <= 16 ? 4 : 5;
  const uint32_t to = uint32_t(__cvta_generic_to_shared(shared));
  for (uint32_t y = area.thread >> shift; y < rows; y += uint32_t(THREADS) >> shift) {
    const Sample *from = in + plane.in_offset + uint64_t(top + y) * in_row + left;
    for (uint32_t x = area.thread & ((1U << shift) - 1); x < pieces; x += 1U << shift) {
      async_copy(to + y * tiling.pitch * uint32_t(sizeof(Sample)) + x * ASYNC_BYTES, from + x * piece);
    }
  }
  async_commit();
  return {reinterpret_cast<const Sample *>(shared), tiling.pitch, 0 - left - top * tiling.pitch, area.channels};
}

/* Neighbouring threads make neighbouring samples. */
template <typename Filter, typename Sample, typename Index>
__device__ __forceinline__ void make_samples(const area &area, resize_source<Sample, Index> source,
                                             const typename Filter::position *found, Sample *out) {
  typename Filter::position columns[EACH];
  Index offsets[EACH]; /* of the columns' channels */
  bool shown[EACH];
#pragma unroll
  for (uint32_t i = 0; i < EACH; i++) {
    const uint32_t column = threadIdx.x + i * THREADS_X;
    columns[i] = found[column];
    offsets[i] = source.offset + area.channel(column);
    shown[i] = area.shows_column(column);
  }
  Sample bar;
  resize_bar(area.plane.fill, bar);
  const uint32_t x = area.left + threadIdx.x;
  for (uint32_t line = threadIdx.y; line < area.lines; line += THREADS_Y * Filter::ROWS) {
    Sample made[Filter::ROWS][EACH];
#pragma unroll
    for (uint32_t j = 0; j < Filter::ROWS; j++) {
      const typename Filter::position at = found[COLUMNS + min(line + j * THREADS_Y, area.lines - 1)];
#pragma unroll
      for (uint32_t i = 0; i < EACH; i++) {
        source.offset = offsets[i];
        Filter::make(source, columns[i], at, made[j][i]);
      }
    }
#pragma unroll
    for (uint32_t j = 0; j < Filter::ROWS; j++) {
      const uint32_t y = line + j * THREADS_Y;
      Sample *target = out + area.plane.out_offset + uint64_t(area.top + y) * area.row + x;
#pragma unroll
      for (uint32_t i = 0; i < EACH; i++) {
        if (y < area.lines && x + i * THREADS_X < area.row) {
          target[i * THREADS_X] = shown[i] && area.shows_line(y) ? made[j][i] : bar;
        }
      }
    }
  }
}

/* A row of the result: where its two rows of the source are, in words, and both weights. */
struct alignas(16) line {
  uint32_t upper, lower, weights;
};

/* Each thread makes four neighbours. All that it needs to know of its columns it finds while the rectangle comes. */
template <bool APART> struct words {
  using filter = resize_mix_words<APART>;
  resize_columns<APART> columns;
  uint32_t shown;

  __device__ __forceinline__ words(const area &area, const resize_source<uint8_t, uint32_t> &source, const tile &tile,
                                   line *lines) {
    const resize_plane &plane = area.plane;
    if (area.thread < area.lines) {
      const auto at =
          filter::find(place(area.top + area.thread, plane.y, plane.height), plane.in_height, plane.height, tile.twice_down);
      lines[area.thread] = {at.first * (source.row / EACH), at.last * (source.row / EACH),
                            (RESIZE_ONE - at.weight) | at.weight << 16};
    }
    uint32_t left[EACH], right[EACH], weights[EACH];
    shown = 0;
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
      const uint32_t column = min(area.left + threadIdx.x * EACH + i, area.row - 1) - area.left;
      const auto at =
          filter::find(place(area.pixel(column), plane.x, plane.width), plane.in_width, plane.width, tile.twice_across);
      const uint32_t offset = source.offset + area.channel(column);
      left[i] = at.first * area.channels + offset;
      right[i] = at.last * area.channels + offset;
      weights[i] = at.weight * 4;
      shown |= area.shows_column(column) ? 0xffU << 8 * i : 0;
    }
    columns = resize_columns<APART>(left, right, weights);
  }
  __device__ __forceinline__ void make(const area &area, const uint8_t *rectangle, const line *lines, uint8_t *out) const {
    const auto *source = reinterpret_cast<const uint32_t *>(rectangle);
    const uint32_t bars = arithmetic_level(area.plane.fill) * 0x01010101U, x = area.left + threadIdx.x * EACH;
    if (x >= area.row) {
      return;
    }
    uint8_t *target = out + area.plane.out_offset + x;
#pragma unroll 2
    for (uint32_t y = threadIdx.y; y < area.lines; y += THREADS_Y) {
      const line at = lines[y];
      const uint32_t word = columns.mix(source + at.upper, source + at.lower, at.weights);
      const uint32_t inside = area.shows_line(y) ? shown : 0;
      *reinterpret_cast<uint32_t *>(target + uint64_t(area.top + y) * area.row) = (word & inside) | (bars & ~inside);
    }
  }
};

template <typename Sample, typename Filter, bool STAGED>
__global__ void __launch_bounds__(THREADS, is_words<Filter> &&STAGED ? AT_ONCE : 1)
    resize_kernel(const Sample *__restrict__ in, Sample *__restrict__ out, const __grid_constant__ resize_constants constants,
                  const __grid_constant__ tiling tiling) {
  extern __shared__ __align__(128) uint8_t shared[];
  const resize_plane &plane = constants.plane[blockIdx.z];
  const uint32_t row = plane.out_width * plane.channels;
  if (blockIdx.x * COLUMNS >= row || blockIdx.y * tiling.lines >= plane.out_height) {
    return;
  }
  const area area(plane, tiling.lines);
  if constexpr (is_words<Filter> && STAGED) {
    __shared__ line lines[MOST_LINES];
    const auto source = fetch(area, in, tiling, shared);
    const words<std::is_same_v<Filter, resize_mix_words<true>>> own(area, source, tiling.plane[blockIdx.z], lines);
    async_wait<0>();
    __syncthreads();
    own.make(area, shared, lines, out);
  } else {
    __shared__ typename Filter::position found[COLUMNS + MOST_LINES];
    resize_source<Sample, std::conditional_t<STAGED, uint32_t, uint64_t>> source = {
        in + plane.in_offset, plane.in_width * plane.channels, 0, plane.channels};
    if constexpr (STAGED) {
      source = fetch(area, in, tiling, shared);
    }
    area.template find<Filter>(found);
    if constexpr (STAGED) {
      async_wait<0>();
    }
    __syncthreads();
    make_samples<Filter>(area, source, found, out);
  }
}

/* -- choice ---------------------------------------------------------------------------------------------------------- */

uint32_t parts(uint64_t whole, uint32_t part) { return uint32_t((whole + part - 1) / part); }

/* Samples or rows of the source from before() the first of so many neighbours of the result, at most. */
uint32_t reach(uint32_t count, uint32_t in, uint32_t out) { return std::min(parts(uint64_t(count) * in, out) + 4, in); }

uint32_t pitch_of(const resize_plane &plane, uint32_t piece) {
  const uint32_t pixels = (COLUMNS - 2) / plane.channels + 2;
  return parts(uint64_t(reach(pixels, plane.in_width, plane.width)) * plane.channels + piece - 1, piece) * piece;
}

resize_inverse invert(uint32_t divisor) {
  uint32_t bits = 1;
  while (uint64_t(1) << bits < divisor) {
    bits++;
  }
  return {uint32_t(((uint64_t(1) << (31 + bits)) + divisor - 1) / divisor), bits - 1};
}

uint64_t blocks_of(const resize_constants &constants, uint32_t lines) {
  uint64_t blocks = 0;
  for (uint32_t i = 0; i < constants.planes; i++) {
    const resize_plane &plane = constants.plane[i];
    blocks += uint64_t(parts(uint64_t(plane.out_width) * plane.channels, COLUMNS)) * parts(plane.out_height, lines);
  }
  return blocks;
}

uint32_t rows_of(const resize_constants &constants, uint32_t lines) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < constants.planes; i++) {
    most = std::max(most, reach(lines, constants.plane[i].in_height, constants.plane[i].height));
  }
  return most;
}

/* Whether all rows begin at pieces. */
bool has_pieces(const resize_constants &constants, uint32_t piece) {
  bool all = true;
  for (uint32_t i = 0; i < constants.planes; i++) {
    const resize_plane &plane = constants.plane[i];
    all = all && (plane.in_offset | uint64_t(plane.in_width) * plane.channels) % piece == 0;
  }
  return all;
}

/* Tiles are as high as they can be while there are enough of them, and while shared memory holds a rectangle. */
tiling make_tiling(const resize_constants &constants, uint32_t sample_bytes, bool staged) {
  const uint32_t piece = ASYNC_BYTES / sample_bytes;
  tiling tiling = {MOST_LINES, 0, 0, {}};
  for (uint32_t i = 0; i < constants.planes; i++) {
    const resize_plane &plane = constants.plane[i];
    tiling.plane[i] = {(uint64_t(plane.in_width) << 32) / plane.width, (uint64_t(plane.in_height) << 32) / plane.height,
                       invert(2 * plane.width), invert(2 * plane.height)};
    tiling.pitch = std::max(tiling.pitch, pitch_of(plane, piece));
  }
  while (tiling.lines > THREADS_Y && blocks_of(constants, tiling.lines) < BLOCKS) {
    tiling.lines /= 2;
  }
  uint32_t lines = tiling.lines;
  while (lines > 1 && uint64_t(tiling.pitch) * rows_of(constants, lines) * sample_bytes > ALWAYS_SHARED) {
    lines /= 2;
  }
  if (staged && lines >= LEAST_LINES && has_pieces(constants, piece)) {
    tiling.lines = lines;
    tiling.rows = rows_of(constants, lines);
  }
  return tiling;
}

template <typename Sample, typename Filter>
int launch(const resize_constants &constants, const stage_call *call, bool staged, cudaStream_t stream) {
  const tiling tiling = make_tiling(constants, sizeof(Sample), staged);
  const resize_plane &plane = constants.plane[0];
  const dim3 blocks(parts(uint64_t(plane.out_width) * plane.channels, COLUMNS), parts(plane.out_height, tiling.lines),
                    constants.planes);
  /* What lies behind the last row is read with it. */
  const size_t bytes = tiling.rows == 0 ? 0 : size_t(tiling.pitch) * tiling.rows * sizeof(Sample) + ASYNC_BYTES;
  const auto kernel = tiling.rows == 0 ? resize_kernel<Sample, Filter, false> : resize_kernel<Sample, Filter, true>;
  kernel<<<blocks, dim3(THREADS_X, THREADS_Y), bytes, stream>>>(static_cast<const Sample *>(call->input),
                                                                static_cast<Sample *>(call->output), constants, tiling);
  return cudaGetLastError();
}

/* The most samples of a span on any axis, and the least: in lowest terms, spans begin at each part of a sample. */
struct lengths {
  uint32_t most, least;

  void take(uint32_t in, uint32_t out) {
    uint32_t divisor = in;
    for (uint32_t rest = out; rest != 0;) {
      const uint32_t next = divisor % rest;
      divisor = rest;
      rest = next;
    }
    in /= divisor;
    out /= divisor;
    most = std::max(most, (in + out - 2) / out + 1);
    least = std::min(least, (in - 1) / out + 1);
  }
};

template <typename Sample> int launch_average(const resize_constants &constants, const stage_call *call, cudaStream_t stream) {
  lengths spans = {0, UINT32_MAX};
  for (uint32_t i = 0; i < constants.planes; i++) {
    spans.take(constants.plane[i].in_width, constants.plane[i].width);
    spans.take(constants.plane[i].in_height, constants.plane[i].height);
  }
  return spans.most == 2 && spans.least == 2 ? launch<Sample, resize_average<2, true>>(constants, call, true, stream)
         : spans.most <= 3                   ? launch<Sample, resize_average<3, false>>(constants, call, true, stream)
                                             : launch<Sample, resize_average<0, false>>(constants, call, true, stream);
}

/* Whether four neighbours are mixed together, for which rows of the result are whole words. */
bool has_words(const resize_constants &constants) {
  bool all = has_pieces(constants, ASYNC_BYTES);
  for (uint32_t i = 0; i < constants.planes; i++) {
    const resize_plane &plane = constants.plane[i];
    all = all && plane.in_width <= 2 * plane.width && uint64_t(plane.in_width) * plane.width < 1U << 30 &&
          uint64_t(plane.in_height) * plane.height < 1U << 30 &&
          (plane.out_offset | uint64_t(plane.out_width) * plane.channels) % EACH == 0;
  }
  return all;
}

int launch_mix(const resize_constants &constants, const stage_call *call, cudaStream_t stream) {
  const resize_plane &plane = constants.plane[0];
  if (!has_words(constants)) {
    return launch<uint8_t, resize_mix>(constants, call, true, stream);
  }
  return plane.channels == 3 && plane.in_width > plane.width
             ? launch<uint8_t, resize_mix_words<true>>(constants, call, true, stream)
             : launch<uint8_t, resize_mix_words<false>>(constants, call, true, stream);
}

int launch_bytes(const resize_constants &constants, const stage_call *call, cudaStream_t stream) {
  return resize_squares_take(constants)        ? resize_squares(constants, call, stream)
         : constants.filter == RESIZE_NEAREST  ? launch<uint8_t, resize_pick>(constants, call, false, stream)
         : constants.filter == RESIZE_BILINEAR ? launch_mix(constants, call, stream)
                                               : launch_average<uint8_t>(constants, call, stream);
}

int launch_floats(const resize_constants &constants, const stage_call *call, cudaStream_t stream) {
  return constants.filter == RESIZE_NEAREST    ? launch<float, resize_pick>(constants, call, false, stream)
         : constants.filter == RESIZE_BILINEAR ? launch<float, resize_mix_of_floats>(constants, call, true, stream)
                                               : launch_average<float>(constants, call, stream);
}

struct same {
  __device__ uint8_t operator()(uint8_t sample) const { return sample; }
};

} // namespace

extern "C" int resize_enqueue(const stage_plan *plan, const stage_call *call, void *on) {
  const auto stream = static_cast<cudaStream_t>(on);
  resize_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  if (resize_keeps(&constants.plane[0])) {
    return launch_map<uint8_t, uint8_t>(call->input, call->output, plan->input_bytes, same(), stream);
  }
  return plan->input.dtype == ELEMENT_FLOAT32 ? launch_floats(constants, call, stream) : launch_bytes(constants, call, stream);
}
