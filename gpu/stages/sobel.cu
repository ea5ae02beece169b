/*
 * sobel: kernels and launcher.
 *
 * A thread goes down a strip of columns, 8 for bytes and 4 for floats, and keeps in registers what two rows of it give, so
 * that a row is loaded once for each strip of ROWS rows and twice where two strips meet. Bytes are taken two at a time: a
 * word holds every second of four neighbours in its halves, and sums and differences of such words are sums and differences
 * of both. Where the width is a multiple of the strip's, and it does not touch the left or right edge, loads and stores are
 * as wide as the strip.
 */
#include "gpu/stages/bytes.cuh"

extern "C" {
#include "gpu/stages/sobel.h"
}

namespace {

enum { THREADS_X = 32, THREADS_Y = 4, ROWS = 8 };

template <typename Sample> constexpr int across = sizeof(Sample) == 1 ? 8 : 4;

/* What stands at `index`, which may be one beyond an edge: border_reflect() without its division. What lies further out
 * decides nothing that is stored. */
__device__ __forceinline__ int32_t within(int32_t index, int32_t size) {
  return index < 0 ? min(1, size - 1) : index < size ? index : max(size - 2, 0);
}

/* A strip's row with one sample more on each side. */
template <typename Sample> struct samples;

template <> struct samples<float> { float at[across<float> + 2]; };

template <> struct samples<uint8_t> {
  uint32_t words[across<uint8_t> / 4];
  uint32_t before, after;
};

template <bool Wide> __device__ __forceinline__ samples<float> load(const float *row, int32_t x, int32_t width) {
  constexpr int count = across<float>;
  samples<float> result;
  if (Wide) {
    const auto pack = *reinterpret_cast<const launch_pack<float, count> *>(row + x);
#pragma unroll
    for (int i = 0; i < count; i++) {
      result.at[i + 1] = pack.values[i];
    }
    result.at[0] = row[x - 1];
    result.at[count + 1] = row[x + count];
  } else {
#pragma unroll
    for (int i = 0; i < count + 2; i++) {
      result.at[i] = row[within(x - 1 + i, width)];
    }
  }
  return result;
}

template <bool Wide> __device__ __forceinline__ samples<uint8_t> load(const uint8_t *row, int32_t x, int32_t width) {
  constexpr int count = across<uint8_t>;
  if constexpr (Wide) {
    const auto pack = *reinterpret_cast<const launch_pack<uint32_t, count / 4> *>(row + x);
    return {{pack.values[0], pack.values[1]}, row[x - 1], row[x + count]};
  } else {
    uint32_t bytes[count + 2];
#pragma unroll
    for (int i = 0; i < count + 2; i++) {
      bytes[i] = row[within(x - 1 + i, width)];
    }
    return {{bytes_join(bytes[1], bytes[2], bytes[3], bytes[4]), bytes_join(bytes[5], bytes[6], bytes[7], bytes[8])},
            bytes[0],
            bytes[count + 1]};
  }
}

/* What one row gives: differences of the neighbours of each sample for the component x, and for y the weighted sum around
 * it (bytes), or the samples themselves, whose differences come first (floats). */
template <typename Sample> struct strip_row;

template <> struct strip_row<float> {
  float along[across<float>];
  float sample[across<float> + 2];

  __device__ __forceinline__ explicit strip_row(const samples<float> &row) {
#pragma unroll
    for (int i = 0; i < across<float> + 2; i++) {
      sample[i] = row.at[i];
    }
#pragma unroll
    for (int i = 0; i < across<float>; i++) {
      along[i] = row.at[i + 2] - row.at[i];
    }
  }
};

/* Words of four samples: [2 * i] has the first and third in its halves, [2 * i + 1] the second and fourth. */
template <> struct strip_row<uint8_t> {
  static constexpr int halves = across<uint8_t> / 2;
  uint32_t along[halves];
  uint32_t around[halves];

  __device__ __forceinline__ explicit strip_row(const samples<uint8_t> &row) {
    uint32_t own[halves + 2]; /* and before it the odd ones of the word before, behind it the even ones of that behind */
    own[0] = row.before << 16;
    own[halves + 1] = row.after;
#pragma unroll
    for (int i = 0; i < halves / 2; i++) {
      own[1 + 2 * i] = row.words[i] & 0x00ff00ffU;
      own[2 + 2 * i] = __byte_perm(row.words[i], 0, 0x4341U);
    }
#pragma unroll
    for (int i = 0; i < halves; i += 2) {
      const uint32_t even = own[1 + i];
      const uint32_t odd = own[2 + i];
      const uint32_t before_even = __byte_perm(own[i], odd, 0x5432U);
      const uint32_t after_odd = __byte_perm(even, own[i + 3], 0x5432U);
      along[i] = odd - before_even;
      along[i + 1] = after_odd - even;
      around[i] = before_even + odd + 2 * even;
      around[i + 1] = even + after_odd + 2 * odd;
    }
  }
};

/* The row of the result around which the three rows lie. */
__device__ __forceinline__ launch_pack<float, across<float>>
edges(const sobel_constants &k, const strip_row<float> &up, const strip_row<float> &middle, const strip_row<float> &down) {
  constexpr int count = across<float>;
  float difference[count + 2];
#pragma unroll
  for (int i = 0; i < count + 2; i++) {
    difference[i] = down.sample[i] - up.sample[i];
  }
  launch_pack<float, count> result;
#pragma unroll
  for (int i = 0; i < count; i++) {
    result.values[i] = sobel_float(k.output, k.scale, sobel_component(up.along[i], middle.along[i], down.along[i]),
                                   sobel_component(difference[i], difference[i + 1], difference[i + 2]));
  }
  return result;
}

/* Each half of a word of components is kept above 0 by this; below the exponent of 2^23 it is a float. */
constexpr uint32_t half_bias = 1024;

__device__ __forceinline__ float component(uint32_t halves, int index) {
  return __uint_as_float(__byte_perm(halves, 0x4b000000U, index == 0 ? 0x7410U : 0x7432U)) - (bytes_bias + half_bias);
}

/* The level in the lowest byte. The root of a whole number is never nearer to the middle between two levels than 1 / 2040, so
 * that an approximation rounds to the same one. */
__device__ __forceinline__ uint32_t level(const sobel_constants &k, float x, float y) {
  if (k.output == SOBEL_MAGNITUDE && k.scale == 1.0F) {
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fminf(__fmaf_rn(x, x, y * y), 255.0F * 255.0F)));
    return __float_as_uint(root + bytes_bias);
  }
  return bytes_level(sobel_size(k.output, k.scale, x, y));
}

