/*
 * A block of 8 by 2 pixels on its way through convert.cu: load_row() and load_chroma() part the input into planes, store_row()
 * and store_chroma() compute the output's planes and join them. convert_block() is all of that for a pair of formats.
 *
 * Both formats are constants there, so that no branch on them remains, and no register is kept for a plane that they do not
 * have. Where the width is a multiple of 8 every access is aligned and 4 to 16 bytes wide; elsewhere samples move one by one.
 * Pixels beyond the edges are copies of the last ones.
 */
#ifndef FRAMED_GPU_STAGES_CONVERT_BLOCK_CUH
#define FRAMED_GPU_STAGES_CONVERT_BLOCK_CUH

#include "gpu/stages/interleave.cuh"

extern "C" {
#include "gpu/stages/convert/convert.h"
}

namespace {

enum { ACROSS = 8, PAIRS = ACROSS / 2 };
enum family { GRAY, RGB, YUV };

/* Geometry of a frame; `pixels` and `kind` are set where they are constants. */
struct image {
  pixel_format pixels;
  family kind;
  uint32_t width, height, half_width, half_height;
  bool aligned;
};

/* Red, green, blue | luma, Cb, Cr | gray, of two rows. Rows of chroma have half as many samples. */
struct block {
  uint8_t row[3][2][ACROSS];
};

/* Where a block is, and the second row's distance: 0 where there is none. */
struct place {
  uint32_t x, y, below;
};

__host__ __device__ constexpr family family_of(pixel_format pixels) {
  return pixels == PIXELS_RGB24 || pixels == PIXELS_BGR24      ? RGB
         : pixels == PIXELS_GRAY || pixels == PIXELS_GRAYF32LE ? GRAY
                                                               : YUV;
}

__device__ __forceinline__ bool shares_chroma(const image &image) {
  return image.pixels == PIXELS_NV12 || image.pixels == PIXELS_YUV420P;
}

/* -- from the frame to planes --------------------------------------------------------------------------------------- */

__device__ __forceinline__ void load_floats(const float *in, bool aligned, uint32_t left, uint8_t *gray) {
  float values[ACROSS];
  if (aligned) {
    const auto *packs = reinterpret_cast<const launch_pack<float, 4> *>(in);
    const launch_pack<float, 4> halves[2] = {packs[0], packs[1]};
#pragma unroll
    for (int i = 0; i < ACROSS; i++) {
      values[i] = halves[i / 4].values[i % 4];
    }
  } else {
#pragma unroll
    for (int i = 0; i < ACROSS; i++) {
      values[i] = in[i < left ? i : left - 1];
    }
  }
#pragma unroll
  for (int i = 0; i < ACROSS; i++) {
    gray[i] = convert_float_to_gray(values[i]);
  }
}

/* Row 0 or 1 of the block, without chroma that rows share. */
__device__ __forceinline__ void load_row(const image &image, const uint8_t *in, const place &at, int row, block &block) {
  const uint64_t y = at.y + (row == 0 ? 0 : at.below);
  const uint64_t pixel = y * image.width + at.x;
  const uint32_t left = image.width - at.x;
  uint8_t *const rgb[3] = {block.row[0][row], block.row[1][row], block.row[2][row]};
  switch (image.pixels) {
  case PIXELS_RGB24:
    interleave_split<3, ACROSS, 8>(in + pixel * 3, image.aligned, left, rgb);
    break;
  case PIXELS_BGR24:
    interleave_split<3, ACROSS, 8>(in + pixel * 3, image.aligned, left, {rgb[2], rgb[1], rgb[0]});
    break;
  case PIXELS_YUYV422: {
    uint8_t even[PAIRS];
    uint8_t odd[PAIRS];
    interleave_split<4, PAIRS, 16>(in + (y * image.half_width + at.x / 2) * 4, image.aligned, (left + 1) / 2,
                                   {even, rgb[1], odd, rgb[2]});
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
      rgb[0][2 * i] = even[i];
      rgb[0][2 * i + 1] = odd[i];
    }
    break;
  }
  case PIXELS_GRAYF32LE:
    load_floats(reinterpret_cast<const float *>(in) + pixel, image.aligned, left, rgb[0]);
    break;
  default:
    interleave_split<1, ACROSS, 8>(in + pixel, image.aligned, left, {rgb[0]});
    break;
  }
}

/* Where the block's chroma begins: of nv12, both; of yuv420p, the one of the two. */
__device__ __forceinline__ uint64_t chroma_offset(const image &image, const place &at, int which) {
  const uint64_t sample = uint64_t(at.y / 2) * image.half_width + at.x / 2;
  const uint64_t start = uint64_t(image.width) * image.height;
  return image.pixels == PIXELS_NV12 ? start + 2 * sample
                                     : start + which * uint64_t(image.half_width) * image.half_height + sample;
}

