/*
 * blur: kernels for bytes and any radius, one down the columns into scratch memory, one along the rows, both on the units that
 * multiply matrices (blur_products.cuh).
 *
 * Scratch memory holds the columns' sums as the second pass wants them, with as many more columns on both sides as it reaches
 * beyond the edges. Each warp makes SIDE times 16 rows of 32 columns, so that what a product needs is used SIDE times: in the
 * first pass the samples, of which a block keeps all that its warps need in shared memory, while weights move on from one group
 * of rows to the next; in the second the weights. As in blur_chain.cu, a product of the first pass makes every fourth of 32
 * columns.
 */
#include "gpu/stages/blur/blur_products.cuh"

namespace {

enum {
  GROUP = 16, /* rows that one product sums up, and that it makes */
  WORD = 4,
  TILE = 8, /* columns of one product */
  TILES = 4,
  PIECE = TILE * TILES, /* columns of a warp */
  WARPS = 4,
  THREADS = int(WARPS) * int(LAUNCH_WARP),
  SIDE = 4,                                     /* groups of rows that a warp makes */
  MOST = (BLUR_MAX_RADIUS + GROUP - 1) / GROUP, /* groups that the first pass reaches up or down */
  HELD = WARPS * SIDE + 2 * MOST + SIDE,        /* groups that a block may need, and read without need */
  DOWN_REACH = (MOST + 2 * SIDE) * GROUP,       /* of the bands, beyond which no distance lies */
  ALONG_REACH = BLUR_MAX_CHANNELS * BLUR_MAX_RADIUS + 3 * PIECE
};

constexpr int down_step = int(BLUR_UNIT / BLUR_STEP), along_step = int(BLUR_UNIT * BLUR_STEP);

/* -- the source ------------------------------------------------------------------------------------------------------ */

/* Four rows of four columns, a word for each. */
struct alignas(16) rows {
  uint32_t words[WORD];
};

/* The same by columns. */
struct square {
  right_factor at[TILES];

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

/* Not inlined, since it divides, and only few rows need it. */
__device__ __noinline__ int32_t reflect(int32_t index, int32_t size) { return border_reflect(index, size); }

__device__ __noinline__ int32_t reflect_sample(blur_geometry image, int32_t index) {
  const int32_t shift = 2 * BLUR_MAX_RADIUS * image.channels; /* so that division rounds down */
  const int32_t pixel = (index + shift) / image.channels - shift / image.channels;
  return border_reflect(pixel, image.width) * image.channels + (index + shift) % image.channels;
}

/* Four rows of four columns, whatever of them lies beyond the edges. */
__device__ __forceinline__ rows read(const uint8_t *in, const blur_geometry &image, int32_t x, int32_t top) {
  const bool inside = top >= 0 && top + WORD <= image.height;
  const uint8_t *at[WORD];
#pragma unroll
  for (int i = 0; i < WORD; i++) {
    at[i] = in + uint64_t(inside ? top + i : reflect(top + i, image.height)) * image.row();
  }
  rows result;
  if (image.row() % WORD == 0 && x >= 0 && x + WORD <= image.row()) {
#pragma unroll
    for (int i = 0; i < WORD; i++) {
      result.words[i] = *reinterpret_cast<const uint32_t *>(at[i] + x);
    }
    return result;
  }
  int32_t columns[WORD];
#pragma unroll
  for (int i = 0; i < WORD; i++) {
    columns[i] = reflect_sample(image, x + i);
  }
#pragma unroll
  for (int i = 0; i < WORD; i++) {
    result.words[i] = bytes_join(at[i][columns[0]], at[i][columns[1]], at[i][columns[2]], at[i][columns[3]]);
  }
  return result;
}

/* -- the first pass -------------------------------------------------------------------------------------------------- */

/* A factor of the second pass, as a lane wants it: 16 rows of half of 32 columns. */
struct alignas(16) entry {
  left_factor factor;
};

template <int Step> __device__ __forceinline__ void begin(sums (&made)[SIDE][TILES]) {
#pragma unroll
  for (int i = 0; i < SIDE * TILES; i++) {
    made[i / TILES][i % TILES] = begin_sums<Step>();
  }
}

__device__ __forceinline__ left_factor down_weights(const band<DOWN_REACH, 1> &weights, int32_t distance, uint32_t lane) {
  left_factor result;
  const int32_t first = distance + int32_t(lane % 4) * WORD - int32_t(lane / 4);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    result.words[i % 2][i / 2] = weights.pair(0, first + i % 2 * 2 - i / 2 * GROUP / 2);
  }
  return result;
}

/* Half of the 32 columns that `made` has. */
__device__ __forceinline__ entry cut_off(const sums (&made)[TILES], int half) {
  entry result;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const sums &from = made[half * 2 + i / 2];
    result.factor.words[i / 2][i % 2] = join(whole<down_step>(from.at[i % 2 * 2]), whole<down_step>(from.at[i % 2 * 2 + 1]));
  }
  return result;
}

