/*
 * sobel: kernel and launcher.
 *
 * A thread goes down a strip of columns, 8 for bytes and 4 for floats, and keeps three rows of it in registers, so that
 * a row is loaded once for each strip of ROWS rows and twice where two strips meet. What a row alone decides, the
 * differences along it, is kept with it. Where the width is a multiple of the strip's, and it does not touch the left or
 * right edge, loads and stores are as wide as the strip.
 */
#include "gpu/stages/bytes.cuh"

extern "C" {
#include "gpu/stages/sobel.h"
}

namespace {

enum { THREADS_X = 32, THREADS_Y = 4, ROWS = 8 };

template <typename Sample> constexpr int across = sizeof(Sample) == 1 ? 8 : 4;

/* A strip's row with one sample more on each side, bytes biased (bytes.cuh), and the differences around each sample. */
template <int Count> struct strip_row {
  float sample[Count + 2];
  float along[Count];
};

__device__ __forceinline__ void take(const uint8_t *row, float (&samples)[across<uint8_t>]) {
  const auto words = *reinterpret_cast<const launch_pack<uint32_t, 2> *>(row);
#pragma unroll
  for (int i = 0; i < across<uint8_t>; i++) {
    samples[i] = bytes_biased(words.values[i / 4], i % 4);
  }
}

__device__ __forceinline__ void take(const float *row, float (&samples)[across<float>]) {
  const auto pack = *reinterpret_cast<const launch_pack<float, across<float>> *>(row);
#pragma unroll
  for (int i = 0; i < across<float>; i++) {
    samples[i] = pack.values[i];
  }
}

__device__ __forceinline__ float take(uint8_t sample) { return bytes_biased(sample, 0); }
__device__ __forceinline__ float take(float sample) { return sample; }

/* What stands at `index`, which may be one beyond an edge: border_reflect() without its division. What lies further out
 * decides nothing that is stored. */
__device__ __forceinline__ int32_t within(int32_t index, int32_t size) {
  return index < 0 ? min(1, size - 1) : index < size ? index : max(size - 2, 0);
}

template <bool Wide, typename Sample>
__device__ __forceinline__ strip_row<across<Sample>> load(const Sample *row, int32_t x, int32_t width) {
  constexpr int count = across<Sample>;
  strip_row<count> result;
  if (Wide) {
    float samples[count];
    take(row + x, samples);
#pragma unroll
    for (int i = 0; i < count; i++) {
      result.sample[i + 1] = samples[i];
    }
    result.sample[0] = take(row[x - 1]);
    result.sample[count + 1] = take(row[x + count]);
  } else {
#pragma unroll
    for (int i = 0; i < count + 2; i++) {
      result.sample[i] = take(row[within(x - 1 + i, width)]);
    }
  }
#pragma unroll
  for (int i = 0; i < count; i++) {
    result.along[i] = result.sample[i + 2] - result.sample[i];
  }
  return result;
}

/* One sample of the result, from the differences along three rows and down three columns. */
__device__ __forceinline__ uint8_t edge(const sobel_constants &k, const float (&along)[3], const float (&down)[3], uint8_t) {
  return sobel_byte(k.output, k.scale, sobel_byte_component(along[0], along[1], along[2]),
                    sobel_byte_component(down[0], down[1], down[2]));
}

__device__ __forceinline__ float edge(const sobel_constants &k, const float (&along)[3], const float (&down)[3], float) {
  return sobel_float(k.output, k.scale, sobel_component(along[0], along[1], along[2]),
                     sobel_component(down[0], down[1], down[2]));
}

/* The row of the result around which the three rows lie. */
template <typename Sample, int Count>
__device__ __forceinline__ launch_pack<Sample, Count> edges(const sobel_constants &k, const strip_row<Count> &up,
                                                            const strip_row<Count> &middle, const strip_row<Count> &down) {
  float difference[Count + 2];
#pragma unroll
  for (int i = 0; i < Count + 2; i++) {
    difference[i] = down.sample[i] - up.sample[i];
  }
  launch_pack<Sample, Count> result;
#pragma unroll
  for (int i = 0; i < Count; i++) {
    result.values[i] =
        edge(k, {up.along[i], middle.along[i], down.along[i]}, {difference[i], difference[i + 1], difference[i + 2]}, Sample());
  }
  return result;
}

template <bool Wide, typename Sample>
__device__ __forceinline__ void strip(const Sample *in, Sample *out, int32_t width, int32_t height, int32_t x, int32_t first,
                                      const sobel_constants &k) {
  constexpr int count = across<Sample>;
  const auto row = [&](int32_t y) { return in + uint64_t(within(y, height)) * width; };
  strip_row<count> up = load<Wide>(row(first - 1), x, width);
  strip_row<count> middle = load<Wide>(row(first), x, width);
#pragma unroll(Wide ? ROWS : 1)
  for (int32_t i = 0; i < ROWS; i++) {
    const int32_t y = first + i;
    if (y >= height) {
      break;
    }
    const strip_row<count> down = load<Wide>(row(y + 1), x, width);
    const launch_pack<Sample, count> result = edges<Sample>(k, up, middle, down);
    Sample *target = out + uint64_t(y) * width + x;
    if (Wide) {
      *reinterpret_cast<launch_pack<Sample, count> *>(target) = result;
    } else {
#pragma unroll
      for (int j = 0; j < count; j++) {
        if (x + j < width) {
          target[j] = result.values[j];
        }
      }
    }
    up = middle;
    middle = down;
  }
}

template <typename Sample, int Output>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    sobel_kernel(const Sample *__restrict__ in, Sample *__restrict__ out, int32_t width, int32_t height, float scale) {
  constexpr int count = across<Sample>;
  const int32_t x = int32_t(blockIdx.x * THREADS_X + threadIdx.x) * count;
  const int32_t first = int32_t(blockIdx.y * THREADS_Y + threadIdx.y) * ROWS;
  if (x >= width || first >= height) {
    return;
  }
  if (width % count == 0 && x > 0 && x + count < width) {
    strip<true>(in, out, width, height, x, first, {Output, scale});
  } else {
    strip<false>(in, out, width, height, x, first, {Output, scale});
  }
}

template <typename Sample> using kernel = void (*)(const Sample *, Sample *, int32_t, int32_t, float);

template <typename Sample> kernel<Sample> kernel_of(int32_t output) {
  return output == SOBEL_MAGNITUDE ? sobel_kernel<Sample, SOBEL_MAGNITUDE>
         : output == SOBEL_X       ? sobel_kernel<Sample, SOBEL_X>
                                   : sobel_kernel<Sample, SOBEL_Y>;
}

template <typename Sample> int launch(const stage_plan *plan, const stage_call *call, void *stream) {
  sobel_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const uint32_t columns = THREADS_X * across<Sample>;
  const dim3 blocks((plan->input.width + columns - 1) / columns,
                    (plan->input.height + THREADS_Y * ROWS - 1) / (THREADS_Y * ROWS));
  kernel_of<Sample>(constants.output)<<<blocks, dim3(THREADS_X, THREADS_Y), 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Sample *>(call->input), static_cast<Sample *>(call->output), int32_t(plan->input.width),
      int32_t(plan->input.height), constants.scale);
  return cudaGetLastError();
}

} // namespace

extern "C" int sobel_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  return plan->input.dtype == ELEMENT_FLOAT32 ? launch<float>(plan, call, stream) : launch<uint8_t>(plan, call, stream);
}
