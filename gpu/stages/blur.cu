/*
 * blur: kernels and launcher.
 *
 * Up to a radius of TILE_RADIUS one kernel does both passes: a block lays its tile with margins into shared memory as
 * floats, sums down the columns into a second array, and along that into the output. Margins grow faster than the
 * tile, so wider blurs are two kernels with the frame's columns summed in scratch memory between them; these are
 * bound by arithmetic, not by that traffic. Weights travel as a kernel parameter.
 */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/blur.h"
#include "gpu/stages/border.h"
}

namespace {

enum { THREADS_X = 32, THREADS_Y = 8, TILE_Y = 16, TILE_RADIUS = BLUR_TILE_RADIUS };

/* Sums that a thread makes at once: down the columns, and along the rows, where an odd number has the threads of a warp
 * read from different banks. A tile is as wide as its threads make it, in whole pixels. */
enum { SUMS_DOWN = 4, SUMS_ALONG = 5 };

enum { SHARED_BYTES = 48 * 1024 /* of a block, without asking for more */ };

struct geometry {
  int32_t width, height, channels, radius;
  __device__ __host__ int32_t row() const { return width * channels; }
};

/* Index within a row of what stands at sample `index`, which may lie beyond its ends. */
__device__ __forceinline__ int32_t sample_at(const geometry &image, int32_t index) {
  if (index >= 0 && index < image.row()) {
    return index;
  }
  const int32_t shifted = index + image.radius * image.channels; /* never negative, so division rounds down */
  const int32_t pixel = shifted / image.channels - image.radius;
  return border_reflect(pixel, image.width) * image.channels + shifted % image.channels;
}

__device__ __forceinline__ float rounded(float sum, float) { return sum; }
__device__ __forceinline__ uint8_t rounded(float sum, uint8_t) { return arithmetic_level(sum); }

/* The weighted sums around `Count` neighbouring samples: at(i) is the one i after the first, or before it. All sums move
 * away from their middles together, so that each step outwards takes two more samples, whatever the count. */
template <int Count, typename At>
__device__ __forceinline__ void weigh(const At &at, int32_t radius, const blur_weights &weights, float (&sums)[Count]) {
  float before[Count];
  float after[Count];
#pragma unroll
  for (int i = 0; i < Count; i++) {
    before[i] = after[i] = at(i);
    sums[i] = before[i] * weights.at[0];
  }
#pragma unroll 4
  for (int32_t k = 1; k <= radius; k++) {
#pragma unroll
    for (int i = Count - 1; i > 0; i--) {
      before[i] = before[i - 1];
      after[Count - 1 - i] = after[Count - i];
    }
    before[0] = at(-k);
    after[Count - 1] = at(Count - 1 + k);
#pragma unroll
    for (int i = 0; i < Count; i++) {
      sums[i] = blur_add(sums[i], before[i] + after[i], weights.at[k]);
    }
  }
}

/* Lays the tile and its margins into `source`. */
template <typename Sample>
__device__ __forceinline__ void fetch(const Sample *in, const geometry &image, int32_t left, int32_t top, int32_t columns,
                                      float *source) {
  const int32_t margin = image.radius * image.channels;
  for (int32_t y = threadIdx.y; y < TILE_Y + 2 * image.radius; y += THREADS_Y) {
    const Sample *row = in + uint64_t(border_reflect(top - image.radius + y, image.height)) * image.row();
    for (int32_t x = threadIdx.x; x < columns; x += THREADS_X) {
      source[y * columns + x] = float(row[sample_at(image, min(left - margin + x, image.row() - 1 + margin))]);
    }
  }
}

template <typename Sample>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    blur_tile(const Sample *__restrict__ in, Sample *__restrict__ out, geometry image, int32_t width, blur_weights weights) {
  extern __shared__ float shared[];
  const int32_t margin = image.radius * image.channels;
  const int32_t columns = width + 2 * margin;
  const int32_t left = int32_t(blockIdx.x) * width;
  const int32_t top = int32_t(blockIdx.y) * TILE_Y;
  float *source = shared;
  float *summed = shared + (TILE_Y + 2 * image.radius) * columns;

  fetch(in, image, left, top, columns, source);
  __syncthreads();
  const int32_t thread = threadIdx.y * THREADS_X + threadIdx.x;
  for (int32_t i = thread; i < TILE_Y / SUMS_DOWN * columns; i += THREADS_X * THREADS_Y) {
    const int32_t y = i / columns * SUMS_DOWN;
    float sums[SUMS_DOWN];
    const float *middle = source + (y + image.radius) * columns + i % columns;
    weigh([&](int32_t row) { return middle[row * columns]; }, image.radius, weights, sums);
#pragma unroll
    for (int j = 0; j < SUMS_DOWN; j++) {
      summed[(y + j) * columns + i % columns] = sums[j];
    }
  }
  __syncthreads();
  for (int32_t y = threadIdx.y; y < TILE_Y; y += THREADS_Y) {
    for (int32_t i = threadIdx.x; i < width / SUMS_ALONG; i += THREADS_X) {
      const int32_t x = i / image.channels * image.channels * SUMS_ALONG + i % image.channels;
      float sums[SUMS_ALONG];
      const float *middle = summed + y * columns + margin + x;
      weigh([&](int32_t pixel) { return middle[pixel * image.channels]; }, image.radius, weights, sums);
#pragma unroll
      for (int j = 0; j < SUMS_ALONG; j++) {
        source[y * width + x + j * image.channels] = sums[j];
      }
    }
  }
  __syncthreads();
  for (int32_t y = threadIdx.y; y < TILE_Y && top + y < image.height; y += THREADS_Y) {
    for (int32_t x = threadIdx.x; x < width && left + x < image.row(); x += THREADS_X) {
      out[uint64_t(top + y) * image.row() + left + x] = rounded(source[y * width + x], Sample());
    }
  }
}

template <typename Sample>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    blur_down(const Sample *__restrict__ in, float *__restrict__ summed, geometry image, blur_weights weights) {
  const int32_t x = int32_t(blockIdx.x * THREADS_X + threadIdx.x);
  const int32_t y = int32_t(blockIdx.y * THREADS_Y + threadIdx.y) * SUMS_DOWN;
  if (x >= image.row() || y >= image.height) {
    return;
  }
  float sums[SUMS_DOWN];
  weigh([&](int32_t row) { return float(in[uint64_t(border_reflect(y + row, image.height)) * image.row() + x]); }, image.radius,
        weights, sums);
#pragma unroll
  for (int i = 0; i < SUMS_DOWN; i++) {
    if (y + i < image.height) {
      summed[uint64_t(y + i) * image.row() + x] = sums[i];
    }
  }
}

/* A thread makes SUMS_ALONG pixels of one channel. */
template <typename Sample>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    blur_along(const float *__restrict__ summed, Sample *__restrict__ out, geometry image, blur_weights weights) {
  const int32_t thread = int32_t(blockIdx.x * THREADS_X + threadIdx.x);
  const int32_t pixel = thread / image.channels * SUMS_ALONG;
  const int32_t channel = thread % image.channels;
  const int32_t y = int32_t(blockIdx.y * THREADS_Y + threadIdx.y);
  if (pixel >= image.width || y >= image.height) {
    return;
  }
  const float *row = summed + uint64_t(y) * image.row() + channel;
  float sums[SUMS_ALONG];
  weigh([&](int32_t i) { return row[border_reflect(pixel + i, image.width) * image.channels]; }, image.radius, weights, sums);
#pragma unroll
  for (int i = 0; i < SUMS_ALONG; i++) {
    if (pixel + i < image.width) {
      out[uint64_t(y) * image.row() + (pixel + i) * image.channels + channel] = rounded(sums[i], Sample());
    }
  }
}

uint32_t parts(int32_t whole, uint32_t part) { return (uint32_t(whole) + part - 1) / part; }

template <typename Sample>
int launch(const stage_call *call, const geometry &image, const blur_weights &weights, cudaStream_t stream) {
  const dim3 threads(THREADS_X, THREADS_Y);
  const Sample *in = static_cast<const Sample *>(call->input);
  Sample *out = static_cast<Sample *>(call->output);
  if (image.radius <= TILE_RADIUS) {
    const int32_t width = (image.channels == 1 ? 32 : 24) * SUMS_ALONG;
    static_assert((2 * TILE_Y + 2 * TILE_RADIUS) * (32 * SUMS_ALONG + 2 * TILE_RADIUS) * sizeof(float) <= SHARED_BYTES &&
                      (2 * TILE_Y + 2 * TILE_RADIUS) * (24 * SUMS_ALONG + 2 * TILE_RADIUS * 3) * sizeof(float) <= SHARED_BYTES,
                  "a tile must fit what every device has");
    const size_t columns = size_t(width) + 2 * size_t(image.radius) * image.channels;
    const size_t bytes = (2 * TILE_Y + 2 * size_t(image.radius)) * columns * sizeof(float);
    const dim3 tiles(parts(image.row(), width), parts(image.height, TILE_Y));
    blur_tile<Sample><<<tiles, threads, bytes, stream>>>(in, out, image, width, weights);
    return cudaGetLastError();
  }
  float *summed = static_cast<float *>(call->scratch);
  const dim3 strips(parts(image.row(), THREADS_X), parts(image.height, THREADS_Y * SUMS_DOWN));
  blur_down<Sample><<<strips, threads, 0, stream>>>(in, summed, image, weights);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    return error;
  }
  const dim3 runs(parts(int32_t(parts(image.width, SUMS_ALONG)) * image.channels, THREADS_X), parts(image.height, THREADS_Y));
  blur_along<Sample><<<runs, threads, 0, stream>>>(summed, out, image, weights);
  return cudaGetLastError();
}

} // namespace

extern "C" int blur_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  blur_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const blur_weights weights = blur_make_weights(&constants);
  const geometry image = {int32_t(plan->input.width), int32_t(plan->input.height), int32_t(constants.channels),
                          int32_t(constants.radius)};
  const cudaStream_t target = static_cast<cudaStream_t>(stream);
  return plan->input.dtype == ELEMENT_FLOAT32 ? launch<float>(call, image, weights, target)
                                              : launch<uint8_t>(call, image, weights, target);
}
