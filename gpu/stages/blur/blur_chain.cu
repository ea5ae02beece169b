/*
 * blur: kernel for gray bytes whose radius is small, which does both passes on the units that multiply matrices, and keeps what
 * is between them in registers (blur_products.cuh says what the products are made of).
 *
 * Each warp goes down a strip of 32 times BLOCKS columns by itself. For the first pass a lane has four rows of four
 * neighbouring columns, as blur_matrix.cu, so that a product makes every fourth of 32 columns. The sums that a lane gets are
 * laid out as it needs them for the second pass: two products' sums are 16 columns of a factor there. Which columns these are
 * is the weights' business, and so is it that each lane gets four neighbouring results. Each warp makes sums for columns beside
 * its results itself. Beyond the edges it finds those that are mirrored at other lanes.
 */
#include "gpu/stages/blur/blur_products.cuh"

namespace {

enum {
  WARPS = 4,
  THREADS = int(WARPS) * int(LAUNCH_WARP),
  GROUP = 16, /* rows of a step, and what one product sums up */
  WORD = 4,
  TILES = 4, /* of a block of columns */
  COLUMNS = 32,
  RESULTS = 16,    /* columns of two products of the second pass */
  REACH = 64,      /* beyond which the kernel asks for no weight */
  PROCESSORS = 132 /* of a large device */
};

constexpr int down_step = int(BLUR_UNIT / BLUR_STEP), along_step = int(BLUR_UNIT * BLUR_STEP);

/* Groups of 16 rows that 16 rows of sums need, blocks of columns, and how many blocks a processor runs at a time. */
template <int Spans, int Blocks, int AtOnce> struct shape {
  static constexpr int spans = Spans, blocks = Blocks, at_once = AtOnce;
  static constexpr int margin = GROUP / 2 * (Spans - 1); /* rows above and below, and columns beside */
  static constexpr int pairs = (COLUMNS * Blocks - 2 * margin) / RESULTS;
  static constexpr int width = pairs * RESULTS; /* what a warp makes */
  /* A pair of products begins at the first column of a block that it needs, or at its middle, and sums blocks' halves up. */
  static constexpr int halves_inside = (RESULTS + 2 * margin + COLUMNS - 1) / COLUMNS * 2;
  static constexpr int halves_across = (2 * RESULTS + 2 * margin + COLUMNS - 1) / COLUMNS * 2;
};

/* -- the source ------------------------------------------------------------------------------------------------------ */

/* A word for each of four rows in each block. */
template <int Blocks> struct words { uint32_t at[WORD][Blocks]; };

/* Of a lane's columns, those that it has mirrored of other lanes, which stand in two words. */
template <int Blocks> struct mirror {
  int32_t first[Blocks], second[Blocks]; /* words of the strip */
  uint32_t order[Blocks];

  __device__ __forceinline__ mirror(int32_t left, int32_t width, int32_t lane) {
#pragma unroll
    for (int i = 0; i < Blocks; i++) {
      const int32_t x = left + i * COLUMNS + lane / 4 * WORD;
      const int32_t one = x < 0 ? -x - WORD : x < width ? x : 2 * width - 2 * WORD - x;
      const int32_t other = x >= 0 && x < width ? x : one + WORD;
      first[i] = max((one - left) / WORD, 0); /* what lies behind the last margin decides nothing */
      second[i] = max((other - left) / WORD, 0);
      order[i] = x < 0 ? 0x1234U : x < width ? 0x3210U : 0x3456U;
    }
  }
  static __device__ __forceinline__ uint32_t fetch(const uint32_t (&row)[Blocks], int32_t word, int32_t lane) {
    uint32_t result = 0;
#pragma unroll
    for (int i = 0; i < Blocks; i++) {
      const uint32_t found = __shfl_sync(launch_all_lanes, row[i], word % 8 * 4 + lane % 4);
      result = word / 8 == i ? found : result;
    }
    return result;
  }
  __device__ __forceinline__ void fill(words<Blocks> &rows, int32_t lane) const {
#pragma unroll
    for (int row = 0; row < WORD; row++) {
      uint32_t filled[Blocks];
#pragma unroll
      for (int i = 0; i < Blocks; i++) {
        filled[i] = __byte_perm(fetch(rows.at[row], first[i], lane), fetch(rows.at[row], second[i], lane), order[i]);
      }
#pragma unroll
      for (int i = 0; i < Blocks; i++) {
        rows.at[row][i] = filled[i];
      }
    }
  }
};

template <int Blocks> struct source {
  right_factor at[Blocks][TILES];

  __device__ __forceinline__ void take(const words<Blocks> &from) {
#pragma unroll
    for (int block = 0; block < Blocks; block++) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const uint32_t left = __byte_perm(from.at[2 * i][block], from.at[2 * i + 1][block], 0x5140U);
        const uint32_t right = __byte_perm(from.at[2 * i][block], from.at[2 * i + 1][block], 0x7362U);
        at[block][0].words[i] = __byte_perm(left, 0, 0x4140U);
        at[block][1].words[i] = __byte_perm(left, 0, 0x4342U);
        at[block][2].words[i] = __byte_perm(right, 0, 0x4140U);
        at[block][3].words[i] = __byte_perm(right, 0, 0x4342U);
      }
    }
  }
};