__device__ __forceinline__ launch_pack<uint8_t, across<uint8_t>> edges(const sobel_constants &k, const strip_row<uint8_t> &up,
                                                                       const strip_row<uint8_t> &middle,
                                                                       const strip_row<uint8_t> &down) {
  constexpr int count = across<uint8_t>;
  constexpr uint32_t bias = half_bias * 0x00010001U;
  uint32_t levels[count];
#pragma unroll
  for (int i = 0; i < count / 2; i++) {
    const uint32_t x = up.along[i] + 2 * middle.along[i] + down.along[i] + bias;
    const uint32_t y = down.around[i] - up.around[i] + bias;
#pragma unroll
    for (int j = 0; j < 2; j++) {
      levels[i / 2 * 4 + i % 2 + 2 * j] = level(k, component(x, j), component(y, j));
    }
  }
  const launch_pack<uint32_t, 2> words = {bytes_join(levels[0], levels[1], levels[2], levels[3]),
                                          bytes_join(levels[4], levels[5], levels[6], levels[7])};
  launch_pack<uint8_t, count> result;
  memcpy(&result, &words, sizeof result);
  return result;
}

template <bool Wide, typename Sample>
__device__ __forceinline__ void store(const launch_pack<Sample, across<Sample>> &result, Sample *target, int32_t left) {
  if (Wide) {
    *reinterpret_cast<launch_pack<Sample, across<Sample>> *>(target) = result;
  } else {
#pragma unroll
    for (int i = 0; i < across<Sample>; i++) {
      if (i < left) {
        target[i] = result.values[i];
      }
    }
  }
}

