/*
 * blur: kernel for bytes whose radius is not large, which does both passes on the units that multiply matrices.
 *
 * A pass over 16 rows is a product of two matrices: one is the band of weights, the same everywhere, the other a piece of
 * the image. The sums of bytes are exact (blur.h), so that they may be formed in any order, and in integers: weights and the
 * columns' sums are split into a low and a high byte, and the products of these bytes are added at the end.
 *
 * A block makes a strip of STEPS times 16 rows, each of its warps 32 columns. For the first pass a thread has four rows of
 * four neighbouring columns, and exchanges rows for columns, so that a register holds what stands one below the other; of
 * the SPANS groups of 16 rows that 16 rows of sums need, all but the last are there already. What comes out are eight
 * neighbouring sums of each of two rows; they go to shared memory as two planes of bytes. From there the second pass takes
 * four neighbours as a word, in STRETCHES groups of 16 for eight results. Loads for the next rows are under way meanwhile.
 */
#include "gpu/stages/blur.cuh"

namespace {

enum {
  WARPS = 8,
  THREADS = int(WARPS) * int(LAUNCH_WARP),
  GROUP = 16, /* rows of a step, and what one product sums up */
  WORD = 4,
  TILE = 8, /* columns of one product */
  TILES = 4,
  PAIR = 2,             /* tiles made together */
  PIECE = TILE * TILES, /* columns of a warp */
  COLUMNS = WARPS * PIECE,
  PITCH = COLUMNS + 16, /* of a row in shared memory: rows of a warp's words begin at different banks */
  RESULT_PITCH = PIECE + 8,
  STEPS = 8
};

/* sum += a * b: 16 rows of `a` with 16 bytes each, of which a thread has four of row lane / 4 and four of the row 8 further;
 * 8 columns of `b`, of which it has four bytes of column lane / 4. Of each row it gets two neighbouring sums. */
__device__ __forceinline__ void multiply(int32_t (&sum)[4], const uint32_t (&a)[2], uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#else
  asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+r"(sum[0]), "+r"(sum[1])
      : "r"(a[0]), "r"(b));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[1]), "r"(b));
#endif
}

/* -- weights --------------------------------------------------------------------------------------------------------- */

/* Bytes of the weights at all distances from -Reach to Reach, in steps of `step` samples. */
template <int Reach> struct band {
  uint8_t low[2 * Reach + 1], high[2 * Reach + 1];

  __device__ void fill(const blur_weights &weights, int32_t radius, int32_t step) {
    for (int32_t i = threadIdx.x; i < 2 * Reach + 1; i += THREADS) {
      const int32_t distance = abs(i - Reach);
      const bool within = distance % step == 0 && distance / step <= radius;
      const uint32_t weight = within ? uint32_t(weights.at[distance / step] * BLUR_UNIT) : 0;
      low[i] = uint8_t(weight);
      high[i] = uint8_t(weight >> 8);
    }
  }
  static __device__ uint32_t word(const uint8_t *bytes, int32_t distance) {
    const uint8_t *four = bytes + Reach + distance;
    return bytes_join(four[0], four[1], four[2], four[3]);
  }
};

/* -- the source ------------------------------------------------------------------------------------------------------ */

/* Not inlined, since it divides, and only tiles at the edges need it. */
__device__ __noinline__ int32_t reflect(int32_t index, int32_t size) { return border_reflect(index, size); }

