/*
 * sobel: kernels and launcher.
 *
 * A thread goes down a strip of columns, 8 for bytes and 4 for floats, and keeps in registers what two rows of it give, so that
 * a row is loaded once for each strip of ROWS rows and twice where two strips meet. Bytes are taken two at a time, a word
 * holding every second of four neighbours in its halves, and their gradient comes from the sums of squares of two by two
 * samples. Where the width is a multiple of the strip's, loads and stores are as wide as the strip, also at the edges: a thread
 * that took longer there would be what all others wait for in the end.
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

/* The same for what lies before a strip and behind it. */
__device__ __forceinline__ int32_t before(int32_t x) { return x > 0 ? x - 1 : 1; }
__device__ __forceinline__ int32_t after(int32_t x, int32_t width) { return x < width ? x : width - 2; }

/* A strip's row with one sample more on each side. */
template <typename Sample> struct samples;

template <> struct samples<float> { float at[across<float> + 2]; };

template <> struct samples<uint8_t> {
  launch_pack<uint32_t, across<uint8_t> / 4> words;
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
    result.at[0] = row[before(x)];
    result.at[count + 1] = row[after(x + count, width)];
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
    return {pack, row[before(x)], row[after(x + count, width)]};
  } else {
    uint32_t bytes[count + 2];
#pragma unroll
    for (int i = 0; i < count + 2; i++) {
      bytes[i] = row[within(x - 1 + i, width)];
    }
    samples<uint8_t> result = {{}, bytes[0], bytes[count + 1]};
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      result.words.values[i / 4] = bytes_join(bytes[i + 1], bytes[i + 2], bytes[i + 3], bytes[i + 4]);
    }
    return result;
  }
}

/* -- floats ---------------------------------------------------------------------------------------------------------- */

/* What one row gives: differences of the neighbours of each sample for the component x; for y the samples, whose differences
 * come first. */
struct float_row {
  float along[across<float>];
  float sample[across<float> + 2];

