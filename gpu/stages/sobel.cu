/*
 * sobel: kernel and launcher.
 *
 * A thread goes down a strip of columns, 8 for bytes and 4 for floats, and keeps three rows of it in registers, so that
 * a row is loaded once for each strip of ROWS rows and twice where two strips meet. Where the width is a multiple of the
 * strip's, and it does not touch the edge, loads and stores are as wide as the strip.
 */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/border.h"
#include "gpu/stages/sobel.h"
}

namespace {

enum { THREADS_X = 32, THREADS_Y = 4, ROWS = 8 };

template <typename Sample> constexpr int across = sizeof(Sample) == 1 ? 8 : 4;

/* A strip's row with one sample more on each side. */
template <typename Sample> struct strip_row { Sample sample[across<Sample> + 2]; };

template <typename Sample>
__device__ __forceinline__ strip_row<Sample> load(const Sample *row, uint32_t x, int32_t width, bool wide) {
  constexpr int count = across<Sample>;
  strip_row<Sample> result;
  if (wide) {
    const auto pack = *reinterpret_cast<const launch_pack<Sample, count> *>(row + x);
#pragma unroll
    for (int i = 0; i < count; i++) {
      result.sample[i + 1] = pack.values[i];
    }
    result.sample[0] = row[x - 1];
    result.sample[count + 1] = row[x + count];
  } else {
#pragma unroll
    for (int i = 0; i < count + 2; i++) {
      result.sample[i] = row[border_reflect(int32_t(x) - 1 + i, width)];
    }
  }
  return result;
}

__device__ __forceinline__ uint8_t edge(const sobel_constants &k, const strip_row<uint8_t> &up,
                                        const strip_row<uint8_t> &middle, const strip_row<uint8_t> &down, int i) {
  return sobel_byte(k.output, k.scale,
                    {up.sample[i], up.sample[i + 1], up.sample[i + 2], middle.sample[i], middle.sample[i + 2], down.sample[i],
                     down.sample[i + 1], down.sample[i + 2]});
}

__device__ __forceinline__ float edge(const sobel_constants &k, const strip_row<float> &up, const strip_row<float> &middle,
                                      const strip_row<float> &down, int i) {
  return sobel_float(k.output, k.scale,
                     {up.sample[i], up.sample[i + 1], up.sample[i + 2], middle.sample[i], middle.sample[i + 2], down.sample[i],
                      down.sample[i + 1], down.sample[i + 2]});
}

template <typename Sample>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    sobel_kernel(const Sample *__restrict__ in, Sample *__restrict__ out, int32_t width, int32_t height, sobel_constants k) {
  constexpr int count = across<Sample>;
  const uint32_t x = (blockIdx.x * THREADS_X + threadIdx.x) * count;
  const int32_t first = int32_t(blockIdx.y * THREADS_Y + threadIdx.y) * ROWS;
  if (x >= width || first >= height) {
    return;
  }
  const bool aligned = width % count == 0;
  const bool wide = aligned && x > 0 && x + count < width;
  const auto row = [&](int32_t y) { return in + uint64_t(border_reflect(y, height)) * width; };
  strip_row<Sample> up = load(row(first - 1), x, width, wide);
  strip_row<Sample> middle = load(row(first), x, width, wide);
  for (int32_t y = first; y < first + ROWS && y < height; y++) {
    const strip_row<Sample> down = load(row(y + 1), x, width, wide);
    launch_pack<Sample, count> result;
#pragma unroll
    for (int i = 0; i < count; i++) {
      result.values[i] = edge(k, up, middle, down, i);
    }
    Sample *target = out + uint64_t(y) * width + x;
    if (aligned) {
      *reinterpret_cast<launch_pack<Sample, count> *>(target) = result;
    } else {
#pragma unroll
      for (int i = 0; i < count; i++) {
        if (x + i < width) {
          target[i] = result.values[i];
        }
      }
    }
    up = middle;
    middle = down;
  }
}

template <typename Sample> int launch(const stage_plan *plan, const stage_call *call, void *stream) {
  sobel_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const uint32_t columns = THREADS_X * across<Sample>;
  const dim3 blocks((plan->input.width + columns - 1) / columns,
                    (plan->input.height + THREADS_Y * ROWS - 1) / (THREADS_Y * ROWS));
  sobel_kernel<Sample><<<blocks, dim3(THREADS_X, THREADS_Y), 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Sample *>(call->input), static_cast<Sample *>(call->output), int32_t(plan->input.width),
      int32_t(plan->input.height), constants);
  return cudaGetLastError();
}

} // namespace

extern "C" int sobel_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  return plan->input.dtype == ELEMENT_FLOAT32 ? launch<float>(plan, call, stream) : launch<uint8_t>(plan, call, stream);
}
