/*
 * blur: launcher, and the kernel for floats, and for the bytes that blur_walk.cu does not take. It takes any radius and size.
 *
 * A block makes ROWS rows of a strip. First each thread goes down some columns, those beside the strip included, and the sums
 * go to shared memory, a plane for each row and channel. Then each warp makes a row from there.
 *
 * In both passes a thread makes COUNT neighbouring sums. All move away from their middles together, so that each step outwards
 * takes two more samples, whatever the count, and the windows of samples shift through registers: COUNT steps are laid out one
 * after another, so that no sample is moved. One place in nine of a plane stays empty, so that threads COUNT samples apart read
 * from different banks.
 */
#include "gpu/stages/blur/blur.cuh"

namespace {

enum {
  COUNT = 8,
  ROWS = COUNT,
  THREADS = int(ROWS) * int(LAUNCH_WARP),
  PITCH = COUNT + 1,
  ALWAYS_SHARED = 48 << 10, /* bytes of shared memory that a block gets without being allowed to */
  MOST_SHARED = 64 << 10    /* that all devices have for a block that is */
};

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
  __device__ __forceinline__ void step(float before, float after, float weight, bool counts = true) {
#pragma unroll
    for (int i = COUNT - 1; i > 0; i--) {
      low[i] = low[i - 1];
      high[COUNT - 1 - i] = high[COUNT - i];
    }
    low[0] = before;
    high[COUNT - 1] = after;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      const float next = blur_add(sums[i], low[i] + high[i], weight);
      sums[i] = counts ? next : sums[i];
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
  /* What lies beyond the radius is read, so that loads do not wait for one another, but not added. */
#pragma unroll
  for (int half = 0; half < COUNT; half += COUNT / 2) {
    if (first + half <= radius) {
#pragma unroll
      for (int i = half; i < half + COUNT / 2; i++) {
        windows.step(before(first, i), after(first, i), weights.at[min(first + i, radius)], first + i <= radius);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    sums[i] = windows.sums[i];
  }
}

/* Not inlined, since it divides, and only few rows need it. */
__device__ __noinline__ int32_t reflect(int32_t index, int32_t size) { return border_reflect(index, size); }

__device__ __forceinline__ void blur_end_down(float sum, float &to, float) { to = sum; }
__device__ __forceinline__ void blur_end_down(float sum, float &to, uint8_t) { to = blur_round_sum(sum); }
__device__ __forceinline__ void blur_end_along(float sum, float &to) { to = sum; }
__device__ __forceinline__ void blur_end_along(float sum, uint8_t &to) { to = arithmetic_level(sum); }

/* The sums around ROWS rows of a column, of which the first is row `top`. */
template <typename Sample>
__device__ __forceinline__ void sum_down(const Sample *column, const blur_geometry &image, int32_t top,
                                         const blur_weights &weights, float (&sums)[COUNT]) {
  const int64_t row = image.row();
  float samples[COUNT];
  const int32_t reach = image.radius + COUNT / 2;
  if (top >= reach && top + COUNT + reach <= image.height) {
    const Sample *above = column + top * row;
    const Sample *below = above + (COUNT - 1) * row;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      samples[i] = float(above[i * row]);
    }
    const auto up = [&](int32_t, int) { return float(*(above -= row)); };
    const auto down = [&](int32_t, int) { return float(*(below += row)); };
    weigh(samples, image.radius, weights, up, down, sums);
  } else {
    const auto at = [&](int32_t line) { return float(column[reflect(line, image.height) * row]); };
    for (int i = 0; i < COUNT; i++) {
      samples[i] = at(top + i);
    }
    const auto up = [&](int32_t first, int step) { return at(top - first - step); };
    const auto down = [&](int32_t first, int step) { return at(top + COUNT - 1 + first + step); };
    weigh(samples, image.radius, weights, up, down, sums);
  }
}

/* Pixels of a row that a block makes, and those beside them, multiples of COUNT. */
struct strip {
  int32_t pixels, margin;
  __host__ __device__ int32_t plane() const { return (pixels + 2 * margin) / COUNT * PITCH; }
};

__device__ __forceinline__ int32_t place(int32_t sample) { return sample / COUNT * PITCH + sample % COUNT; }

/* The sums around COUNT neighbours of a plane. */
__device__ __forceinline__ void sum_along(const float *middle, int32_t radius, const blur_weights &weights,
                                          float (&sums)[COUNT]) {
  float samples[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    samples[i] = middle[i];
  }
  const float *before = middle;
  const float *after = middle;
  /* The last step of a round stands at the start of the group before, and the first at that of the group after. */
  const auto next_before = [&](int32_t, int step) {
    before -= step == 0 ? PITCH : 0;
    return before[COUNT - 1 - step];
  };
  const auto next_after = [&](int32_t, int step) {
    after += step == 0 ? PITCH : 0;
    return after[step];
  };
  weigh(samples, radius, weights, next_before, next_after, sums);
}

/* Each lane makes CHUNKS groups of a row. */
template <typename Sample, int CHUNKS>
__global__ void __launch_bounds__(THREADS) blur_kernel(const Sample *__restrict__ in, Sample *__restrict__ out,
                                                       blur_geometry image, strip strip, blur_weights weights) {
  extern __shared__ float planes[];
  const int32_t left = int32_t(blockIdx.x) * strip.pixels, top = int32_t(blockIdx.y) * ROWS;
  const int32_t channels = image.channels, plane = strip.plane();
  for (int32_t i = threadIdx.x; i < (strip.pixels + 2 * strip.margin) * channels; i += THREADS) {
    const int32_t pixel = channels == 1 ? i : i / channels, channel = i - pixel * channels, x = left - strip.margin + pixel;
    float sums[COUNT];
    sum_down(in + (x >= 0 && x < image.width ? x : reflect(x, image.width)) * channels + channel, image, top, weights, sums);
#pragma unroll
    for (int y = 0; y < ROWS; y++) {
      blur_end_down(sums[y], planes[(y * channels + channel) * plane + place(pixel)], Sample());
    }
  }
  __syncthreads();
  const int32_t y = int32_t(threadIdx.x / LAUNCH_WARP), lane = threadIdx.x % LAUNCH_WARP, groups = strip.pixels / COUNT;
  if (top + y >= image.height) {
    return;
  }
  float *row = planes + y * channels * plane;
  float sums[CHUNKS][COUNT];
#pragma unroll
  for (int i = 0; i < CHUNKS; i++) {
    const int32_t item = min(i * int32_t(LAUNCH_WARP) + lane, groups * channels - 1);
    sum_along(row + item / groups * plane + (strip.margin / COUNT + item % groups) * PITCH, image.radius, weights, sums[i]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < CHUNKS; i++) {
    const int32_t item = min(i * int32_t(LAUNCH_WARP) + lane, groups * channels - 1);
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
      row[item / groups * plane + item % groups * PITCH + j] = sums[i][j];
    }
  }
  __syncwarp();
  Sample *target = out + uint64_t(top + y) * image.row() + left * channels;
  for (int32_t i = lane; i < min(strip.pixels, image.width - left) * channels; i += LAUNCH_WARP) {
    const int32_t pixel = channels == 1 ? i : i / channels;
    blur_end_along(row[(i - pixel * channels) * plane + place(pixel)], target[i]);
  }
}

/* Where margins leave much of it, a strip and its margins are as many columns as threads go down together. */
template <int CHUNKS> strip make_strip(const blur_geometry &image) {
  const int32_t margin = (image.radius + COUNT - 1) / COUNT * COUNT;
  const int32_t most = CHUNKS * int32_t(LAUNCH_WARP) / image.channels * COUNT;
  const int32_t even = (CHUNKS * int32_t(THREADS) / image.channels - 2 * margin) / COUNT * COUNT;
  return {even > most / 2 ? even : most, margin};
}
int32_t shared_bytes(const blur_geometry &image, const strip &strip) {
  return int32_t(sizeof(float)) * ROWS * image.channels * strip.plane();
}

template <typename Sample, int CHUNKS>
int launch_strips(const stage_call *call, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  const strip strip = make_strip<CHUNKS>(image);
  const int32_t bytes = shared_bytes(image, strip);
  const auto kernel = blur_kernel<Sample, CHUNKS>;
  if (bytes > ALWAYS_SHARED) { /* each time, since each device has it anew */
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) {
      return error;
    }
  }
  const dim3 blocks(blur_parts(image.width, strip.pixels), blur_parts(image.height, ROWS));
  kernel<<<blocks, THREADS, bytes, stream>>>(static_cast<const Sample *>(call->input), static_cast<Sample *>(call->output),
                                             image, strip, weights);
  return cudaGetLastError();
}

/* Strips are twice as long where much beside them has to be summed up, if shared memory holds that. */
template <typename Sample>
int launch(const stage_call *call, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  return image.radius * image.channels > LAUNCH_WARP && shared_bytes(image, make_strip<2>(image)) <= MOST_SHARED
             ? launch_strips<Sample, 2>(call, image, weights, stream)
             : launch_strips<Sample, 1>(call, image, weights, stream);
}

} // namespace

extern "C" int blur_enqueue(const stage_plan *plan, const stage_call *call, void *on) {
  const auto stream = static_cast<cudaStream_t>(on);
  blur_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const blur_weights weights = blur_make_weights(&constants);
  const blur_geometry image = {int32_t(plan->input.width), int32_t(plan->input.height), int32_t(constants.channels),
                               int32_t(constants.radius)};
  if (!constants.floats && blur_walk_takes(image)) {
    return blur_walk(static_cast<const uint8_t *>(call->input), static_cast<uint8_t *>(call->output), image, weights, stream);
  }
  return constants.floats ? launch<float>(call, image, weights, stream) : launch<uint8_t>(call, image, weights, stream);
}