/* The groups of 16 rows of a strip, one after another, as a lane reads them: one group is on its way. */
template <typename Shape> struct feed {
  const uint8_t *columns[Shape::blocks];
  int32_t left, top, lane, width, last; /* the first column and row that it reads; the image's last row */
  bool mirrors;                         /* columns beyond the edges */
  words<Shape::blocks> next;

  __device__ __forceinline__ feed(const uint8_t *in, const blur_geometry &image, int32_t x, int32_t y, int32_t lane)
      : left(x - Shape::margin), top(y - Shape::margin + lane % 4 * WORD), lane(lane), width(image.width),
        last(image.height - 1), mirrors(left < 0 || left + COLUMNS * Shape::blocks > width) {
#pragma unroll
    for (int i = 0; i < Shape::blocks; i++) {
      columns[i] = in + min(max(left + i * COLUMNS + lane / 4 * WORD, 0), width - WORD);
    }
  }
  __device__ __forceinline__ void request(int32_t group) {
    const int32_t first = top + group * GROUP;
#pragma unroll
    for (int i = 0; i < WORD; i++) {
      const int64_t row = max(last - abs(last - abs(first + i)), 0); /* mirrored once; further rows decide nothing */
#pragma unroll
      for (int block = 0; block < Shape::blocks; block++) {
        next.at[i][block] = *reinterpret_cast<const uint32_t *>(columns[block] + row * width);
      }
    }
  }
  __device__ __forceinline__ void take(source<Shape::blocks> &into) {
    if (mirrors) {
      mirror<Shape::blocks>(left, width, lane).fill(next, lane);
    }
    into.take(next);
  }
};

/* -- weights --------------------------------------------------------------------------------------------------------- */

template <typename Shape, int Parts> struct factors {
  left_factor down[Parts][Shape::spans];
  right_factor along[Parts][2][2][Shape::halves_across]; /* for pairs that begin at a block or at its middle: [product][half] */

  __device__ __forceinline__ factors(const band<REACH, Parts> &weights, int32_t lane) {
    const int32_t row = lane / 4;
    const int32_t fourth = lane % 4;
#pragma unroll
    for (int i = 0; i < Parts * Shape::spans * 4; i++) {
      const int part = i / 4 / Shape::spans;
      const int span = i / 4 % Shape::spans;
      const int32_t distance = span * GROUP + fourth * WORD + i % 2 * 2 - Shape::margin - row - i / 2 % 2 * GROUP / 2;
      down[part][span].words[i % 2][i / 2 % 2] = weights.pair(part, distance);
    }
#pragma unroll
    for (int i = 0; i < Parts * 4 * Shape::halves_across; i++) {
      const int half = i / 4 % Shape::halves_across;
      const int32_t column = Shape::margin + i / 2 % 2 * RESULTS + row / 2 * WORD + i % 2 * 2 + row % 2;
      const int32_t distance = half / 2 * COLUMNS + fourth * 8 + half % 2 * 2 - column;
      const uint16_t *from = weights.parts[i / 4 / Shape::halves_across] + REACH + distance;
      along[i / 4 / Shape::halves_across][i / 2 % 2][i % 2][half] = {
          {join(from[0], from[WORD]), join(from[1], from[WORD + 1])}};
    }
  }
};

/* -- both passes ----------------------------------------------------------------------------------------------------- */

/* Sums of 16 rows: two factors of each block. */
template <int Blocks> struct summed { left_factor at[Blocks][2]; };

