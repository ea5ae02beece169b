/*
 * blur: kernel for bytes whose radius is not large, which does both passes on the units that multiply matrices.
 *
 * A pass over 16 rows is a product of two matrices: one is the band of weights, the same everywhere, the other a piece of the
 * image. The sums of bytes are exact (blur.h), so that they may be formed in any order, and they are formed of whole numbers
 * (blur_products.cuh).
 *
 * A block makes a strip of some times 16 rows, each of its warps 32 columns. For the first pass a thread has four rows of
 * four neighbouring columns, and joins two rows of a column in a register; of the SPANS groups of 16 rows that 16 rows of
 * sums need, all but the last are there already. What comes out are eight neighbouring sums of each of two rows; they go to
 * shared memory. From there the second pass takes neighbours, in STRETCHES groups of 16 for eight results. The rows that
 * come next are under way to shared memory meanwhile, DEPTH groups of them.
 */
#include "gpu/stages/blur/blur_products.cuh"

#include <cuda_pipeline.h>

namespace {

enum {
  WARPS = 8,
  THREADS = int(WARPS) * int(LAUNCH_WARP),
  GROUP = 16, /* rows of a step, and what one product sums up */
  WORD = 4,
  TILE = 8, /* columns of one product */
  TILES = 4,
  PIECE = TILE * TILES, /* columns of a warp */
  COLUMNS = WARPS * PIECE,
  PITCH = COLUMNS + 8, /* of a row in shared memory: rows of a warp's words begin at different banks */
  RESULT_PITCH = PIECE + 8,
  DEPTH = 4,       /* groups of rows under way */
  PROCESSORS = 132 /* of a large device */
};

constexpr int down_step = int(BLUR_UNIT / BLUR_STEP), along_step = int(BLUR_UNIT * BLUR_STEP);

/* -- the source ------------------------------------------------------------------------------------------------------ */

__device__ int32_t reflect_sample(const blur_geometry &image, int32_t index) {
  if (index >= 0 && index < image.row()) {
    return index;
  }
  const int32_t shift = BLUR_MATRIX_REACH * WORD * image.channels; /* so that division rounds down */
  const int32_t pixel = (index + shift) / image.channels - shift / image.channels;
  return border_reflect(pixel, image.width) * image.channels + (index + shift) % image.channels;
}

/* The four columns of a thread. */
struct place {
  int32_t columns[WORD];
  bool whole; /* they are a word of the row */
};

__device__ __forceinline__ place find(const blur_geometry &image, int32_t x) {
  place at;
  at.whole = image.row() % WORD == 0 && x >= 0 && x + WORD <= image.row();
#pragma unroll
  for (int i = 0; i < WORD; i++) {
    /* What lies behind the last margin decides nothing. */
    at.columns[i] = at.whole ? x + i : reflect_sample(image, min(x + i, image.row() - 1 + BLUR_MATRIX_REACH * image.channels));
  }
  return at;
}

/* Four rows of four columns, a word for each. */
struct rows {
  uint32_t words[WORD];
};

/* Where each thread's next rows of four columns arrive, a word for each row. Nobody else reads them, so nobody waits. Columns
 * that are no word of the row are read when they are needed: what they mirror has arrived by then, near the processor. */
struct arrivals {
  uint32_t words[DEPTH][WORD][THREADS];

  /* Requests the four rows from `top` on. */
  __device__ __forceinline__ void request(int32_t slot, const uint8_t *in, const blur_geometry &image, const place &at,
                                          int32_t top) {
    if (!at.whole) {
      return;
    }
    uint32_t *word = &words[slot][0][threadIdx.x];
    if (top >= 0 && top + WORD <= image.height) {
      const uint8_t *first = in + uint64_t(top) * image.row() + at.columns[0];
#pragma unroll
      for (int i = 0; i < WORD; i++) {
        __pipeline_memcpy_async(word + i * THREADS, first + int64_t(i) * image.row(), sizeof *word);
      }
    } else {
      request_reflected(word, in + at.columns[0], image, top);
    }
  }
  static __device__ __noinline__ void request_reflected(uint32_t *word, const uint8_t *column, blur_geometry image,
                                                        int32_t top) {
    for (int i = 0; i < WORD; i++) {
      const uint8_t *first = column + uint64_t(border_reflect(top + i, image.height)) * image.row();
      __pipeline_memcpy_async(word + i * THREADS, first, sizeof *word);
    }
  }
  /* The same rows, when they have arrived. */
  __device__ __forceinline__ rows get(int32_t slot, const uint8_t *in, const blur_geometry &image, const place &at,
                                      int32_t top) const {
    if (!at.whole) {
      return read(in, image, at, top);
    }
    const uint32_t *word = &words[slot][0][threadIdx.x];
    return {word[0], word[THREADS], word[2 * THREADS], word[3 * THREADS]};
  }
  static __device__ __noinline__ rows read(const uint8_t *in, blur_geometry image, place at, int32_t top) {
    uint8_t bytes[WORD][WORD];
#pragma unroll
    for (int i = 0; i < WORD; i++) {
      const uint8_t *row = in + uint64_t(border_reflect(top + i, image.height)) * image.row();
#pragma unroll
      for (int j = 0; j < WORD; j++) {
        bytes[i][j] = row[at.columns[j]];
      }
    }
    rows result;
#pragma unroll
    for (int i = 0; i < WORD; i++) {
      result.words[i] = bytes_join(bytes[i][0], bytes[i][1], bytes[i][2], bytes[i][3]);
    }
    return result;
  }
};

/* The same by columns. */
struct square {
  right_factor at[WORD];