__device__ __forceinline__ void load_chroma(const image &image, const uint8_t *in, const place &at, block &block) {
  const uint32_t left = image.half_width - at.x / 2;
  if (image.pixels == PIXELS_NV12) {
    interleave_split<2, PAIRS, 8>(in + chroma_offset(image, at, 0), image.aligned, left, {block.row[1][0], block.row[2][0]});
  } else {
    interleave_split<1, PAIRS, 4>(in + chroma_offset(image, at, 0), image.aligned, left, {block.row[1][0]});
    interleave_split<1, PAIRS, 4>(in + chroma_offset(image, at, 1), image.aligned, left, {block.row[2][0]});
  }
#pragma unroll
  for (int i = 0; i < PAIRS; i++) {
    block.row[1][1][i] = block.row[1][0][i];
    block.row[2][1][i] = block.row[2][0][i];
  }
}

/* -- from planes to planes ------------------------------------------------------------------------------------------ */

__device__ __forceinline__ convert_value level128(const block &in, int plane, int row, int i) {
  return convert_value(in.row[plane][row][i] * 128);
}

/* Gray in 1/32 of a level. */
__device__ __forceinline__ convert_value gray_at(const convert_constants &k, family from, const block &in, int row, int i) {
  if (from == RGB) {
    return convert_rgb_to_gray(&k, level128(in, 0, row, i), level128(in, 1, row, i), level128(in, 2, row, i));
  }
  return from == YUV ? convert_luma_to_gray(&k, in.row[0][row][i]) : convert_value(in.row[0][row][i] * CONVERT_ONE);
}

__device__ __forceinline__ void to_rgb(const convert_constants &k, family from, const block &in, int row, block &out) {
#pragma unroll
  for (int i = 0; i < ACROSS; i++) {
    if (from == YUV) {
      const convert_value gray = convert_luma_to_gray(&k, in.row[0][row][i]);
      const convert_value cb = convert_chroma(in.row[1][row][i / 2]);
      const convert_value cr = convert_chroma(in.row[2][row][i / 2]);
      out.row[0][row][i] = convert_level(convert_value(gray + convert_red_shift(&k, cr)));
      out.row[1][row][i] = convert_level(convert_value(gray + convert_green_shift(&k, cb, cr)));
      out.row[2][row][i] = convert_level(convert_value(gray + convert_blue_shift(&k, cb)));
    } else {
      out.row[0][row][i] = in.row[0][row][i];
      out.row[1][row][i] = from == RGB ? in.row[1][row][i] : in.row[0][row][i];
      out.row[2][row][i] = from == RGB ? in.row[2][row][i] : in.row[0][row][i];
    }
  }
}

__device__ __forceinline__ void to_luma(const convert_constants &k, family from, const block &in, int row, block &out) {
#pragma unroll
  for (int i = 0; i < ACROSS; i++) {
    const uint8_t first = in.row[0][row][i];
    out.row[0][row][i] =
        from == RGB   ? convert_rgb_to_luma(&k, level128(in, 0, row, i), level128(in, 1, row, i), level128(in, 2, row, i))
        : from == YUV ? first
                      : convert_gray_to_luma(&k, first);
  }
}

/* The sum of a block of two by two samples times 32: their average times 128. */
__device__ __forceinline__ convert_value sum(const uint8_t *top, const uint8_t *bottom, int i) {
  return convert_value((top[2 * i] + top[2 * i + 1] + bottom[2 * i] + bottom[2 * i + 1]) * 32);
}

/* Chroma of one row of the output from rows `top` and `bottom` of the input, which may be one and the same. */
__device__ __forceinline__ void to_chroma(const convert_constants &k, family from, const block &in, int top, int bottom,
                                          int row, block &out) {
#pragma unroll
  for (int i = 0; i < PAIRS; i++) {
    uint8_t cb = 128;
    uint8_t cr = 128;
    if (from == RGB) {
      const convert_value red = sum(in.row[0][top], in.row[0][bottom], i);
      const convert_value green = sum(in.row[1][top], in.row[1][bottom], i);
      const convert_value blue = sum(in.row[2][top], in.row[2][bottom], i);
      cb = convert_rgb_to_chroma(k.cb, red, green, blue);
      cr = convert_rgb_to_chroma(k.cr, red, green, blue);
    } else if (from == YUV) {
      cb = uint8_t((in.row[1][top][i] + in.row[1][bottom][i] + 1) >> 1);
      cr = uint8_t((in.row[2][top][i] + in.row[2][bottom][i] + 1) >> 1);
    }
    out.row[1][row][i] = cb;
    out.row[2][row][i] = cr;
  }
}

/* -- from planes to the frame --------------------------------------------------------------------------------------- */

