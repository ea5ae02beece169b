/*
 * blur: launcher, and the kernel for floats and radii up to BLUR_TILE_RADIUS, which does both passes and needs no scratch
 * memory.
 *
 * A block makes a tile of ROWS rows. First each thread goes down some columns, margins included, that are its neighbours' as
 * well: all samples that its sums need are in registers at once, so that each is loaded once, and the sums go to shared memory
 * as floats. Then each thread makes some neighbouring samples of a row from there, again all in registers. Registers have fixed
 * numbers because the largest radius is known when the kernel is compiled; steps beyond a smaller radius are left out. Bytes
 * have kernels of their own (blur.cuh), and wider blurs are two kernels (blur_wide.cu). Weights travel as a kernel parameter.
 */
#include "gpu/stages/blur/blur.cuh"

namespace {

enum { THREADS = 64, WORD = 4, COLUMNS = THREADS * WORD, ROWS = 16 };

/* A row's floats in shared memory: neighbours along a warp read 16 bytes each from different banks, and those of the
 * next row go on where the last ones ended. */
enum { PITCH = COLUMNS + 16 };

constexpr int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

template <int Radius> struct tile {
  static constexpr int margin = round_up(Radius, WORD); /* samples beside those that the tile makes */
  static constexpr int along = Radius <= 4 ? 4 : 12;    /* samples of a row that a thread makes at a time */
  static constexpr int width = (COLUMNS - 2 * margin) / along * along;
  static_assert(width % WORD == 0 && width > 0, "tiles begin at words");
};

/* Not inlined, since it divides, and only tiles at the edges need it. */
__device__ __noinline__ int32_t reflect(int32_t index, int32_t size) { return border_reflect(index, size); }

/* The samples of a column from row `top` on. */
template <int Count>
__device__ __forceinline__ void take(const float *in, const blur_geometry &image, int32_t x, int32_t top,
                                     float (&samples)[Count]) {
  const bool inside = top >= 0 && top + Count <= image.height;
#pragma unroll
  for (int i = 0; i < Count; i++) {
    samples[i] = in[uint64_t(inside ? top + i : reflect(top + i, image.height)) * image.width + x];
  }
}

/* The weighted sum around samples[middle]. */
template <int Radius, int Count>
__device__ __forceinline__ float weigh(const float (&samples)[Count], int middle, int32_t radius, const blur_weights &weights) {
  float sum = samples[middle] * weights.at[0];
#pragma unroll
  for (int k = 1; k <= Radius; k++) {
    const float next = blur_add(sum, samples[middle - k] + samples[middle + k], weights.at[k]);
    sum = k <= radius ? next : sum;
  }
  return sum;
}

template <int Along> __device__ __forceinline__ void store(float *out, const float (&sums)[Along], int32_t left, bool aligned) {
#pragma unroll
  for (int i = 0; i < Along; i += WORD) {
    if (aligned && i < left) {
      *reinterpret_cast<launch_pack<float, WORD> *>(out + i) = {sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
    }
  }
#pragma unroll
  for (int i = 0; i < Along; i++) {
    if (!aligned && i < left) {
      out[i] = sums[i];
    }
  }
}

template <int Radius>
__global__ void __launch_bounds__(THREADS)
    blur_tile(const float *__restrict__ in, float *__restrict__ out, blur_geometry image, blur_weights weights) {
  using tile = tile<Radius>;
  alignas(16) __shared__ float summed[ROWS][PITCH];
  const int32_t left = int32_t(blockIdx.x) * tile::width;
  const int32_t top = int32_t(blockIdx.y) * ROWS;
#pragma unroll 1
  for (int column = 0; column < WORD; column++) {
    /* What lies behind the last margin decides nothing. */
    const int32_t x = min(left - tile::margin + column * THREADS + int32_t(threadIdx.x), image.width - 1 + Radius);
    float samples[ROWS + 2 * Radius];
    take(in, image, x >= 0 && x < image.width ? x : reflect(x, image.width), top - Radius, samples);
#pragma unroll
    for (int y = 0; y < ROWS; y++) {
      summed[y][column * THREADS + threadIdx.x] = weigh<Radius>(samples, Radius + y, image.radius, weights);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int32_t item = threadIdx.x; item < ROWS * (tile::width / tile::along); item += THREADS) {
    const int32_t y = item / (tile::width / tile::along);
    const int32_t x = item % (tile::width / tile::along) * tile::along;
    if (top + y >= image.height || left + x >= image.width) {
      continue;
    }
    float samples[tile::along + 2 * tile::margin];
#pragma unroll
    for (int i = 0; i < tile::along + 2 * tile::margin; i += WORD) {
      const auto four = *reinterpret_cast<const launch_pack<float, WORD> *>(&summed[y][x + i]);
#pragma unroll
      for (int j = 0; j < WORD; j++) {
        samples[i + j] = four.values[j];
      }
    }
    float sums[tile::along];
#pragma unroll
    for (int i = 0; i < tile::along; i++) {
      sums[i] = weigh<Radius>(samples, tile::margin + i, image.radius, weights);
    }
    store(out + uint64_t(top + y) * image.width + left + x, sums, image.width - left - x, image.width % WORD == 0);
  }
}

template <int Radius>
int launch_tiles(const float *in, float *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  const dim3 blocks(blur_parts(image.width, tile<Radius>::width), blur_parts(image.height, ROWS));
  blur_tile<Radius><<<blocks, THREADS, 0, stream>>>(in, out, image, weights);
  return cudaGetLastError();
}

/* The smallest kernel that holds the radius: floats are blurred by 4 times sigma unless told. */
int launch_narrow(const float *in, float *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  return image.radius <= 4   ? launch_tiles<4>(in, out, image, weights, stream)
         : image.radius <= 8 ? launch_tiles<8>(in, out, image, weights, stream)
                             : launch_tiles<12>(in, out, image, weights, stream);
}

int launch_bytes(const stage_call *call, const blur_geometry &image, const blur_weights &weights, bool wide,
                 cudaStream_t stream) {
  const auto *in = static_cast<const uint8_t *>(call->input);
  auto *out = static_cast<uint8_t *>(call->output);
  return blur_walk_takes(image, weights) ? blur_walk(in, out, image, weights, stream)
         : wide                          ? blur_far(in, out, call->scratch, image, weights, stream)
         : blur_chain_takes(image)       ? blur_chain(in, out, image, weights, stream)
                                         : blur_matrix(in, out, image, weights, stream);
}

int launch_floats(const stage_call *call, const blur_geometry &image, const blur_weights &weights, bool wide,
                  cudaStream_t stream) {
  const auto *in = static_cast<const float *>(call->input);
  auto *out = static_cast<float *>(call->output);
  return wide ? blur_wide(in, out, static_cast<float *>(call->scratch), image, weights, stream)
              : launch_narrow(in, out, image, weights, stream);
}

} // namespace

extern "C" int blur_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  blur_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const blur_weights weights = blur_make_weights(&constants);
  if (!constants.floats) {
    constants.radius = blur_used_radius(weights, constants.radius);
  }
  const blur_geometry image = {int32_t(plan->input.width), int32_t(plan->input.height), int32_t(constants.channels),
                               int32_t(constants.radius)};
  const auto launch = constants.floats ? launch_floats : launch_bytes;
  return launch(call, image, weights, blur_is_wide(&constants), static_cast<cudaStream_t>(stream));
}
