/*
 * How the kernels of blur_walk.cu part the channels of a slab of pixels in shared memory, and put results together again.
 *
 * 16 pixels of a row are three chunks of bytes, or a chunk of each channel. In between each channel is blurred as if it were
 * gray, so that no product has weights in it that are 0 because they belong to another channel.
 */
#ifndef FRAMED_GPU_STAGES_BLUR_WALK_PLANES_CUH
#define FRAMED_GPU_STAGES_BLUR_WALK_PLANES_CUH

#include "gpu/stages/blur/blur_walk.cuh"

namespace {

enum { PLANES = 3 };

/* Three chunks, byte after byte or channel after channel. */
struct pixels {
  uint32_t words[PLANES][WORD];

  __device__ __forceinline__ uint32_t &word(int i) { return words[i / WORD][i % WORD]; }
};

__device__ __forceinline__ pixels take_apart(pixels from) {
  pixels to;
#pragma unroll
  for (int i = 0; i < WORD; i++) {
    const uint32_t a = from.word(3 * i), b = from.word(3 * i + 1), c = from.word(3 * i + 2); /* 0120 1201 2012 */
    to.words[0][i] = __byte_perm(__byte_perm(a, b, 0x0630U), c, 0x5210U);
    to.words[1][i] = __byte_perm(__byte_perm(a, b, 0x0741U), c, 0x6210U);
    to.words[2][i] = __byte_perm(__byte_perm(a, b, 0x0052U), c, 0x7410U);
  }
  return to;
}

__device__ __forceinline__ pixels put_together(const pixels &from) {
  pixels to;
#pragma unroll
  for (int i = 0; i < WORD; i++) {
    const uint32_t a = from.words[0][i], b = from.words[1][i], c = from.words[2][i];
    to.word(3 * i) = __byte_perm(__byte_perm(a, b, 0x0140U), c, 0x2410U);
    to.word(3 * i + 1) = __byte_perm(__byte_perm(a, b, 0x0625U), c, 0x2150U);
    to.word(3 * i + 2) = __byte_perm(__byte_perm(a, b, 0x0073U), c, 0x7106U);
  }
  return to;
}

/* All rows of a slab that arrived at `source`. */
template <typename Shape> __device__ __forceinline__ void part_slab(uint32_t base, uint32_t source) {
#pragma unroll 1
  for (int32_t i = threadIdx.x; i < Shape::rows * (SLAB / CHUNK); i += Shape::threads) {
    const int32_t row = i / (SLAB / CHUNK), chunk = i % (SLAB / CHUNK);
    pixels joint;
#pragma unroll
    for (int k = 0; k < PLANES; k++) {
      load_chunk(joint.words[k], source + uint32_t(row * Shape::pitch + (chunk * PLANES + k) * CHUNK));
    }
    const pixels apart = take_apart(joint);
    const uint32_t to = base + uint32_t(Shape::planes_at + row * Shape::plane_pitch + chunk * CHUNK);
#pragma unroll
    for (int k = 0; k < PLANES; k++) {
      store_chunk(to + uint32_t(k * Shape::plane_bytes), apart.words[k]);
    }
  }
}

/* The results of a step, channel by channel. */
template <typename Shape> __device__ __forceinline__ void keep_results(const passes<Shape> &sums, uint32_t to) {
#pragma unroll
  for (int v = 0; v < Shape::tall; v++) {
    uint32_t words[2][2];
    sums.make_results(v, words);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      store_word(to + uint32_t((v * GROUP + i / 2 * 8) * Shape::made_pitch + i % 2 * CHUNK), words[i / 2][i % 2]);
    }
  }
}

/* The results of a slab, as far as they are the piece's. */
template <typename Shape>
__device__ __forceinline__ void store_slab(uint32_t base, uint8_t *out, const blur_geometry &image, const walk_piece &piece,
                                           int32_t slab) {
  const int32_t begin = piece.begin + slab * SLAB - Shape::lag;
  const int32_t end = min(piece.first + piece.length, image.width);
#pragma unroll 1
  for (int32_t i = threadIdx.x; i < Shape::made_rows * (SLAB / CHUNK); i += Shape::threads) {
    const int32_t row = i / (SLAB / CHUNK), chunk = i % (SLAB / CHUNK);
    const int32_t x = begin + chunk * CHUNK;
    if (piece.top + row >= image.height || x < piece.first || x >= end) {
      continue;
    }
    pixels apart;
#pragma unroll
    for (int k = 0; k < PLANES; k++) {
      load_chunk(apart.words[k], base + uint32_t(Shape::made_at + row * Shape::made_pitch + k * SLAB + chunk * CHUNK));
    }
    const pixels joint = put_together(apart);
    uint8_t *to = out + int64_t(piece.top + row) * image.row() + x * PLANES;
#pragma unroll
    for (int k = 0; k < PLANES; k++) {
      const uint32_t(&words)[WORD] = joint.words[k];
      reinterpret_cast<launch_pack<uint32_t, WORD> *>(to)[k] = {words[0], words[1], words[2], words[3]};
    }
  }
}

} // namespace

#endif
