/*
 * resize: kernel for bytes that are averages of squares of pixels, as with area, and bilinear to half.
 *
 * A thread makes 8 neighbouring samples, of three channels 12. The instruction that adds four products of bytes adds those
 * of a word that belong to one sample: which they are is known when the kernel is compiled, for each word and sample. Without
 * this kernel, halving a frame would take 1.3 to 1.6 times as long at 1080p and 4K on an H100.
 */
#include "gpu/stages/bytes.cuh"
#include "gpu/stages/resize/resize_squares.cuh"

namespace {

enum { WORD = 4 };

/* Samples that a thread makes, and bytes that it loads at a time. */
constexpr __host__ __device__ int made(int channels) { return channels == 3 ? 12 : 8; }
constexpr __host__ __device__ int loaded(int channels, int side) { return made(channels) * side % 16 == 0 ? 16 : 8; }

/* A 1 for each byte of the word that belongs to the sample. */
constexpr __host__ __device__ uint32_t members(int channels, int side, int word, int sample) {
  uint32_t mask = 0;
  for (int i = 0; i < WORD; i++) {
    const int byte = word * WORD + i;
    const bool belongs = byte % channels == sample % channels && byte / channels / side == sample / channels;
    mask |= (belongs ? 1U : 0U) << 8 * i;
  }
  return mask;
}

template <int Channels, int Side, int Word, int Sample> __device__ __forceinline__ void add(uint32_t word, uint32_t &sum) {
  constexpr uint32_t mask = members(Channels, Side, Word, Sample);
  if (mask != 0) {
    sum = __dp4a(word, mask, sum);
  }
}

template <int Channels, int Side, int Word, int Sample = 0>
__device__ __forceinline__ void add_word(uint32_t word, uint32_t (&sums)[made(Channels)]) {
  add<Channels, Side, Word, Sample>(word, sums[Sample]);
  if constexpr (Sample + 1 < made(Channels)) {
    add_word<Channels, Side, Word, Sample + 1>(word, sums);
  }
}

template <int Channels, int Side, int Word = 0, int Words>
__device__ __forceinline__ void add_row(const uint32_t (&words)[Words], uint32_t (&sums)[made(Channels)]) {
  add_word<Channels, Side, Word>(words[Word], sums);
  if constexpr (Word + 1 < Words) {
    add_row<Channels, Side, Word + 1>(words, sums);
  }
}

template <int Channels, int Side>
__global__ void __launch_bounds__(LAUNCH_THREADS)
    resize_squares_kernel(const uint8_t *__restrict__ in, uint8_t *__restrict__ out, uint32_t groups, uint32_t height) {
  constexpr int count = made(Channels);
  constexpr int words = count * Side / WORD;
  constexpr int wide = loaded(Channels, Side) / WORD;
  using pack = launch_pack<uint32_t, wide>;
  const uint64_t items = uint64_t(groups) * height;
  for (uint64_t item = launch_first(); item < items; item += launch_stride()) {
    const uint64_t y = item / groups;
    const uint8_t *source = in + (y * Side * groups + (item - y * groups)) * (count * Side);
    uint32_t rows[Side][words];
#pragma unroll
    for (int row = 0; row < Side; row++) {
#pragma unroll
      for (int i = 0; i < words / wide; i++) {
        const pack some = reinterpret_cast<const pack *>(source + uint64_t(row) * groups * (count * Side))[i];
#pragma unroll
        for (int j = 0; j < wide; j++) {
          rows[row][i * wide + j] = some.values[j];
        }
      }
    }
    uint32_t sums[count] = {};
#pragma unroll
    for (int row = 0; row < Side; row++) {
      add_row<Channels, Side>(rows[row], sums);
    }
    auto *target = reinterpret_cast<uint32_t *>(out + item * count);
#pragma unroll
    for (int i = 0; i < count; i += WORD) {
      target[i / WORD] = bytes_join(resize_square_average(sums[i], Side), resize_square_average(sums[i + 1], Side),
                                    resize_square_average(sums[i + 2], Side), resize_square_average(sums[i + 3], Side));
    }
  }
}

template <int Channels> auto kernel_of(uint32_t side) {
  return side == 2   ? resize_squares_kernel<Channels, 2>
         : side == 4 ? resize_squares_kernel<Channels, 4>
                     : resize_squares_kernel<Channels, 8>;
}

} // namespace

/* Halved frames of several small planes are faster with the other kernel, which makes all planes in one launch. */
bool resize_squares_take(const resize_constants &constants) {
  bool good = constants.planes == 1 || constants.filter == RESIZE_AREA;
  for (uint32_t i = 0; i < constants.planes; i++) {
    const resize_plane &plane = constants.plane[i];
    good = good && resize_averages(constants.filter, &plane) && plane.width == plane.out_width &&
           plane.height == plane.out_height && plane.width * plane.channels % made(int(plane.channels)) == 0 &&
           plane.in_offset % 16 == 0 && plane.out_offset % WORD == 0;
  }
  return good;
}

int resize_squares(const resize_constants &constants, const stage_call *call, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  for (uint32_t i = 0; i < constants.planes && error == cudaSuccess; i++) {
    const resize_plane &plane = constants.plane[i];
    const uint32_t groups = plane.width * plane.channels / made(int(plane.channels));
    const uint32_t side = resize_square(&plane);
    const auto kernel = plane.channels == 1   ? kernel_of<1>(side)
                        : plane.channels == 2 ? kernel_of<2>(side)
                                              : kernel_of<3>(side);
    kernel<<<launch_blocks(uint64_t(groups) * plane.height), LAUNCH_THREADS, 0, stream>>>(
        static_cast<const uint8_t *>(call->input) + plane.in_offset, static_cast<uint8_t *>(call->output) + plane.out_offset,
        groups, plane.height);
    error = cudaGetLastError();
  }
  return error;
}