__global__ void __launch_bounds__(THREADS) blur_far_down(const uint8_t *__restrict__ in, entry *__restrict__ summed,
                                                         blur_geometry image, blur_layout layout, blur_weights weights) {
  __shared__ band<DOWN_REACH, 1> down;
  __shared__ rows held[HELD][LAUNCH_WARP];
  const int32_t warp = int32_t(threadIdx.x / LAUNCH_WARP);
  const uint32_t lane = threadIdx.x % LAUNCH_WARP;
  const int32_t piece = int32_t(blockIdx.x) - int32_t(layout.pads);
  const int32_t first = int32_t(blockIdx.y) * WARPS * SIDE; /* group */
  const int32_t reach = (image.radius + GROUP - 1) / GROUP; /* groups */
  down.fill(weights, image.radius, 1, THREADS);
#pragma unroll 4
  for (int32_t i = warp; i < WARPS * SIDE + 2 * reach; i += WARPS) {
    const int32_t top = (first - reach + i) * GROUP + int32_t(lane % 4) * WORD;
    held[i][lane] = read(in, image, piece * PIECE + int32_t(lane / 4) * WORD, top);
  }
  __syncthreads();
  sums made[SIDE][TILES];
  begin<down_step>(made);
  left_factor factors[SIDE] = {}; /* of the last groups of weights, in turn */
#pragma unroll 1
  for (int32_t i = 0; i < 2 * reach + SIDE; i += SIDE) {
#pragma unroll
    for (int k = 0; k < SIDE; k++) {
      factors[k] = down_weights(down, (i + k - reach) * GROUP, lane);
      square source;
      source.take(held[warp * SIDE + i + k][lane]);
#pragma unroll
      for (int j = 0; j < SIDE; j++) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
          made[j][tile].make(made[j][tile], factors[(k - j + SIDE) % SIDE], source.at[tile]);
        }
      }
    }
  }
#pragma unroll
  for (int j = 0; j < SIDE; j++) {
    const int32_t group = first + warp * SIDE + j;
    if (group < int32_t(layout.groups)) {
      entry *to = summed + (uint64_t(group) * layout.across + blockIdx.x) * (2 * LAUNCH_WARP) + lane;
      to[0] = cut_off(made[j], 0);
      to[LAUNCH_WARP] = cut_off(made[j], 1);
    }
  }
}

/* -- the second pass ------------------------------------------------------------------------------------------------- */

/* Of what a warp makes of a row, a lane has eight neighbouring samples, of which only those that lie before `end` are there. */
__device__ __forceinline__ void store(uint8_t *out, const sums (&made)[TILES], int half, int32_t x, int32_t end) {
  launch_pack<uint32_t, 2> eight;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const float *first = made[2 * i].at + 2 * half;
    const float *second = made[2 * i + 1].at + 2 * half;
    eight.values[i] = bytes_join(whole<along_step>(first[0]), whole<along_step>(first[1]), whole<along_step>(second[0]),
                                 whole<along_step>(second[1]));
  }
  if (end % TILE == 0) {
    *reinterpret_cast<launch_pack<uint32_t, 2> *>(out) = eight;
    return;
  }
