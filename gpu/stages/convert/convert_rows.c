/* The loops of `convert`; see convert_rows.h. Nothing is decided here, so that every loop vectorises. */
#include "gpu/stages/convert/convert_rows.h"
#include "gpu/stages/vector.h"

STAGE_VECTOR void convert_split2(const uint8_t *restrict in, size_t count, uint8_t *restrict a, uint8_t *restrict b) {
  for (size_t i = 0; i < count; i++) {
    a[i] = in[2 * i];
    b[i] = in[2 * i + 1];
  }
}

STAGE_VECTOR void convert_join2(const uint8_t *restrict a, const uint8_t *restrict b, size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[2 * i] = a[i];
    out[2 * i + 1] = b[i];
  }
}

STAGE_VECTOR void convert_split3(const uint8_t *restrict in, size_t count, uint8_t *restrict a, uint8_t *restrict b,
                                 uint8_t *restrict c) {
  for (size_t i = 0; i < count; i++) {
    a[i] = in[3 * i];
    b[i] = in[3 * i + 1];
    c[i] = in[3 * i + 2];
  }
}

STAGE_VECTOR void convert_join3(const uint8_t *restrict a, const uint8_t *restrict b, const uint8_t *restrict c, size_t count,
                                uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[3 * i] = a[i];
    out[3 * i + 1] = b[i];
    out[3 * i + 2] = c[i];
  }
}

STAGE_VECTOR void convert_split_yuyv(const uint8_t *restrict in, size_t pairs, uint8_t *restrict luma, uint8_t *restrict cb,
                                     uint8_t *restrict cr) {
  for (size_t i = 0; i < pairs; i++) {
    luma[2 * i] = in[4 * i];
    luma[2 * i + 1] = in[4 * i + 2];
    cb[i] = in[4 * i + 1];
    cr[i] = in[4 * i + 3];
  }
}

STAGE_VECTOR void convert_join_yuyv(const uint8_t *restrict luma, const uint8_t *restrict cb, const uint8_t *restrict cr,
                                    size_t pairs, uint8_t *restrict out) {
  for (size_t i = 0; i < pairs; i++) {
    out[4 * i] = luma[2 * i];
    out[4 * i + 1] = cb[i];
    out[4 * i + 2] = luma[2 * i + 1];
    out[4 * i + 3] = cr[i];
  }
}

STAGE_VECTOR void convert_row_float_to_gray(const float *restrict in, size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = convert_float_to_gray(in[i]);
  }
}

STAGE_VECTOR void convert_row_gray_to_float(const uint8_t *restrict in, size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = convert_gray_to_float((int16_t)(in[i] * CONVERT_ONE));
  }
}

STAGE_VECTOR void convert_row_luma_to_gray(const struct convert_constants *restrict k, const uint8_t *restrict in, size_t count,
                                           uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = convert_level(convert_luma_to_gray(k, in[i]));
  }
}

STAGE_VECTOR void convert_row_luma_to_float(const struct convert_constants *restrict k, const uint8_t *restrict in,
                                            size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = convert_gray_to_float(convert_luma_to_gray(k, in[i]));
  }
}

STAGE_VECTOR void convert_row_gray_to_luma(const struct convert_constants *restrict k, const uint8_t *restrict in, size_t count,
                                           uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = convert_gray_to_luma(k, in[i]);
  }
}

/* Colours times 128. They go through memory, lest the compiler merge the factor with the weights, which would make
 * products too wide for its 16 bit instructions. */
struct wide_colors {
  int16_t red[CONVERT_TILE], green[CONVERT_TILE], blue[CONVERT_TILE];
};

STAGE_VECTOR static void widen_row(const uint8_t *restrict in, size_t count, int16_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = (int16_t)(in[i] * 128);
  }
}

static void widen(struct convert_colors in, size_t count, struct wide_colors *out) {
  widen_row(in.red, count, out->red);
  widen_row(in.green, count, out->green);
  widen_row(in.blue, count, out->blue);
}

STAGE_VECTOR static void wide_to_gray(const struct convert_constants *restrict k, const struct wide_colors *restrict in,
                                      size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = convert_level(convert_rgb_to_gray(k, in->red[i], in->green[i], in->blue[i]));
  }
}

STAGE_VECTOR static void wide_to_float(const struct convert_constants *restrict k, const struct wide_colors *restrict in,
                                       size_t count, float *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = convert_gray_to_float(convert_rgb_to_gray(k, in->red[i], in->green[i], in->blue[i]));
  }
}

