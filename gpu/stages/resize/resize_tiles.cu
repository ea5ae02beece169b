/*
 * resize: kernel for bytes that are mixed where both sides shrink to no less than half.
 *
 * A block makes a tile of the result. It brings the rectangle of the source that the tile is made of into shared memory; then a
 * thread makes a word of four samples and goes down some rows with it. Nothing of the source waits in registers, so that many
 * blocks share a processor, and some mix while others wait for theirs. The rectangle has the same size for all tiles of a
 * plane, and always lies in it: its place comes from a product, is a pixel or two before the first sample that is needed, and
 * no further on than it still fits in. Words are picked and mixed as in resize_words.cu; but where the samples of all words of
 * a warp lie in two whole words of the source each, as they do for many ratios, nothing is shifted.
 *
 * Positions are quotients by the same divisor for all columns, and for all rows. So they come from products with its inverse,
 * which are exact below 2^31, and each thread finds those of its columns by itself. Beyond the last row of the plane, that row
 * is made once more, so that nothing in the loop branches.
 *
 * Bytes arrive in pieces of 16 by an instruction that is there from compute capability 8.0 on.
 */
#include "gpu/stages/resize/resize_mix.cuh"
#include "gpu/stages/resize/resize_place.cuh"
#include "gpu/stages/resize/resize_tiles.cuh"

#include <algorithm>