  __device__ __forceinline__ explicit float_row(const samples<float> &row) {
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

/* The row of the result around which the three rows lie. */
__device__ __forceinline__ launch_pack<float, across<float>> edges(const sobel_constants &k, const float_row &up,
                                                                   const float_row &middle, const float_row &down) {
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

/* Two rows; the result around the second once the third is there. */
template <typename Sample> struct window;

template <> struct window<float> {
  float_row up, middle;

  __device__ __forceinline__ window(const samples<float> &top, const samples<float> &next) : up(top), middle(next) {}
  __device__ __forceinline__ launch_pack<float, across<float>> step(const sobel_constants &k, const samples<float> &row) {
    const float_row down(row);
    const auto result = edges(k, up, middle, down);
    up = middle;
    middle = down;
    return result;
  }
};

/* -- bytes ----------------------------------------------------------------------------------------------------------- */

/*
 * Pairs of whole numbers below 1024 in the halves of a word: as 16 bit floats they are multiples of the smallest one, and
 * their sums and differences are exact below 2048. Units for such floats do two at a time, and are not those that part and
 * join bytes. A difference comes as its size, with a sign.
 */
__device__ __forceinline__ uint32_t pair_add(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("add.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

__device__ __forceinline__ uint32_t pair_subtract(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

/* Sizes, no more than 255. */
__device__ __forceinline__ uint32_t pair_sizes(uint32_t pair) {
  constexpr uint32_t most = 255U * 0x00010001U;
#if __CUDA_ARCH__ >= 800
  uint32_t result;
  asm("{.reg .b32 size; abs.f16x2 size, %1; min.f16x2 %0, size, %2;}" : "=r"(result) : "r"(pair), "r"(most));
  return result;
#else
  return __vminu2(pair & 0x7fff7fffU, most);
#endif
}

/* One of a pair as a float. */
__device__ __forceinline__ float pair_float(uint32_t pair, int index) {
  float result;
  asm("{.reg .b16 half; cvt.u16.u32 half, %1; cvt.f32.f16 %0, half;}" : "=f"(result) : "r"(index == 0 ? pair : pair >> 16));
  return result * 16777216.0F; /* of the smallest one */
}

/* Sums of each sample and the one behind it, of a row or of two. Of four samples, even[i] has those of the first and third,
 * odd[i + 1] those of the second and fourth; odd[0] has in its upper half that of the last one before the strip. */
struct sums {
  uint32_t even[across<uint8_t> / 4], odd[across<uint8_t> / 4 + 1];
};

__device__ __forceinline__ sums operator+(const sums &a, const sums &b) {
  sums result;
#pragma unroll
  for (int i = 0; i < across<uint8_t> / 4; i++) {
    result.even[i] = pair_add(a.even[i], b.even[i]);
  }
#pragma unroll
  for (int i = 0; i <= across<uint8_t> / 4; i++) {
    result.odd[i] = pair_add(a.odd[i], b.odd[i]);
  }
  return result;
}

__device__ __forceinline__ sums sum_row(const samples<uint8_t> &row) {
  constexpr int words = across<uint8_t> / 4;
  uint32_t even[words + 1];
  uint32_t odd[words];
  sums both;
#pragma unroll
  for (int i = 0; i < words; i++) {
    even[i] = row.words.values[i] & 0x00ff00ffU;
    odd[i] = __byte_perm(row.words.values[i], 0, 0x4341U);
  }
  even[words] = row.after;
  both.odd[0] = (row.before + even[0]) << 16;
#pragma unroll
  for (int i = 0; i < words; i++) {
    both.even[i] = pair_add(even[i], odd[i]);
    both.odd[i + 1] = pair_add(odd[i], __byte_perm(even[i], even[i + 1], 0x5432U));
  }
  return both;
}

/*
 * Of the four squares of two by two samples around one, a and b above, c and d below: with p = d - a and q = b - c the
 * components are x = p + q and y = p - q, so that x * x + y * y = 2 * (p * p + q * q).
 */
struct diagonals {
  uint32_t p, q;
};

/* Levels of a pair as they come out at a scale of 1, in the lowest bytes of its halves. The root of a whole number is never
 * nearer to the middle between two levels than 1 / 2040, so that an approximation rounds to the same one. Where p or q is
 * more than 255, so is the root. */
__device__ __forceinline__ uint32_t unit_levels(int32_t output, const diagonals &pair) {
  if (output != SOBEL_MAGNITUDE) {
    return pair_sizes(output == SOBEL_X ? pair_add(pair.p, pair.q) : pair_subtract(pair.p, pair.q));
  }
  constexpr float part = 2.0F / (255.0F * 255.0F);
  const uint32_t p = pair_sizes(pair.p);
  const uint32_t q = pair_sizes(pair.q);
  uint32_t roots[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const uint32_t both = __byte_perm(p, q, i == 0 ? 0x1140U : 0x1162U);
    float root;
    asm("{.reg .f32 square; fma.rn.sat.f32 square, %1, %2, %3; sqrt.approx.ftz.f32 %0, square;}"
        : "=f"(root)
        : "f"(__uint_as_float(__dp4a(both, both, 0x4b000000U))), "f"(part), "f"(-bytes_bias * part));
    roots[i] = __float_as_uint(__fmaf_rn(root, 255.0F, bytes_bias));
  }
  return __byte_perm(roots[0], roots[1], 0x5410U);
}

__device__ __forceinline__ uint32_t levels(const sobel_constants &k, const diagonals &pair) {
  if (k.scale == 1.0F) {
    return unit_levels(k.output, pair);
  }
  uint32_t result[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const float p = pair_float(pair.p, i);
    const float q = pair_float(pair.q, i);
    result[i] = bytes_level(sobel_size(k.output, k.scale, p + q, p - q));
  }
  return __byte_perm(result[0], result[1], 0x5410U);
}

__device__ __forceinline__ launch_pack<uint8_t, across<uint8_t>> edges(const sobel_constants &k, const sums &above,
                                                                       const sums &below) {
  constexpr int words = across<uint8_t> / 4;
  launch_pack<uint32_t, words> result;
#pragma unroll
  for (int i = 0; i < words; i++) {
    const uint32_t a = __byte_perm(above.odd[i], above.odd[i + 1], 0x5432U);
    const uint32_t c = __byte_perm(below.odd[i], below.odd[i + 1], 0x5432U);
    const diagonals even = {pair_subtract(below.even[i], a), pair_subtract(above.even[i], c)};
    const diagonals odd = {pair_subtract(below.odd[i + 1], above.even[i]), pair_subtract(above.odd[i + 1], below.even[i])};
    result.values[i] = __byte_perm(levels(k, even), levels(k, odd), 0x6240U);
  }
  launch_pack<uint8_t, across<uint8_t>> bytes;
  memcpy(&bytes, &result, sizeof bytes);
  return bytes;
}

template <> struct window<uint8_t> {
  sums middle; /* of the last row */
  sums above;  /* and of the one before it */

  __device__ __forceinline__ window(const samples<uint8_t> &top, const samples<uint8_t> &next)
      : middle(sum_row(next)), above(sum_row(top) + middle) {}
  __device__ __forceinline__ launch_pack<uint8_t, across<uint8_t>> step(const sobel_constants &k, const samples<uint8_t> &row) {
    const sums down = sum_row(row);
    const sums below = middle + down;
    const auto result = edges(k, above, below);
    middle = down;
    above = below;
    return result;
  }
};

/* -- strips ---------------------------------------------------------------------------------------------------------- */

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

/* Wide strips have all their rows and columns. The loads of a batch of rows are under way together. */
template <bool Wide, typename Sample>
__device__ __forceinline__ void strip(const Sample *in, Sample *out, int32_t width, int32_t height, int32_t x, int32_t first,
                                      const sobel_constants &k) {
  constexpr int batch = Wide ? int(ROWS) / 2 : 2;
  const Sample *own = in + uint64_t(first) * width;
  const auto at = [&](int32_t i) {
    const bool known = Wide && i >= 0 && i < ROWS;
    return load<Wide>(known ? own + int64_t(i) * width : in + uint64_t(within(first + i, height)) * width, x, width);
  };
  window<Sample> rows(at(-1), at(0));
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
      const auto result = rows.step(k, below[j]);
      if (Wide || first + i + j < height) {
        store<Wide>(result, target, width - x);
      }
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
  if (width % count == 0 && first + ROWS <= height) {
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