STAGE_VECTOR static void wide_to_luma(const struct convert_constants *restrict k, const struct wide_colors *restrict in,
                                      size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = convert_rgb_to_luma(k, in->red[i], in->green[i], in->blue[i]);
  }
}

STAGE_VECTOR static void wide_to_chroma(const struct convert_constants *restrict k, const struct wide_colors *restrict in,
                                        size_t count, uint8_t *restrict cb, uint8_t *restrict cr) {
  for (size_t i = 0; i < count; i++) {
    cb[i] = convert_rgb_to_chroma(k->cb, in->red[i], in->green[i], in->blue[i]);
    cr[i] = convert_rgb_to_chroma(k->cr, in->red[i], in->green[i], in->blue[i]);
  }
}

void convert_row_rgb_to_gray(const struct convert_constants *restrict k, struct convert_colors in, size_t count,
                             uint8_t *restrict out) {
  struct wide_colors wide;
  widen(in, count, &wide);
  wide_to_gray(k, &wide, count, out);
}

void convert_row_rgb_to_float(const struct convert_constants *restrict k, struct convert_colors in, size_t count,
                              float *restrict out) {
  struct wide_colors wide;
  widen(in, count, &wide);
  wide_to_float(k, &wide, count, out);
}

void convert_row_rgb_to_luma(const struct convert_constants *restrict k, struct convert_colors in, size_t count,
                             uint8_t *restrict out) {
  struct wide_colors wide;
  widen(in, count, &wide);
  wide_to_luma(k, &wide, count, out);
}

/* The sums of blocks of two by two samples times 32: their averages times 128. */
STAGE_VECTOR static void average_blocks(const uint8_t *restrict top, const uint8_t *restrict bottom, size_t pairs,
                                        int16_t *restrict out) {
  for (size_t i = 0; i < pairs; i++) {
    out[i] = (int16_t)((top[2 * i] + top[2 * i + 1] + bottom[2 * i] + bottom[2 * i + 1]) * 32);
  }
}

void convert_row_rgb_to_chroma(const struct convert_constants *restrict k, struct convert_colors top,
                               struct convert_colors bottom, size_t pairs, uint8_t *restrict cb, uint8_t *restrict cr) {
  struct wide_colors wide;
  average_blocks(top.red, bottom.red, pairs, wide.red);
  average_blocks(top.green, bottom.green, pairs, wide.green);
  average_blocks(top.blue, bottom.blue, pairs, wide.blue);
  wide_to_chroma(k, &wide, pairs, cb, cr);
}

/* What the chroma of each pair adds to red, green and blue, written twice, so that the loop over pixels has no pairs. */
STAGE_VECTOR static void spread_chroma(const struct convert_constants *restrict k, const uint8_t *restrict cb,
                                       const uint8_t *restrict cr, size_t pairs, int16_t *restrict red, int16_t *restrict green,
                                       int16_t *restrict blue) {
  for (size_t i = 0; i < pairs; i++) {
    int16_t b = convert_chroma(cb[i]);
    int16_t r = convert_chroma(cr[i]);
    red[2 * i] = red[2 * i + 1] = convert_red_shift(k, r);
    green[2 * i] = green[2 * i + 1] = convert_green_shift(k, b, r);
    blue[2 * i] = blue[2 * i + 1] = convert_blue_shift(k, b);
  }
}

STAGE_VECTOR static void add_luma(const struct convert_constants *restrict k, const uint8_t *restrict luma,
                                  const int16_t *restrict shift, size_t count, uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): each pixel's pair was spread */
    out[i] = convert_level((int16_t)(convert_luma_to_gray(k, luma[i]) + shift[i]));
  }
}

void convert_row_yuv_to_rgb(const struct convert_constants *restrict k, const uint8_t *restrict luma,
                            const uint8_t *restrict cb, const uint8_t *restrict cr, size_t count, uint8_t *restrict red,
                            uint8_t *restrict green, uint8_t *restrict blue) {
  int16_t shift[3][CONVERT_TILE];
  spread_chroma(k, cb, cr, (count + 1) / 2, shift[0], shift[1], shift[2]);
  add_luma(k, luma, shift[0], count, red);
  add_luma(k, luma, shift[1], count, green);
  add_luma(k, luma, shift[2], count, blue);
}

STAGE_VECTOR void convert_row_average(const uint8_t *restrict a, const uint8_t *restrict b, size_t count,
                                      uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = (uint8_t)((a[i] + b[i] + 1) >> 1);
  }
}