template <typename Shape, int Parts>
__device__ __forceinline__ void pass_down(const source<Shape::blocks> (&from)[Shape::spans], int oldest,
                                          const factors<Shape, Parts> &weights, summed<Shape::blocks> &out) {
  const sums start = begin_sums<down_step>();
#pragma unroll
  for (int block = 0; block < Shape::blocks; block++) {
    sums made[TILES];
#pragma unroll
    for (int i = 0; i < Shape::spans * Parts; i++) {
      const int span = i % Shape::spans;
#pragma unroll
      for (int tile = 0; tile < TILES; tile++) {
        made[tile].make(i == 0 ? start : made[tile], weights.down[i / Shape::spans][span],
                        from[(oldest + span) % Shape::spans].at[block][tile]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * TILES; i++) {
      const sums &one = made[i / 2];
      out.at[block][i / 4].words[i / 2 % 2][i % 2] =
          join(whole<down_step>(one.at[i % 2 * 2]), whole<down_step>(one.at[i % 2 * 2 + 1]));
    }
  }
}

/* The results of a pair of products: four neighbouring ones in each of two rows. */
template <typename Shape, int Parts>
__device__ __forceinline__ void pass_along(const summed<Shape::blocks> &from, int pair, const factors<Shape, Parts> &weights,
                                           uint32_t (&words)[2]) {
  const sums start = begin_sums<along_step>();
  const int place = pair % 2;
  sums made[2];
#pragma unroll
  for (int part = 0; part < Parts; part++) {
#pragma unroll
    for (int half = 0; half < (place == 0 ? Shape::halves_inside : Shape::halves_across); half++) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        made[i].make(part == 0 && half == 0 ? start : made[i], from.at[pair / 2 + half / 2][half % 2],
                     weights.along[part][place][i][half]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    words[i] = bytes_join(whole<along_step>(made[0].at[2 * i]), whole<along_step>(made[0].at[2 * i + 1]),
                          whole<along_step>(made[1].at[2 * i]), whole<along_step>(made[1].at[2 * i + 1]));
  }
}

/* The results of 16 rows. A lane's first is `target`, which is at `x` and `y`. */
template <typename Shape, int Parts>
__device__ __forceinline__ void make_results(const summed<Shape::blocks> &from, const factors<Shape, Parts> &weights,
                                             const blur_geometry &image, int32_t x, int32_t y, uint8_t *target) {
#pragma unroll
  for (int pair = 0; pair < Shape::pairs; pair++) {
    uint32_t words[2];
    pass_along(from, pair, weights, words);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if (x + pair * RESULTS < image.width && y + half * GROUP / 2 < image.height) {
        *reinterpret_cast<uint32_t *>(target + uint64_t(half * GROUP / 2) * image.width + pair * RESULTS) = words[half];
      }
    }
  }
}

/* The rows that a warp asks for are on their way while it makes a step of those that it has. */
template <typename Shape, int Parts>
__global__ void __launch_bounds__(THREADS, Shape::at_once)
    blur_chain_kernel(const uint8_t *__restrict__ in, uint8_t *__restrict__ out, blur_geometry image, blur_weights weights,
                      int32_t steps) {
  __shared__ band<REACH, Parts> shared;
  shared.fill(weights, image.radius, 1, THREADS);
  __syncthreads();
  const int32_t lane = int32_t(threadIdx.x % LAUNCH_WARP);
  const int32_t width = image.width;
  const int32_t left = int32_t(blockIdx.x * WARPS + threadIdx.x / LAUNCH_WARP) * Shape::width;
  const int32_t top = int32_t(blockIdx.y) * GROUP * steps;
  if (left >= width) {
    return;
  }
  const factors<Shape, Parts> products(shared, lane);
  feed<Shape> arriving(in, image, left, top, lane);
  source<Shape::blocks> sources[Shape::spans];
#pragma unroll
  for (int i = 0; i < Shape::spans - 1; i++) {
    arriving.request(i);
    arriving.take(sources[i]);
  }
  arriving.request(Shape::spans - 1);
  uint8_t *target = out + uint64_t(top + lane / 4) * width + left + lane % 4 * WORD;
#pragma unroll 1
  for (int32_t step = 0; step < steps; step += Shape::spans) {
    /* As many steps as there are groups are laid out one after another, so that none is moved when a new one takes the place of
     * the oldest. */
#pragma unroll
    for (int i = 0; i < Shape::spans; i++) {
      const int32_t y = top + (step + i) * GROUP;
      if (step + i >= steps || y >= image.height) {
        return;
      }
      arriving.take(sources[(i + Shape::spans - 1) % Shape::spans]);
      if (step + i + 1 < steps) {
        arriving.request(step + i + Shape::spans);
      }
      summed<Shape::blocks> between;
      pass_down(sources, i, products, between);
      make_results(between, products, image, left + lane % 4 * WORD, y + lane / 4, target);
      target += uint64_t(GROUP) * width;
    }
  }
}

using small = shape<2, 2, 4>;
using middle = shape<3, 3, 2>;

template <typename Shape, int Parts>
int launch(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  const uint32_t columns = (blur_parts(image.width, Shape::width) + WARPS - 1) / WARPS;
  const uint32_t groups = blur_parts(image.height, GROUP);
  const uint32_t strips = max(PROCESSORS * Shape::at_once / columns, 1U); /* so that all run at once */
  const uint32_t steps = (groups + strips - 1) / strips;
  const dim3 blocks(columns, (groups + steps - 1) / steps);
  blur_chain_kernel<Shape, Parts><<<blocks, THREADS, 0, stream>>>(in, out, image, weights, int32_t(steps));
  return cudaGetLastError();
}

} // namespace

bool blur_chain_takes(const blur_geometry &image) {
  return image.channels == 1 && image.radius <= middle::margin && image.width % WORD == 0 &&
         image.width >= 2 * middle::margin && image.height > 2 * middle::margin;
}

/* Only very narrow blurs have weights in two parts. */
int blur_chain(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  if (image.radius > small::margin) {
    return blur_weight_parts(weights, image.radius) == 1 ? launch<middle, 1>(in, out, image, weights, stream)
                                                         : blur_matrix(in, out, image, weights, stream);
  }
  return blur_weight_parts(weights, image.radius) == 1 ? launch<small, 1>(in, out, image, weights, stream)
                                                       : launch<small, 2>(in, out, image, weights, stream);
}