namespace {

enum {
  THREADS_X = 32,
  THREADS_Y = 8,
  THREADS = THREADS_X * THREADS_Y,
  COLUMNS = THREADS_X * SAMPLES,
  ROWS = 8,  /* that a thread makes of a tile */
  BATCH = 2, /* that it makes together */
  LINES = THREADS_Y * ROWS,
  PIECE = 16, /* bytes that arrive together */
  WORD = 4,
  SCALE = 30,              /* bits behind the point of a step */
  ALWAYS_SHARED = 48 << 10 /* bytes of shared memory that a block gets without being allowed to */
};

static_assert(int(LINES) <= int(THREADS), "a thread finds one row");

/* n / divisor is n * factor / 2^(32 + shift) for n below 2^31. */
struct inverse {
  uint32_t factor, shift;
};

/* Of an axis of a plane: by how much the source is longer, rounded down, and the inverse of twice the result's length. */
struct axis {
  uint32_t step;
  inverse twice;
};

struct tile_plane {
  axis across, down;
  uint32_t pieces, rows; /* of the source, for a tile */
  uint32_t pitch;        /* bytes of such a row */
  uint32_t share;        /* 2^16 / pieces, rounded up */
  uint32_t apart;        /* whole rows that all threads bring at a time */
};

struct tile_planes {
  tile_plane plane[RESIZE_MAX_PLANES];
};

/* -- instructions ---------------------------------------------------------------------------------------------------- */

/* AT_ONCE blocks are to run on a processor. Where the instructions are missing, nothing is called. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { AT_ONCE = 1 };
__device__ __forceinline__ void copy_async(uint32_t, const uint8_t *) { __trap(); }
__device__ __forceinline__ void wait_async() {}
#else
enum { AT_ONCE = 6 };
__device__ __forceinline__ void copy_async(uint32_t to, const uint8_t *from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void wait_async() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif

/* Where the word lies is read behind the barrier, so that the word is, too. */
__device__ __forceinline__ uint32_t load_word(uint32_t at) {
  uint32_t word;
  asm("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at));
  return word;
}

/* -- positions ------------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t divide(uint32_t n, const inverse &by) { return __umulhi(n, by.factor) >> by.shift; }

/* resize_pair_at() and resize_weight() where the source is not smaller than the result. */
__device__ __forceinline__ position find(uint32_t x, uint32_t in, uint32_t out, const inverse &twice) {
  const uint32_t distance = (2 * x + 1) * in - out;
  const uint32_t first = divide(distance, twice);
  const uint32_t part = distance - first * 2 * out;
  return {first, min(first + 1, in - 1), divide(part * RESIZE_ONE + out, twice), 0};
}

/* A pixel at or shortly before the first that a place in the result is made of. */
__device__ __forceinline__ uint32_t before(uint32_t x, const axis &along) {
  return uint32_t(uint64_t(x) * along.step >> SCALE);
}

/* `index` counts samples; those of one pixel share its position. */
template <bool Three> struct sample {
  uint32_t pixel, channel;
  __device__ __forceinline__ sample(uint32_t index, uint32_t channels)
      : pixel(Three ? index / 3 : index >> (channels - 1)), channel(Three ? index % 3 : index & (channels - 1)) {}
};

template <bool Three>
__device__ __forceinline__ position find_column(const resize_plane &plane, const tile_plane &tile, uint32_t index) {
  const uint32_t channels = Three ? 3 : plane.channels;
  const sample<Three> at(index, channels);
  const position pixel = find(place(at.pixel, plane.x, plane.width), plane.in_width, plane.width, tile.across.twice);
  return {pixel.first * channels + at.channel, pixel.second * channels + at.channel, pixel.weight * 4,
          at.pixel - plane.x < plane.width ? ~0U : 0U};
}

/* The four columns of a thread's word, which is at `x`; and whether, for all threads of the warp, all samples of a row of the
 * source lie in two whole words of it. */
template <bool Three> struct word_columns {
  columns at;
  bool near;
  __device__ __forceinline__ word_columns(const resize_plane &plane, const tile_plane &tile, uint32_t x) {
    const uint32_t channels = Three ? 3 : plane.channels;
    const uint32_t row = plane.out_width * channels, in_row = plane.in_width * channels;
    position four[SAMPLES];
#pragma unroll
    for (uint32_t i = 0; i < SAMPLES; i++) {
      four[i] = find_column<Three>(plane, tile, min(x + i, row - 1));
    }
    const uint32_t base = first_base(four, in_row), whole = base / WORD * WORD;
    const uint32_t last = max(max(four[0].second, four[1].second), max(four[2].second, four[3].second));
    near = !Three && __all_sync(launch_all_lanes, last - whole < WINDOW);
    at = gather(four, near ? whole : base, Three ? second_base(four, in_row) : near ? whole : base);
  }
};

/* A row of the result: where in shared memory its two rows of the source are, and their weights, which are 0 outside the
 * window. */
struct alignas(16) line {
  uint32_t upper, lower, weights, y;
};

__device__ __forceinline__ line find_line(const resize_plane &plane, const tile_plane &tile, uint32_t y, uint32_t top) {
  const position at = find(place(y, plane.y, plane.height), plane.in_height, plane.height, tile.down.twice);
  const uint32_t weights = (RESIZE_ONE - at.weight) | at.weight << 16;
  return {(at.first - top) * tile.pitch, (at.second - top) * tile.pitch, y - plane.y < plane.height ? weights : 0, y};
}

/* -- the source ------------------------------------------------------------------------------------------------------ */

/* Where the rectangle of a block begins in a row. */
template <bool Three> __device__ __forceinline__ uint32_t find_left(const resize_plane &plane, const tile_plane &tile) {
  const uint32_t channels = Three ? 3 : plane.channels;
  const sample<Three> first(blockIdx.x * COLUMNS, channels);
  const uint32_t left = before(place(first.pixel, plane.x, plane.width), tile.across) * channels;
  return min(left / PIECE * PIECE, plane.in_width * channels - tile.pitch);
}

/* A thread's part of what arrives: a piece of every so manieth row. */
struct arrivals {
  const uint8_t *in;
  uint32_t in_row, row, apart;
  uint32_t to, pitch;

  __device__ __forceinline__ arrivals(const uint8_t *plane, uint32_t left, uint32_t in_row, const tile_plane &tile,
                                      uint32_t base)
      : in_row(in_row), apart(tile.apart), pitch(tile.pitch) {
    const uint32_t thread = threadIdx.y * THREADS_X + threadIdx.x;
    row = thread * tile.share >> 16;
    const uint32_t piece = thread - row * tile.pieces;
    in = plane + left + piece * PIECE;
    to = base + thread * PIECE;
    row = row < apart ? row : ~0U;
  }
  /* Lets the rectangle come, row after row without gaps. */
  __device__ __forceinline__ void fetch(uint32_t top, uint32_t rows) const {
    const uint8_t *from = in + uint64_t(top + row) * in_row;
    uint32_t target = to;
#pragma unroll 4
    for (uint32_t y = row; y < rows; y += apart) {
      copy_async(target, from);
      target += apart * pitch;
      from += apart * in_row;
    }
  }
};

/* What a thread takes from a row in shared memory. Where both samples of all columns lie in two whole words, nothing is
 * Shifted. */
template <bool Shifted, bool Three> struct row_reader {
  uint32_t first, second, first_shift, second_shift;
  __device__ __forceinline__ row_reader(const columns &at, uint32_t start)
      : first(start + at.first_base / WORD * WORD), second(start + at.second_base / WORD * WORD),
        first_shift(at.first_base % WORD * 8), second_shift(at.second_base % WORD * 8) {}
  static __device__ __forceinline__ raw_bytes load(uint32_t from, uint32_t shift) {
    return {{load_word(from), load_word(from + WORD), Shifted ? load_word(from + 2 * WORD) : 0}, Shifted ? shift : 0};
  }
  __device__ __forceinline__ picked read(uint32_t row, const columns &at) const {
    const raw_bytes left = load(first + row, first_shift);
    const raw_bytes right = Three ? load(second + row, second_shift) : left;
    return {pick(left, at.firsts), pick(right, at.seconds)};
  }
};

/* -- the result ------------------------------------------------------------------------------------------------------ */

template <bool Shifted, bool Three, bool Bars>
__device__ __forceinline__ void go_down(const columns &at, uint32_t start, const line *lines, uint8_t *out, uint32_t row,
                                        uint32_t bars) {
  const row_reader<Shifted, Three> source(at, start);
#pragma unroll BATCH
  for (uint32_t i = 0; i < ROWS; i++) {
    const line now = lines[i];
    const picked upper = source.read(now.upper, at);
    const picked lower = source.read(now.lower, at);
    const uint32_t word = mix(at, upper, lower, now.weights);
    const uint32_t inside = !Bars ? ~0U : now.weights != 0 ? at.inside : 0;
    *reinterpret_cast<uint32_t *>(out + distance(now.y, row)) = (word & inside) | (bars & ~inside);
  }
}

template <bool Three, bool Bars>
__global__ void __launch_bounds__(THREADS, AT_ONCE)
    resize_tiles_kernel(const uint8_t *__restrict__ in, uint8_t *__restrict__ out,
                        const __grid_constant__ resize_constants constants, const __grid_constant__ tile_planes tiles) {
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ line lines[LINES];
  const resize_plane &plane = constants.plane[blockIdx.z];
  const tile_plane &tile = tiles.plane[blockIdx.z];
  const uint32_t channels = Three ? 3 : plane.channels;
  const uint32_t row = plane.out_width * channels, in_row = plane.in_width * channels;
  const uint32_t y = blockIdx.y * LINES;
  if (blockIdx.x * COLUMNS >= row || y >= plane.out_height) {
    return;
  }
  const uint32_t thread = threadIdx.y * THREADS_X + threadIdx.x;
  const uint32_t left = find_left<Three>(plane, tile), arrived = uint32_t(__cvta_generic_to_shared(shared));
  const uint32_t top = min(before(place(y, plane.y, plane.height), tile.down), plane.in_height - tile.rows);
  arrivals(in + plane.in_offset, left, in_row, tile, arrived).fetch(top, tile.rows);
  if (thread < LINES) {
    lines[thread] = find_line(plane, tile, min(y + thread, plane.out_height - 1), top);
  }
  const uint32_t x = blockIdx.x * COLUMNS + threadIdx.x * SAMPLES;
  const word_columns<Three> own(plane, tile, x);
  const uint32_t bars = Bars ? arithmetic_level(plane.fill) * 0x01010101U : 0;
  uint8_t *target = out + plane.out_offset + x;
  wait_async();
  __syncthreads();
  const line *mine = lines + threadIdx.y * ROWS;
  if (x < row && y + threadIdx.y * ROWS < plane.out_height) {
    if (own.near) {
      go_down<false, Three, Bars>(own.at, arrived - left, mine, target, row, bars);
    } else {
      go_down<true, Three, Bars>(own.at, arrived - left, mine, target, row, bars);
    }
  }
}

/* -- choice ---------------------------------------------------------------------------------------------------------- */

inverse invert(uint32_t divisor) {
  uint32_t bits = 1;
  while (uint64_t(1) << bits < divisor) {
    bits++;
  }
  return {uint32_t(((uint64_t(1) << (31 + bits)) + divisor - 1) / divisor), bits - 1};
}

axis make_axis(uint32_t in, uint32_t out) { return {uint32_t((uint64_t(in) << SCALE) / out), invert(2 * out)}; }

/* From the pixel that before() finds for the first of some to the last that any of them is made of. */
uint32_t reach(uint32_t pixels, uint32_t in, uint32_t out) { return uint32_t((uint64_t(pixels - 1) * in + out - 1) / out) + 3; }

tile_plane make_tile(const resize_plane &plane) {
  const uint32_t pixels = (COLUMNS + plane.channels - 2) / plane.channels + 1;
  const uint32_t samples = reach(pixels, plane.in_width, plane.width) * plane.channels;
  const uint32_t pieces = (samples + 2 * PIECE - 2) / PIECE;
  const uint32_t rows = reach(LINES, plane.in_height, plane.height);
  const axis across = make_axis(plane.in_width, plane.width), down = make_axis(plane.in_height, plane.height);
  return {across, down, pieces, rows, pieces * PIECE, 0x10000U / pieces + 1, THREADS / pieces};
}

/* The word behind the last one may be read. */
uint32_t shared_bytes(const tile_plane &tile) { return tile.pitch * tile.rows + PIECE; }

bool shrinks(uint32_t in, uint32_t out) { return in >= out && in <= 2 * out && uint64_t(in) * out < 1U << 30; }

bool fits(const resize_plane &plane) {
  const uint64_t in_row = uint64_t(plane.in_width) * plane.channels, row = uint64_t(plane.out_width) * plane.channels;
  if (!shrinks(plane.in_width, plane.width) || !shrinks(plane.in_height, plane.height) || (in_row | plane.in_offset) % PIECE ||
      (row | plane.out_offset) % SAMPLES) {
    return false;
  }
  const tile_plane tile = make_tile(plane);
  return tile.pitch <= in_row && tile.rows <= plane.in_height && shared_bytes(tile) + LINES * sizeof(line) <= ALWAYS_SHARED;
}

bool has_bars(const resize_constants &constants) {
  bool any = false;
  for (uint32_t i = 0; i < constants.planes; i++) {
    const resize_plane &plane = constants.plane[i];
    any = any || plane.width != plane.out_width || plane.height != plane.out_height;
  }
  return any;
}

auto kernel_of(const resize_constants &constants) {
  const bool bars = has_bars(constants);
  return constants.plane[0].channels == 3 ? bars ? resize_tiles_kernel<true, true> : resize_tiles_kernel<true, false>
         : bars ? resize_tiles_kernel<false, true>
                                          : resize_tiles_kernel<false, false>;
}

/* Whether what this device runs was compiled for one that has the instructions. */
bool has_instructions() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, resize_tiles_kernel<false, false>) == cudaSuccess && attributes.ptxVersion >= 80;
}

uint32_t blocks_over(uint32_t whole, uint32_t part) { return (whole + part - 1) / part; }

} // namespace

bool resize_tiles_take(const resize_constants &constants) {
  bool good = constants.filter == RESIZE_BILINEAR;
  for (uint32_t i = 0; i < constants.planes; i++) {
    good = good && fits(constants.plane[i]);
  }
  return good && has_instructions();
}

int resize_tiles(const resize_constants &constants, const stage_call *call, cudaStream_t stream) {
  tile_planes tiles = {};
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < constants.planes; i++) {
    tiles.plane[i] = make_tile(constants.plane[i]);
    bytes = std::max(bytes, shared_bytes(tiles.plane[i]));
  }
  const resize_plane &plane = constants.plane[0];
  const dim3 threads(THREADS_X, THREADS_Y);
  const dim3 blocks(blocks_over(plane.out_width * plane.channels, COLUMNS), blocks_over(plane.out_height, LINES),
                    constants.planes);
  kernel_of(constants)<<<blocks, threads, bytes, stream>>>(static_cast<const uint8_t *>(call->input),
                                                           static_cast<uint8_t *>(call->output), constants, tiles);
  return cudaGetLastError();
}