#pragma unroll
  for (int i = 0; i < TILE; i++) {
    if (x + i < end) {
      out[i] = uint8_t(eight.values[i / WORD] >> (i % WORD * 8));
    }
  }
}

/* Weights at a distance and WORD further, as a right factor has them. */
struct pairs {
  uint32_t at[2 * ALONG_REACH];
};

__global__ void __launch_bounds__(THREADS) blur_far_along(const entry *__restrict__ summed, uint8_t *__restrict__ out,
                                                          blur_geometry image, blur_layout layout, blur_weights weights) {
  __shared__ band<ALONG_REACH, 1> along;
  __shared__ pairs shared;
  const uint32_t lane = threadIdx.x % LAUNCH_WARP;
  const int32_t used = int32_t(layout.pads + 2) * PIECE;
  along.fill(weights, image.radius, image.channels, THREADS);
  __syncthreads();
  for (int32_t i = int32_t(threadIdx.x) - used; i < used; i += THREADS) {
    const uint16_t *one = along.parts[0] + ALONG_REACH + i;
    shared.at[ALONG_REACH + i] = join(one[0], one[WORD]);
  }
  __syncthreads();
  const uint32_t piece = blockIdx.x * WARPS + threadIdx.x / LAUNCH_WARP;
  const uint32_t first = blockIdx.y * SIDE; /* group */
  if (piece >= layout.pieces) {
    return;
  }
  sums made[SIDE][TILES];
  begin<along_step>(made);
  const entry *source[SIDE];
#pragma unroll
  for (int j = 0; j < SIDE; j++) {
    const uint32_t group = min(first + j, layout.groups - 1);
    source[j] = summed + (uint64_t(group) * layout.across + piece) * (2 * LAUNCH_WARP) + lane;
  }
  const uint32_t *from = shared.at + ALONG_REACH - int32_t(layout.pads) * PIECE + int32_t(lane % 4) * TILE -
                         int32_t(lane / 8) * TILE - int32_t(lane / 4 % 2);
#pragma unroll 1
  for (uint32_t i = 0; i <= 2 * layout.pads; i++) {
    right_factor factors[TILES + 1]; /* by how far a chunk is behind a tile */
#pragma unroll
    for (int k = 0; k <= TILES; k++) {
      factors[k] = {{from[(k - TILES + 1) * 2], from[(k - TILES + 1) * 2 + 1]}};
    }
    from += PIECE;
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
#pragma unroll
      for (int chunk = 0; chunk < 2; chunk++) {
        const left_factor one = source[j][chunk * LAUNCH_WARP].factor;
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
          made[j][tile].make(made[j][tile], one, factors[chunk - tile + TILES - 1]);
        }
      }
      source[j] += 2 * LAUNCH_WARP;
    }
  }
  const int32_t target = int32_t(piece) * PIECE + int32_t(lane % 4) * TILE;
#pragma unroll
  for (int i = 0; i < 2 * SIDE; i++) {
    const int32_t y = (int32_t(first) + i / 2) * GROUP + int32_t(lane / 4) + i % 2 * GROUP / 2;
    if (y < image.height && target < image.row()) {
      store(out + uint64_t(y) * image.row() + target, made[i / 2], i % 2, target, image.row());
    }
  }
}

} // namespace

int blur_far(const uint8_t *in, uint8_t *out, void *summed, const blur_geometry &image, const blur_weights &weights,
             cudaStream_t stream) {
  const blur_layout layout =
      blur_layout_of(uint32_t(image.width), uint32_t(image.height), uint32_t(image.channels), uint32_t(image.radius));
  auto *entries = static_cast<entry *>(summed);
  const dim3 down(layout.across, (layout.groups + WARPS * SIDE - 1) / (WARPS * SIDE));
  blur_far_down<<<down, THREADS, 0, stream>>>(in, entries, image, layout, weights);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    return error;
  }
  const dim3 along((layout.pieces + WARPS - 1) / WARPS, (layout.groups + SIDE - 1) / SIDE);
  blur_far_along<<<along, THREADS, 0, stream>>>(entries, out, image, layout, weights);
  return cudaGetLastError();
}