__device__ int32_t reflect_sample(const blur_geometry &image, int32_t index) {
  if (index >= 0 && index < image.row()) {
    return index;
  }
  const int32_t shift = BLUR_MATRIX_REACH * WORD * image.channels; /* so that division rounds down */
  const int32_t pixel = (index + shift) / image.channels - shift / image.channels;
  return reflect(pixel, image.width) * image.channels + (index + shift) % image.channels;
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

/* Four rows of four columns, as they are read: a word for each row; and with rows exchanged for columns. */
struct square {
  uint32_t words[WORD];

  __device__ __forceinline__ void read(const uint8_t *in, const blur_geometry &image, const place &at, int32_t top) {
#pragma unroll
    for (int i = 0; i < WORD; i++) {
      const int32_t y = top + i;
      const uint8_t *row = in + uint64_t(y >= 0 && y < image.height ? y : reflect(y, image.height)) * image.row();
      words[i] = at.whole ? *reinterpret_cast<const uint32_t *>(row + at.columns[0])
                          : bytes_join(row[at.columns[0]], row[at.columns[1]], row[at.columns[2]], row[at.columns[3]]);
    }
  }
  __device__ __forceinline__ square turned() const {
    const uint32_t upper[2] = {__byte_perm(words[0], words[1], 0x5140U), __byte_perm(words[0], words[1], 0x7362U)};
    const uint32_t lower[2] = {__byte_perm(words[2], words[3], 0x5140U), __byte_perm(words[2], words[3], 0x7362U)};
    return {{__byte_perm(upper[0], lower[0], 0x5410U), __byte_perm(upper[0], lower[0], 0x7632U),
             __byte_perm(upper[1], lower[1], 0x5410U), __byte_perm(upper[1], lower[1], 0x7632U)}};
  }
};

/* -- both passes ----------------------------------------------------------------------------------------------------- */

/* Sums of 16 rows of columns in steps of 1 / BLUR_STEP, split into bytes. What the last columns of a warp read behind the end
 * of a row decides nothing; behind the last row there is room for it. */
struct planes {
  enum { ROOM = 64 };
  alignas(16) uint8_t bytes[2 * GROUP * PITCH + ROOM];
  __device__ uint8_t *low(uint32_t row, uint32_t x) { return bytes + row * PITCH + x; }
  __device__ uint8_t *high(uint32_t row, uint32_t x) { return low(row + GROUP, x); }
};

/* The lowest and the second bytes of four sums. */
__device__ __forceinline__ void split(const uint32_t (&sums)[WORD], uint32_t &low, uint32_t &high) {
  const uint32_t first = __byte_perm(sums[0], sums[1], 0x5140U);
  const uint32_t second = __byte_perm(sums[2], sums[3], 0x5140U);
  low = __byte_perm(first, second, 0x5410U);
  high = __byte_perm(first, second, 0x7632U);
}

template <int Spans>
__device__ __forceinline__ void pass_down(const square (&source)[Spans], const uint32_t (&low)[Spans][2],
                                          const uint32_t (&high)[Spans][2], uint32_t warp, uint32_t lane, planes &out) {
  constexpr int32_t unit = int32_t(BLUR_UNIT / BLUR_STEP);
  int32_t lows[WORD][4], highs[WORD][4];
#pragma unroll
  for (int column = 0; column < WORD; column++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      lows[column][i] = unit / 2;
      highs[column][i] = 0;
    }
  }
  /* A product waits for the last one that was added to the same sum, so that other sums come between. */
#pragma unroll
  for (int i = 0; i < Spans; i++) {
#pragma unroll
    for (int column = 0; column < WORD; column++) {
      multiply(lows[column], low[i], source[i].words[column]);
      multiply(highs[column], high[i], source[i].words[column]);
    }
  }
  uint32_t sums[2][2][WORD]; /* of each row, two neighbouring words */
#pragma unroll
  for (int column = 0; column < WORD; column++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      sums[i / 2][i % 2][column] = uint32_t(highs[column][i] * 256 + lows[column][i]) / unit;
    }
  }
  const uint32_t x = warp * PIECE + lane % 4 * TILE;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    launch_pack<uint32_t, 2> least, most;
    split(sums[i][0], least.values[0], most.values[0]);
    split(sums[i][1], least.values[1], most.values[1]);
    *reinterpret_cast<launch_pack<uint32_t, 2> *>(out.low(lane / 4 + i * GROUP / 2, x)) = least;
    *reinterpret_cast<launch_pack<uint32_t, 2> *>(out.high(lane / 4 + i * GROUP / 2, x)) = most;
  }
}

/* The results of a warp, row by row. */
struct results {
  alignas(8) uint8_t rows[GROUP][RESULT_PITCH];
};

template <int Stretches>
__device__ __forceinline__ void pass_along(planes &in, const uint32_t (&low)[Stretches], const uint32_t (&high)[Stretches],
                                           uint32_t warp, uint32_t lane, results &out) {
  constexpr int words = TILES + 2 * (Stretches - 1);
  constexpr int32_t half = int32_t(BLUR_UNIT * BLUR_STEP) / 2;
  uint32_t lows[words][2], highs[words][2];
#pragma unroll
  for (int i = 0; i < words; i++) {
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const uint32_t x = warp * PIECE + i * TILE + lane % 4 * WORD;
      lows[i][j] = *reinterpret_cast<const uint32_t *>(in.low(lane / 4 + j * GROUP / 2, x));
      highs[i][j] = *reinterpret_cast<const uint32_t *>(in.high(lane / 4 + j * GROUP / 2, x));
    }
  }
