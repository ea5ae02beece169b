/*
 * blur: launcher, and the kernel for radii up to BLUR_TILE_RADIUS, which does both passes and needs no scratch memory.
 *
 * A block makes a tile of ROWS rows. First each thread goes down four neighbouring columns, margins included: all samples
 * that its sums need are in registers at once, so that each is loaded once, and the sums go to shared memory as floats.
 * Then each thread makes ALONG neighbouring samples of a row from there, again all in registers. What is known when the
 * kernel is compiled, the largest radius and the channels, lets the registers have fixed numbers; bytes of a smaller
 * radius get weights of 0 beyond it, which change no sum, and floats, which may be infinite, leave those steps out.
 * Wider blurs are two kernels (blur_wide.cu). Weights travel as a kernel parameter.
 */
#include "gpu/stages/blur.cuh"

namespace {

enum { THREADS = 64, WORD = 4, COLUMNS = THREADS * WORD, ROWS = 16, ALONG = 12 };

/* A row's floats in shared memory: neighbours along a warp read 16 bytes each from different banks, and those of the
 * next row go on where the last ones ended. */
enum { PITCH = COLUMNS + 16 };

constexpr int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

template <int Radius, int Channels> struct tile {
  static constexpr int margin = round_up(Radius * Channels, WORD); /* samples beside those that the tile makes */
  static constexpr int width = (COLUMNS - 2 * margin) / ALONG * ALONG;
  static_assert(width % WORD == 0 && width > 0, "tiles begin at words");
};

/* Not inlined, since it divides, and only tiles at the edges need it. */
__device__ __noinline__ int32_t reflect(int32_t index, int32_t size) { return border_reflect(index, size); }

__device__ __forceinline__ int32_t reflect_sample(const blur_geometry &image, int32_t index) {
  if (index >= 0 && index < image.row()) {
    return index;
  }
  const int32_t shift = (BLUR_TILE_RADIUS + 1) * WORD * image.channels; /* so that division rounds down */
  const int32_t pixel = (index + shift) / image.channels - shift / image.channels;
  return reflect(pixel, image.width) * image.channels + (index + shift) % image.channels;
}

/* Rows of the source from `top` on, and the samples of a row that a thread's four columns are. */
struct place {
  int32_t top;
  int32_t columns[WORD];
  bool whole; /* they are a word of the row */
};

template <int Radius> __device__ __forceinline__ place find(const blur_geometry &image, int32_t x, int32_t top) {
  place at;
  at.top = top - Radius;
  at.whole = image.row() % WORD == 0 && x >= 0 && x + WORD <= image.row();
#pragma unroll
  for (int i = 0; i < WORD; i++) {
    /* What lies behind the last margin decides nothing. */
    at.columns[i] = at.whole ? x + i : reflect_sample(image, min(x + i, image.row() - 1 + (Radius + WORD) * image.channels));
  }
  return at;
}

__device__ __forceinline__ const uint8_t *row_at(const uint8_t *in, const blur_geometry &image, int32_t y, bool inside) {
  return in + uint64_t(inside ? y : reflect(y, image.height)) * image.row();
}

__device__ __forceinline__ const float *row_at(const float *in, const blur_geometry &image, int32_t y, bool inside) {
  return in + uint64_t(inside ? y : reflect(y, image.height)) * image.row();
}

/* All samples of a thread's columns, kept as they come: bytes as words, floats not at all. */
template <typename Sample, int Count> struct held;

template <int Count> struct held<uint8_t, Count> {
  uint32_t words[Count];
  __device__ __forceinline__ held(const uint8_t *in, const blur_geometry &image, const place &at, bool inside) {
#pragma unroll
    for (int i = 0; i < Count; i++) {
      const uint8_t *row = row_at(in, image, at.top + i, inside);
      words[i] = at.whole ? *reinterpret_cast<const uint32_t *>(row + at.columns[0])
                          : bytes_join(row[at.columns[0]], row[at.columns[1]], row[at.columns[2]], row[at.columns[3]]);
    }
  }
  __device__ __forceinline__ void take(const uint8_t *, const blur_geometry &, const place &, bool, int column,
                                       float (&samples)[Count]) const {
#pragma unroll
    for (int i = 0; i < Count; i++) {
      samples[i] = bytes_float(words[i], column);
    }
  }
};

template <int Count> struct held<float, Count> {
  __device__ __forceinline__ held(const float *, const blur_geometry &, const place &, bool) {}
  __device__ __forceinline__ void take(const float *in, const blur_geometry &image, const place &at, bool inside, int column,
                                       float (&samples)[Count]) const {
    const int32_t x = column == 0 ? at.columns[0] : column == 1 ? at.columns[1] : column == 2 ? at.columns[2] : at.columns[3];
#pragma unroll
    for (int i = 0; i < Count; i++) {
      samples[i] = row_at(in, image, at.top + i, inside)[x];
    }
  }
};

/* The weighted sum around samples[middle], where a step outwards is `Step` samples. */
template <typename Sample, int Radius, int Step, int Count>
__device__ __forceinline__ float weigh(const float (&samples)[Count], int middle, int32_t radius, const blur_weights &weights) {
  float sum = samples[middle] * weights.at[0];
#pragma unroll
  for (int k = 1; k <= Radius; k++) {
    const float next = blur_add(sum, samples[middle - k * Step] + samples[middle + k * Step], weights.at[k]);
    sum = sizeof(Sample) == 1 || k <= radius ? next : sum;
  }
  return sum;
}

__device__ __forceinline__ void store(uint8_t *out, const float (&sums)[ALONG], int32_t left, bool aligned) {
  uint8_t levels[ALONG];
#pragma unroll
  for (int i = 0; i < ALONG; i++) {
    levels[i] = arithmetic_level(sums[i]);
  }
  if (aligned) {
#pragma unroll
    for (int i = 0; i < ALONG / WORD; i++) {
      if (i * WORD < left) {
        const uint8_t *four = levels + i * WORD;
        reinterpret_cast<uint32_t *>(out)[i] = bytes_join(four[0], four[1], four[2], four[3]);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < ALONG; i++) {
      if (i < left) {
        out[i] = levels[i];
      }
    }
  }
}

__device__ __forceinline__ void store(float *out, const float (&sums)[ALONG], int32_t left, bool aligned) {
#pragma unroll
  for (int i = 0; i < ALONG; i += WORD) {
    if (aligned && i < left) {
      *reinterpret_cast<launch_pack<float, WORD> *>(out + i) = {sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
    }
  }
#pragma unroll
  for (int i = 0; i < ALONG; i++) {
    if (!aligned && i < left) {
      out[i] = sums[i];
    }
  }
}

template <typename Sample, int Radius, int Channels>
__global__ void __launch_bounds__(THREADS)
    blur_tile(const Sample *__restrict__ in, Sample *__restrict__ out, blur_geometry image, blur_weights weights) {
  using tile = tile<Radius, Channels>;
  alignas(16) __shared__ float summed[ROWS][PITCH];
  const int32_t left = int32_t(blockIdx.x) * tile::width;
  const int32_t top = int32_t(blockIdx.y) * ROWS;
  const bool inside = top >= Radius && top + ROWS + Radius <= image.height;
  const place at = find<Radius>(image, left - tile::margin + int32_t(threadIdx.x) * WORD, top);
  const held<Sample, ROWS + 2 * Radius> source(in, image, at, inside);
#pragma unroll 1
  for (int column = 0; column < WORD; column++) {
    float samples[ROWS + 2 * Radius];
    source.take(in, image, at, inside, column, samples);
#pragma unroll
    for (int y = 0; y < ROWS; y++) {
      summed[y][threadIdx.x * WORD + column] = weigh<Sample, Radius, 1>(samples, Radius + y, image.radius, weights);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int32_t item = threadIdx.x; item < ROWS * (tile::width / ALONG); item += THREADS) {
    const int32_t y = item / (tile::width / ALONG);
    const int32_t x = item % (tile::width / ALONG) * ALONG;
    if (top + y >= image.height || left + x >= image.row()) {
      continue;
    }
    float samples[ALONG + 2 * tile::margin];
#pragma unroll
    for (int i = 0; i < ALONG + 2 * tile::margin; i += WORD) {
      const auto four = *reinterpret_cast<const launch_pack<float, WORD> *>(&summed[y][x + i]);
#pragma unroll
      for (int j = 0; j < WORD; j++) {
        samples[i + j] = four.values[j];
      }
    }
    float sums[ALONG];
#pragma unroll
    for (int i = 0; i < ALONG; i++) {
      sums[i] = weigh<Sample, Radius, Channels>(samples, tile::margin + i, image.radius, weights);
    }
    store(out + uint64_t(top + y) * image.row() + left + x, sums, image.row() - left - x, image.row() % WORD == 0);
  }
}

template <typename Sample, int Radius, int Channels>
int launch_tiles(const Sample *in, Sample *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  const dim3 blocks(blur_parts(image.row(), tile<Radius, Channels>::width), blur_parts(image.height, ROWS));
  blur_tile<Sample, Radius, Channels><<<blocks, THREADS, 0, stream>>>(in, out, image, weights);
  return cudaGetLastError();
}

/* The smallest kernel that holds the radius: bytes are blurred by 3 times sigma, floats by 4 times, unless told. */
int launch(const uint8_t *in, uint8_t *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  using launcher = int (*)(const uint8_t *, uint8_t *, const blur_geometry &, const blur_weights &, cudaStream_t);
  static const launcher single[] = {launch_tiles<uint8_t, 3, 1>, launch_tiles<uint8_t, 6, 1>, launch_tiles<uint8_t, 9, 1>,
                                    launch_tiles<uint8_t, 12, 1>};
  static const launcher triple[] = {launch_tiles<uint8_t, 3, 3>, launch_tiles<uint8_t, 6, 3>, launch_tiles<uint8_t, 9, 3>,
                                    launch_tiles<uint8_t, 12, 3>};
  return (image.channels == 1 ? single : triple)[(image.radius - 1) / 3](in, out, image, weights, stream);
}

int launch(const float *in, float *out, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  return image.radius <= 4   ? launch_tiles<float, 4, 1>(in, out, image, weights, stream)
         : image.radius <= 8 ? launch_tiles<float, 8, 1>(in, out, image, weights, stream)
                             : launch_tiles<float, 12, 1>(in, out, image, weights, stream);
}

template <typename Sample>
int choose(const stage_call *call, const blur_geometry &image, const blur_weights &weights, cudaStream_t stream) {
  const auto *in = static_cast<const Sample *>(call->input);
  auto *out = static_cast<Sample *>(call->output);
  return image.radius <= BLUR_TILE_RADIUS ? launch(in, out, image, weights, stream)
                                          : blur_wide(in, out, static_cast<float *>(call->scratch), image, weights, stream);
}

} // namespace

extern "C" int blur_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  blur_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  blur_weights weights = blur_make_weights(&constants);
  for (uint32_t k = constants.radius + 1; k <= BLUR_TILE_RADIUS; k++) {
    weights.at[k] = 0;
  }
  const blur_geometry image = {int32_t(plan->input.width), int32_t(plan->input.height), int32_t(constants.channels),
                               int32_t(constants.radius)};
  const cudaStream_t target = static_cast<cudaStream_t>(stream);
  return plan->input.dtype == ELEMENT_FLOAT32 ? choose<float>(call, image, weights, target)
                                              : choose<uint8_t>(call, image, weights, target);
}