/* Wide strips have all their rows, and end neither left nor right. The loads of a batch of rows are under way together. */
template <bool Wide, typename Sample>
__device__ __forceinline__ void strip(const Sample *in, Sample *out, int32_t width, int32_t height, int32_t x, int32_t first,
                                      const sobel_constants &k) {
  constexpr int batch = Wide ? sizeof(Sample) == 1 ? int(ROWS) : int(ROWS) / 2 : 2;
  const Sample *own = in + uint64_t(first) * width;
  const auto at = [&](int32_t i) {
    const bool known = Wide && i >= 0 && i < ROWS;
    return load<Wide>(known ? own + int64_t(i) * width : in + uint64_t(within(first + i, height)) * width, x, width);
  };
  const samples<Sample> top = at(-1);
  strip_row<Sample> middle(at(0));
  strip_row<Sample> up(top);
  Sample *target = out + uint64_t(first) * width + x;
#pragma unroll(Wide ? ROWS / batch : 1)
  for (int32_t i = 0; i < ROWS; i += batch) {
    samples<Sample> below[batch];
#pragma unroll
    for (int j = 0; j < batch; j++) {
      below[j] = at(i + j + 1);
    }
#pragma unroll
    for (int j = 0; j < batch; j++, target += width) {
      const strip_row<Sample> down(below[j]);
      if (Wide || first + i + j < height) {
        store<Wide>(edges(k, up, middle, down), target, width - x);
      }
      up = middle;
      middle = down;
    }
  }
}

/* Of a scale of 1, which is the usual one, the compiler is told. */
template <typename Sample, int Output, bool Unit>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    sobel_kernel(const Sample *__restrict__ in, Sample *__restrict__ out, int32_t width, int32_t height, float scale) {
  constexpr int count = across<Sample>;
  const sobel_constants constants = {Output, Unit ? 1.0F : scale};
  const int32_t x = int32_t(blockIdx.x * THREADS_X + threadIdx.x) * count;
  const int32_t first = int32_t(blockIdx.y * THREADS_Y + threadIdx.y) * ROWS;
  if (x >= width || first >= height) {
    return;
  }
  if (width % count == 0 && x > 0 && x + count < width && first + ROWS <= height) {
    strip<true>(in, out, width, height, x, first, constants);
  } else {
    strip<false>(in, out, width, height, x, first, constants);
  }
}

template <typename Sample> using kernel = void (*)(const Sample *, Sample *, int32_t, int32_t, float);

template <typename Sample, bool Unit> kernel<Sample> kernel_of(int32_t output) {
  return output == SOBEL_MAGNITUDE ? sobel_kernel<Sample, SOBEL_MAGNITUDE, Unit>
         : output == SOBEL_X       ? sobel_kernel<Sample, SOBEL_X, Unit>
                                   : sobel_kernel<Sample, SOBEL_Y, Unit>;
}

template <typename Sample> int launch(const stage_plan *plan, const stage_call *call, void *stream) {
  sobel_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const uint32_t columns = THREADS_X * across<Sample>;
  const dim3 blocks((plan->input.width + columns - 1) / columns,
                    (plan->input.height + THREADS_Y * ROWS - 1) / (THREADS_Y * ROWS));
  const auto chosen =
      constants.scale == 1.0F ? kernel_of<Sample, true>(constants.output) : kernel_of<Sample, false>(constants.output);
  chosen<<<blocks, dim3(THREADS_X, THREADS_Y), 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Sample *>(call->input), static_cast<Sample *>(call->output), int32_t(plan->input.width),
      int32_t(plan->input.height), constants.scale);
  return cudaGetLastError();
}

} // namespace

extern "C" int sobel_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  return plan->input.dtype == ELEMENT_FLOAT32 ? launch<float>(plan, call, stream) : launch<uint8_t>(plan, call, stream);
}
