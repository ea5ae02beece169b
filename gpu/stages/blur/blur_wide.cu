/*
 * blur: kernels for floats and any radius, one down the columns into scratch memory, one along the rows.
 *
 * A thread makes COUNT neighbouring sums. All move away from their middles together, so that each step outwards takes two
 * more samples, whatever the count, and the windows of samples shift through registers: COUNT steps are laid out one after
 * another, so that no sample is moved. Along the rows samples come from shared memory, a plane for each channel, where one
 * place in nine stays empty, so that threads COUNT samples apart read from different banks.
 */
#include "gpu/stages/blur/blur.cuh"

namespace {

enum { COUNT = 8, THREADS_X = 32, THREADS_Y = 4, PITCH = COUNT + 1, LARGEST = 128 /* threads of a block along a row */ };

/* What moves outwards: the samples before and after each middle, and what they have summed up to. */
struct windows {
  float low[COUNT], high[COUNT], sums[COUNT];

  __device__ __forceinline__ windows(const float (&samples)[COUNT], float weight) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      low[i] = high[i] = samples[i];
      sums[i] = samples[i] * weight;
    }
  }
  __device__ __forceinline__ void step(float before, float after, float weight) {
#pragma unroll
    for (int i = COUNT - 1; i > 0; i--) {
      low[i] = low[i - 1];
      high[COUNT - 1 - i] = high[COUNT - i];
    }
    low[0] = before;
    high[COUNT - 1] = after;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      sums[i] = blur_add(sums[i], low[i] + high[i], weight);
    }
  }
};

/* before() and after() give the next sample outwards, the first time that next to `samples`; they are told how far out it
 * is, as a multiple of COUNT and a rest. */
template <typename Before, typename After>
__device__ __forceinline__ void weigh(const float (&samples)[COUNT], int32_t radius, const blur_weights &weights,
                                      const Before &before, const After &after, float (&sums)[COUNT]) {
  windows windows(samples, weights.at[0]);
  int32_t first = 1;
  for (; first + COUNT - 1 <= radius; first += COUNT) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      windows.step(before(first, i), after(first, i), weights.at[first + i]);
    }
  }
#pragma unroll
  for (int i = 0; i < COUNT - 1; i++) {
    if (first + i <= radius) {
      windows.step(before(first, i), after(first, i), weights.at[first + i]);
    }
  }
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    sums[i] = windows.sums[i];
  }
}

/* Not inlined, since it divides, and only few rows need it. */
__device__ __noinline__ int32_t reflect(int32_t index, int32_t size) { return border_reflect(index, size); }

__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    blur_down(const float *__restrict__ in, float *__restrict__ summed, blur_geometry image, blur_weights weights) {
  const int32_t x = int32_t(blockIdx.x * THREADS_X + threadIdx.x);
  const int32_t y = int32_t(blockIdx.y * THREADS_Y + threadIdx.y) * COUNT;
  if (x >= image.row() || y >= image.height) {
    return;
  }
  float samples[COUNT];
  float sums[COUNT];
  const int64_t row = image.row();
  const float *column = in + x;
  if (y >= image.radius && y + COUNT + image.radius <= image.height) {
    const float *above = column + y * row;
    const float *below = above + (COUNT - 1) * row;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      samples[i] = above[i * row];
    }
    const auto up = [&](int32_t, int) { return *(above -= row); };
    const auto down = [&](int32_t, int) { return *(below += row); };
    weigh(samples, image.radius, weights, up, down, sums);
  } else {
    const auto at = [&](int32_t line) { return column[reflect(line, image.height) * row]; };
    for (int i = 0; i < COUNT; i++) {
      samples[i] = at(y + i);
    }
    const auto up = [&](int32_t first, int step) { return at(y - first - step); };
    const auto down = [&](int32_t first, int step) { return at(y + COUNT - 1 + first + step); };
    weigh(samples, image.radius, weights, up, down, sums);
  }
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    if (y + i < image.height) {
      summed[(y + i) * row + x] = sums[i];
    }
  }
}

/* Pixels of a row that a block takes, and how they lie in shared memory. */
struct strip {
  int32_t pixels, margin; /* both multiples of COUNT */
  uint32_t tiles;         /* strips of a row */
  __host__ __device__ int32_t plane() const { return (pixels + 2 * margin) / COUNT * PITCH; }
};

__device__ __forceinline__ int32_t place(int32_t sample) { return sample / COUNT * PITCH + sample % COUNT; }

__global__ void __launch_bounds__(LARGEST) blur_along(const float *__restrict__ summed, float *__restrict__ out,
                                                      blur_geometry image, strip strip, blur_weights weights) {
  extern __shared__ float planes[];
  const int32_t left = int32_t(blockIdx.x % strip.tiles) * strip.pixels;
  const uint64_t row = uint64_t(blockIdx.x / strip.tiles) * image.row();
  const int32_t count = (strip.pixels + 2 * strip.margin) * image.channels;
  const int32_t start = (left - strip.margin) * image.channels;
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int32_t pixel = i / image.channels;
    const int32_t channel = i % image.channels;
    const bool inside = start + i >= 0 && start + i < image.row();
    const int32_t at = inside ? start + i : reflect(left - strip.margin + pixel, image.width) * image.channels + channel;
    planes[channel * strip.plane() + place(pixel)] = summed[row + at];
  }
  __syncthreads();
  const int32_t groups = strip.pixels / COUNT;
  const int32_t channel = int32_t(threadIdx.x) / groups;
  const int32_t group = int32_t(threadIdx.x) % groups;
  const float *own = planes + channel * strip.plane() + (strip.margin / COUNT + group) * PITCH;
  float samples[COUNT];
  float sums[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    samples[i] = own[i];
  }
  const float *before = own;
  const float *after = own;
  /* The last step of a round stands at the start of the group before, and the first at that of the group after. */
  const auto next_before = [&](int32_t, int step) {
    before -= step == 0 ? PITCH : 0;
    return before[COUNT - 1 - step];
  };
  const auto next_after = [&](int32_t, int step) {
    after += step == 0 ? PITCH : 0;
    return after[step];
  };
  weigh(samples, image.radius, weights, next_before, next_after, sums);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    planes[(group * COUNT + i) * image.channels + channel] = sums[i];
  }
  __syncthreads();
  const int32_t end = min(strip.pixels, image.width - left) * image.channels;
  for (int32_t i = threadIdx.x; i < end; i += blockDim.x) {
    out[row + uint64_t(left) * image.channels + i] = planes[i];
  }
}

} // namespace

int blur_wide(const float *in, float *out, float *summed, const blur_geometry &image, const blur_weights &weights,
              cudaStream_t stream) {
  const dim3 blocks(blur_parts(image.row(), THREADS_X), blur_parts(image.height, THREADS_Y * COUNT));
  blur_down<<<blocks, dim3(THREADS_X, THREADS_Y), 0, stream>>>(in, summed, image, weights);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    return error;
  }
  strip strip;
  strip.pixels = LARGEST / image.channels / LAUNCH_WARP * LAUNCH_WARP * COUNT;
  strip.margin = (image.radius + COUNT - 1) / COUNT * COUNT;
  strip.tiles = blur_parts(image.width, strip.pixels);
  const uint32_t threads = uint32_t(strip.pixels / COUNT * image.channels);
  blur_along<<<strip.tiles * uint32_t(image.height), threads, sizeof(float) * strip.plane() * image.channels, stream>>>(
      summed, out, image, strip, weights);
  return cudaGetLastError();
}