  __device__ __forceinline__ void take(const rows &from) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint32_t left = __byte_perm(from.words[2 * i], from.words[2 * i + 1], 0x5140U);
      const uint32_t right = __byte_perm(from.words[2 * i], from.words[2 * i + 1], 0x7362U);
      at[0].words[i] = __byte_perm(left, 0, 0x4140U);
      at[1].words[i] = __byte_perm(left, 0, 0x4342U);
      at[2].words[i] = __byte_perm(right, 0, 0x4140U);
      at[3].words[i] = __byte_perm(right, 0, 0x4342U);
    }
  }
};

/* The groups of 16 rows of a strip, one after another, as a thread reads them: DEPTH of them are under way. */
struct feed {
  arrivals &next;
  const uint8_t *in;
  const blur_geometry &image;
  const place at;
  const int32_t top, groups;

  __device__ __forceinline__ void request(int32_t group) {
    if (group < groups) {
      next.request(group % DEPTH, in, image, at, top + group * GROUP);
    }
    __pipeline_commit();
  }
  __device__ __forceinline__ void take(int32_t group, square &into) {
    __pipeline_wait_prior(DEPTH - 1);
    into.take(next.get(group % DEPTH, in, image, at, top + group * GROUP));
    request(group + DEPTH);
  }
};

/* -- both passes ----------------------------------------------------------------------------------------------------- */

/* Sums of 16 rows of columns in steps of 1 / BLUR_STEP. What the last columns of a warp read behind the end of a row decides
 * nothing; behind the last row there is room for it. */
struct plane {
  enum { ROOM = 64 };
  alignas(16) uint16_t numbers[GROUP * PITCH + ROOM];
  __device__ uint16_t *at(uint32_t row, uint32_t x) { return numbers + row * PITCH + x; }
};

template <int Spans, int Parts>
__device__ __forceinline__ void pass_down(const square (&source)[Spans], int oldest, const left_factor (&weights)[Parts][Spans],
                                          uint32_t warp, uint32_t lane, plane &out) {
  const sums start = begin_sums<down_step>();
  sums made[WORD];
  /* A product waits for the last one that was added to the same sum, so that other sums come between. */
#pragma unroll
  for (int i = 0; i < Spans * Parts; i++) {
#pragma unroll
    for (int column = 0; column < WORD; column++) {
      made[column].make(i == 0 ? start : made[column], weights[i / Spans][i % Spans], source[(oldest + i) % Spans].at[column]);
    }
  }
#pragma unroll
  for (int row = 0; row < 2; row++) {
    launch_pack<uint32_t, WORD> eight;
#pragma unroll
    for (int i = 0; i < WORD; i++) {
      const int one = row * 2 + i / 2; /* four columns have their first sums, then their second ones */
      eight.values[i] = join(whole<down_step>(made[i % 2 * 2].at[one]), whole<down_step>(made[i % 2 * 2 + 1].at[one]));
    }
    *reinterpret_cast<launch_pack<uint32_t, WORD> *>(out.at(lane / 4 + row * GROUP / 2, warp * PIECE + lane % 4 * TILE)) =
        eight;
  }
}

/* The results of a warp, row by row. */
struct results {
  alignas(8) uint8_t rows[GROUP][RESULT_PITCH];
};