__device__ __forceinline__ void store_floats(const convert_constants &k, family from, const block &in, int row, bool aligned,
                                             uint32_t left, float *out) {
  launch_pack<float, 4> halves[2];
#pragma unroll
  for (int i = 0; i < ACROSS; i++) {
    halves[i / 4].values[i % 4] = convert_gray_to_float(gray_at(k, from, in, row, i));
  }
  if (aligned) {
    reinterpret_cast<launch_pack<float, 4> *>(out)[0] = halves[0];
    reinterpret_cast<launch_pack<float, 4> *>(out)[1] = halves[1];
  } else {
#pragma unroll
    for (int i = 0; i < ACROSS; i++) {
      if (i < left) {
        out[i] = halves[i / 4].values[i % 4];
      }
    }
  }
}

__device__ __forceinline__ void store_gray(const convert_constants &k, family from, const block &in, int row, bool aligned,
                                           uint32_t left, uint8_t *out) {
  uint8_t gray[ACROSS];
#pragma unroll
  for (int i = 0; i < ACROSS; i++) {
    gray[i] = convert_level(gray_at(k, from, in, row, i));
  }
  interleave_join<1, ACROSS, 8>(out, aligned, left, {gray});
}

__device__ __forceinline__ void store_yuyv(const block &block, int row, bool aligned, uint32_t pairs, uint8_t *out) {
  uint8_t even[PAIRS];
  uint8_t odd[PAIRS];
#pragma unroll
  for (int i = 0; i < PAIRS; i++) {
    even[i] = block.row[0][row][2 * i];
    odd[i] = block.row[0][row][2 * i + 1];
  }
  interleave_join<4, PAIRS, 16>(out, aligned, pairs, {even, block.row[1][row], odd, block.row[2][row]});
}

__device__ __forceinline__ void store_row(const convert_constants &k, family from, const block &in, const image &image,
                                          const place &at, int row, uint8_t *out) {
  const uint64_t y = at.y + (row == 0 ? 0 : at.below);
  const uint64_t pixel = y * image.width + at.x;
  const uint32_t left = image.width - at.x;
  block result;
  if (image.pixels == PIXELS_GRAYF32LE) {
    store_floats(k, from, in, row, image.aligned, left, reinterpret_cast<float *>(out) + pixel);
  } else if (image.pixels == PIXELS_GRAY) {
    store_gray(k, from, in, row, image.aligned, left, out + pixel);
  } else if (image.kind == RGB) {
    to_rgb(k, from, in, row, result);
    const bool swap = image.pixels == PIXELS_BGR24;
    uint8_t first[ACROSS];
    uint8_t last[ACROSS];
#pragma unroll
    for (int i = 0; i < ACROSS; i++) {
      first[i] = swap ? result.row[2][row][i] : result.row[0][row][i];
      last[i] = swap ? result.row[0][row][i] : result.row[2][row][i];
    }
    interleave_join<3, ACROSS, 8>(out + pixel * 3, image.aligned, left, {first, result.row[1][row], last});
  } else if (image.pixels == PIXELS_YUYV422) {
    to_luma(k, from, in, row, result);
    to_chroma(k, from, in, row, row, row, result);
    store_yuyv(result, row, image.aligned, (left + 1) / 2, out + (y * image.half_width + at.x / 2) * 4);
  } else {
    to_luma(k, from, in, row, result);
    interleave_join<1, ACROSS, 8>(out + pixel, image.aligned, left, {result.row[0][row]});
  }
}

__device__ __forceinline__ void store_chroma(const convert_constants &k, family from, const block &in, const image &image,
                                             const place &at, uint8_t *out) {
  const uint32_t left = image.half_width - at.x / 2;
  block result;
  to_chroma(k, from, in, 0, 1, 0, result);
  if (image.pixels == PIXELS_NV12) {
    interleave_join<2, PAIRS, 8>(out + chroma_offset(image, at, 0), image.aligned, left, {result.row[1][0], result.row[2][0]});
  } else {
    interleave_join<1, PAIRS, 4>(out + chroma_offset(image, at, 0), image.aligned, left, {result.row[1][0]});
    interleave_join<1, PAIRS, 4>(out + chroma_offset(image, at, 1), image.aligned, left, {result.row[2][0]});
  }
}

template <pixel_format From, pixel_format To>
__device__ __forceinline__ void convert_block(const uint8_t *in, uint8_t *out, const image &size, const place &at,
                                              const convert_constants &k) {
  image from = size;
  from.pixels = From;
  from.kind = family_of(From);
  image to = size;
  to.pixels = To;
  to.kind = family_of(To);
  block source;
  load_row(from, in, at, 0, source);
  load_row(from, in, at, 1, source);
  if (shares_chroma(from) && to.kind != GRAY) {
    load_chroma(from, in, at, source);
  }
  store_row(k, from.kind, source, to, at, 0, out);
  store_row(k, from.kind, source, to, at, 1, out);
  if (shares_chroma(to)) {
    store_chroma(k, from.kind, source, to, at, out);
  }
}

} // namespace

#endif