#pragma unroll
  for (int first = 0; first < TILES; first += PAIR) {
    int32_t least[PAIR][4], middle[PAIR][4] = {}, most[PAIR][4] = {};
#pragma unroll
    for (int i = 0; i < PAIR * 4; i++) {
      least[i / 4][i % 4] = half;
    }
#pragma unroll
    for (int i = 0; i < Stretches; i++) {
#pragma unroll
      for (int tile = 0; tile < PAIR; tile++) {
        multiply(least[tile], lows[first + tile + 2 * i], low[i]);
        multiply(middle[tile], lows[first + tile + 2 * i], high[i]);
      }
#pragma unroll
      for (int tile = 0; tile < PAIR; tile++) {
        multiply(most[tile], highs[first + tile + 2 * i], high[i]);
        multiply(middle[tile], highs[first + tile + 2 * i], low[i]);
      }
    }
#pragma unroll
    for (int tile = 0; tile < PAIR; tile++) {
      uint32_t sums[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        sums[i] = uint32_t((most[tile][i] * 256 + middle[tile][i]) * 256 + least[tile][i]); /* the level is the third byte */
      }
#pragma unroll
      for (int i = 0; i < 2; i++) {
        *reinterpret_cast<uint16_t *>(&out.rows[lane / 4 + i * GROUP / 2][(first + tile) * TILE + lane % 4 * 2]) =
            uint16_t(__byte_perm(sums[2 * i], sums[2 * i + 1], 0x0062U));
      }
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

template <int Spans, int Stretches>
__global__ void __launch_bounds__(THREADS)
    blur_matrix_kernel(const uint8_t *__restrict__ in, uint8_t *__restrict__ out, blur_geometry image, blur_weights weights) {
  using down_band = band<above<Spans> + GROUP>;
  using along_band = band<beside<Stretches> + GROUP>;
  __shared__ down_band down;
  __shared__ along_band along;
  __shared__ planes summed[2];
  __shared__ results made[WARPS];
  const uint32_t warp = threadIdx.x / LAUNCH_WARP;
  const uint32_t lane = threadIdx.x % LAUNCH_WARP;
  const int32_t first = int32_t(lane % 4) * WORD; /* of the 16 that one product sums up */
  down.fill(weights, image.radius, 1);
  along.fill(weights, image.radius, image.channels);
  __syncthreads();
  uint32_t down_low[Spans][2], down_high[Spans][2], along_low[Stretches], along_high[Stretches];
#pragma unroll
  for (int i = 0; i < Spans; i++) {
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const int32_t distance = i * GROUP + first - above<Spans> - int32_t(lane / 4) - j * GROUP / 2;
      down_low[i][j] = down_band::word(down.low, distance);
      down_high[i][j] = down_band::word(down.high, distance);
    }
  }
#pragma unroll
  for (int i = 0; i < Stretches; i++) {
    const int32_t distance = i * GROUP + first - beside<Stretches> - int32_t(lane / 4);
    along_low[i] = along_band::word(along.low, distance);
    along_high[i] = along_band::word(along.high, distance);
  }
  const int32_t left = int32_t(blockIdx.x) * width<Stretches>;
  const int32_t top = int32_t(blockIdx.y) * GROUP * STEPS;
  const int32_t own = int32_t(warp) * PIECE;
  const place at = find(image, left - beside<Stretches> + own + int32_t(lane / 4) * WORD);
  square source[Spans], next;
#pragma unroll
  for (int i = 0; i < Spans; i++) {
    next.read(in, image, at, top - above<Spans> + i * GROUP + first);
    source[i] = next.turned();
  }
#pragma unroll 1
  for (int32_t y = top, step = 0; step < STEPS && y < image.height; y += GROUP, step++) {
    if (step + 1 < STEPS) {
      next.read(in, image, at, y + GROUP * Spans - above<Spans> + first);
    }
    pass_down(source, down_low, down_high, warp, lane, summed[step % 2]);
    __syncthreads();
    if (own < width<Stretches>) {
      pass_along(summed[step % 2], along_low, along_high, warp, lane, made[warp]);
      __syncwarp();
      store(made[warp], out, image, left + own, y, lane, width<Stretches> - own);
    }
#pragma unroll
    for (int i = 0; i + 1 < Spans; i++) {
      source[i] = source[i + 1];
    }
    source[Spans - 1] = next.turned();
  }
}

template <int Spans, int Stretches>
int launch(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  const dim3 blocks(blur_parts(image.row(), width<Stretches>), blur_parts(image.height, GROUP * STEPS));
  blur_matrix_kernel<Spans, Stretches><<<blocks, THREADS, 0, stream>>>(in, out, image, weights);
  return cudaGetLastError();
}

} // namespace

/* The smallest kernel that reaches as far as the radius, down and along. */
int blur_matrix(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  using launcher = int (*)(const uint8_t *, uint8_t *, const blur_geometry &, const blur_weights &, cudaStream_t);
  static const struct {
    int32_t rows, samples;
    launcher launch;
  } ways[] = {
      {above<2>, beside<1>, launch<2, 1>}, {above<2>, beside<2>, launch<2, 2>}, {above<3>, beside<2>, launch<3, 2>},
      {above<2>, beside<3>, launch<2, 3>}, {above<4>, beside<3>, launch<4, 3>}, {above<3>, beside<4>, launch<3, 4>},
      {above<3>, beside<5>, launch<3, 5>}, {above<5>, beside<5>, launch<5, 5>},
  };
  for (const auto &way : ways) {
    if (image.radius <= way.rows && image.radius * image.channels <= way.samples) {
      return way.launch(in, out, image, weights, stream);
    }
  }
  return cudaErrorInvalidValue;
}