template <int Stretches, int Parts>
__device__ __forceinline__ void pass_along(plane &in, const right_factor (&weights)[Parts][Stretches], uint32_t warp,
                                           uint32_t lane, results &out) {
  const uint16_t *row = in.at(lane % (2 * TILE), warp * PIECE + lane / (2 * TILE) * TILE);
  left_factor source[TILES + 2 * (Stretches - 1)]; /* [i] begins at tile i */
  const sums start = begin_sums<along_step>();
  sums made[TILES];
#pragma unroll
  for (int i = 0; i < Stretches * Parts; i++) {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
      const int from = tile + i % Stretches * 2;
      if (i == 0 || (i < Stretches && tile >= TILES - 2)) {
        source[from].load(row + from * TILE);
      }
      made[tile].make(i == 0 ? start : made[tile], source[from], weights[i / Stretches][i % Stretches]);
    }
  }
#pragma unroll
  for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const uint32_t both =
          __byte_perm(whole<along_step>(made[tile].at[2 * half]), whole<along_step>(made[tile].at[2 * half + 1]), 0x0040U);
      *reinterpret_cast<uint16_t *>(&out.rows[lane / 4 + half * GROUP / 2][tile * TILE + lane % 4 * 2]) = uint16_t(both);
    }
  }
}

/* Eight samples of each of two rows: `x` counts from the start of the row, `left` is how many of them belong to the tile. */
__device__ __forceinline__ void store(const results &from, uint8_t *out, const blur_geometry &image, int32_t x, int32_t top,
                                      uint32_t lane, int32_t left) {
  const int32_t piece = int32_t(lane % 4) * TILE;
  if (piece >= left) {
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int32_t row = int32_t(lane / 4) + i * GROUP / 2;
    uint8_t *target = out + uint64_t(top + row) * image.row() + x + piece;
    const auto eight = *reinterpret_cast<const launch_pack<uint8_t, TILE> *>(&from.rows[row][piece]);
    if (top + row >= image.height) {
      continue;
    }
    if (image.row() % TILE == 0) {
      if (x + piece < image.row()) {
        *reinterpret_cast<launch_pack<uint8_t, TILE> *>(target) = eight;
      }
    } else {
#pragma unroll
      for (int j = 0; j < TILE; j++) {
        if (x + piece + j < image.row()) {
          target[j] = eight.values[j];
        }
      }
    }
  }
}

/* Rows that a strip reads above itself, samples that it reads on each side, and those that it makes. */
template <int Spans> constexpr int above = GROUP / 2 * (Spans - 1);
template <int Stretches> constexpr int beside = GROUP / 2 * Stretches - WORD;
template <int Stretches> constexpr int width = (COLUMNS - 2 * beside<Stretches>) / TILE *TILE;

/* How many blocks a processor has at a time. */
template <int Parts, int Spans> constexpr int blocks_of_processor = Parts > 1 ? 1 : Spans == 2 ? 3 : 2;

/* The weights of a lane. */
template <int Spans, int Stretches, int Parts> struct factors {
  left_factor down[Parts][Spans];
  right_factor along[Parts][Stretches];

  __device__ __forceinline__ factors(const band<above<Spans> + GROUP, Parts> &rows,
                                     const band<beside<Stretches> + GROUP, Parts> &columns, uint32_t lane) {
    const int32_t fourth = int32_t(lane % 4), eighth = int32_t(lane / 4);
#pragma unroll
    for (int part = 0; part < Parts; part++) {
#pragma unroll
      for (int i = 0; i < Spans * 4; i++) {
        const int32_t distance = i / 4 * GROUP + fourth * WORD + i % 2 * 2 - above<Spans> - eighth - i / 2 % 2 * GROUP / 2;
        down[part][i / 4].words[i % 2][i / 2 % 2] = rows.pair(part, distance);
      }
#pragma unroll
      for (int i = 0; i < Stretches * 2; i++) {
        const int32_t distance = i * TILE + fourth * 2 - beside<Stretches> - eighth;
        along[part][i / 2].words[i % 2] = columns.pair(part, distance);
      }
    }
  }
};

template <int Spans, int Stretches, int Parts>
__global__ void __launch_bounds__(THREADS, blocks_of_processor<Parts, Spans>)
    blur_matrix_kernel(const uint8_t *__restrict__ in, uint8_t *__restrict__ out, blur_geometry image, blur_weights weights,
                       int32_t steps) {
  __shared__ band<above<Spans> + GROUP, Parts> down;
  __shared__ band<beside<Stretches> + GROUP, Parts> along;
  __shared__ plane summed[2];
  __shared__ results made[WARPS];
  __shared__ arrivals next;
  const uint32_t warp = threadIdx.x / LAUNCH_WARP;
  const uint32_t lane = threadIdx.x % LAUNCH_WARP;
  const int32_t first = int32_t(lane % 4) * WORD; /* of the 16 rows that one product sums up */
  down.fill(weights, image.radius, 1, THREADS);
  along.fill(weights, image.radius, image.channels, THREADS);
  __syncthreads();
  const factors<Spans, Stretches, Parts> products(down, along, lane);
  const int32_t left = int32_t(blockIdx.x) * width<Stretches>;
  const int32_t top = int32_t(blockIdx.y) * GROUP * steps;
  const int32_t own = int32_t(warp) * PIECE;
  const place at = find(image, left - beside<Stretches> + own + int32_t(lane / 4) * WORD);
  feed arriving = {next, in, image, at, top - above<Spans> + first, Spans + steps - 1};
  square source[Spans];
#pragma unroll 1
  for (int32_t group = 0; group < DEPTH; group++) {
    arriving.request(group);
  }
#pragma unroll
  for (int i = 0; i < Spans - 1; i++) {
    arriving.take(i, source[i]);
  }
  /* As many steps as there are groups are laid out one after another, so that none is moved when a new one takes the place of
   * the oldest. */
#pragma unroll 1
  for (int32_t step = 0; step < steps; step += Spans) {
#pragma unroll
    for (int i = 0; i < Spans; i++) {
      const int32_t y = top + (step + i) * GROUP;
      if (step + i >= steps || y >= image.height) {
        __pipeline_wait_prior(0);
        return;
      }
      plane &between = summed[(step + i) % 2];
      arriving.take(step + i + Spans - 1, source[(i + Spans - 1) % Spans]);
      pass_down(source, i, products.down, warp, lane, between);
      __syncthreads();
      if (own < width<Stretches>) {
        pass_along(between, products.along, warp, lane, made[warp]);
        __syncwarp();
        store(made[warp], out, image, left + own, y, lane, width<Stretches> - own);
      }
    }
  }
}

/* How many steps of 16 rows a strip has: as many as let all strips run at once, or in as few rounds as take the least time.
 * What a strip needs before its first step is worth some steps. */
int32_t choose_steps(uint32_t columns, uint32_t groups, uint32_t spans, uint32_t blocks_at_once) {
  uint64_t least = UINT64_MAX;
  uint32_t best = groups;
  for (uint32_t rounds = 1; rounds <= 4; rounds++) {
    const uint32_t strips = rounds * blocks_at_once < columns ? 1 : rounds * blocks_at_once / columns;
    const uint32_t steps = (groups + strips - 1) / strips;
    const uint64_t blocks = uint64_t(columns) * ((groups + steps - 1) / steps);
    const uint64_t cost = (blocks + blocks_at_once - 1) / blocks_at_once * (steps + spans + 2);
    if (cost < least) {
      least = cost;
      best = steps;
    }
  }
  return int32_t(best);
}

template <int Spans, int Stretches, int Parts>
int launch(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  const uint32_t columns = blur_parts(image.row(), width<Stretches>);
  const uint32_t groups = blur_parts(image.height, GROUP);
  const int32_t steps = choose_steps(columns, groups, Spans, PROCESSORS * blocks_of_processor<Parts, Spans>);
  const dim3 blocks(columns, blur_parts(image.height, GROUP * steps));
  blur_matrix_kernel<Spans, Stretches, Parts><<<blocks, THREADS, 0, stream>>>(in, out, image, weights, steps);
  return cudaGetLastError();
}

} // namespace

/* The smallest kernel that reaches as far as the radius, down and along. Some very narrow blurs take weights in two parts. */
int blur_matrix(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  using launcher = int (*)(const uint8_t *, uint8_t *, const blur_geometry &, const blur_weights &, cudaStream_t);
  static const struct {
    int32_t parts, rows, samples;
    launcher launch;
  } ways[] = {
      {1, above<2>, beside<1>, launch<2, 1, 1>}, {1, above<2>, beside<2>, launch<2, 2, 1>},
      {1, above<3>, beside<2>, launch<3, 2, 1>}, {1, above<2>, beside<3>, launch<2, 3, 1>},
      {1, above<4>, beside<3>, launch<4, 3, 1>}, {1, above<3>, beside<4>, launch<3, 4, 1>},
      {1, above<3>, beside<5>, launch<3, 5, 1>}, {1, above<5>, beside<5>, launch<5, 5, 1>},
      {2, above<2>, beside<1>, launch<2, 1, 2>}, {2, above<2>, beside<2>, launch<2, 2, 2>},
  };
  const int32_t parts = blur_weight_parts(weights, image.radius);
  for (const auto &way : ways) {
    if (way.parts == parts && image.radius <= way.rows && image.radius * image.channels <= way.samples) {
      return way.launch(in, out, image, weights, stream);
    }
  }
  return cudaErrorInvalidValue;
}
