/*
 * The loops of `convert` on the CPU: one row each, over pointers that never overlap, so that they vectorise.
 *
 * Rows of chroma have half as many samples as their rows of pixels, rounded up. Lengths called `pairs` count
 * pairs of pixels: their rows must have room for an even number of pixels. No row is longer than CONVERT_TILE.
 */
#ifndef FRAMED_GPU_STAGES_CONVERT_ROWS_H
#define FRAMED_GPU_STAGES_CONVERT_ROWS_H

#include "gpu/stages/convert/convert.h"

enum { CONVERT_TILE = 1024 /* pixels; even, and few enough for the first-level cache */ };

/* Interleaved to planar and back. */
void convert_split2(const uint8_t *restrict in, size_t count, uint8_t *restrict a, uint8_t *restrict b);
void convert_join2(const uint8_t *restrict a, const uint8_t *restrict b, size_t count, uint8_t *restrict out);
void convert_split3(const uint8_t *restrict in, size_t count, uint8_t *restrict a, uint8_t *restrict b, uint8_t *restrict c);
void convert_join3(const uint8_t *restrict a, const uint8_t *restrict b, const uint8_t *restrict c, size_t count,
                   uint8_t *restrict out);
/* yuyv422: luma, Cb, luma, Cr. */
void convert_split_yuyv(const uint8_t *restrict in, size_t pairs, uint8_t *restrict luma, uint8_t *restrict cb,
                        uint8_t *restrict cr);
void convert_join_yuyv(const uint8_t *restrict luma, const uint8_t *restrict cb, const uint8_t *restrict cr, size_t pairs,
                       uint8_t *restrict out);

/* Gray of 8 bits and of floats. */
void convert_row_float_to_gray(const float *restrict in, size_t count, uint8_t *restrict out);
void convert_row_gray_to_float(const uint8_t *restrict in, size_t count, float *restrict out);
void convert_row_luma_to_gray(const struct convert_constants *restrict k, const uint8_t *restrict in, size_t count,
                              uint8_t *restrict out);
void convert_row_luma_to_float(const struct convert_constants *restrict k, const uint8_t *restrict in, size_t count,
                               float *restrict out);
void convert_row_gray_to_luma(const struct convert_constants *restrict k, const uint8_t *restrict in, size_t count,
                              uint8_t *restrict out);

/* A row of colours as three rows. */
struct convert_colors {
  const uint8_t *red, *green, *blue;
};

void convert_row_rgb_to_gray(const struct convert_constants *restrict k, struct convert_colors in, size_t count,
                             uint8_t *restrict out);
void convert_row_rgb_to_float(const struct convert_constants *restrict k, struct convert_colors in, size_t count,
                              float *restrict out);
void convert_row_rgb_to_luma(const struct convert_constants *restrict k, struct convert_colors in, size_t count,
                             uint8_t *restrict out);
/* Chroma of two rows together; give one row twice for its own chroma. */
void convert_row_rgb_to_chroma(const struct convert_constants *restrict k, struct convert_colors top,
                               struct convert_colors bottom, size_t pairs, uint8_t *restrict cb, uint8_t *restrict cr);
void convert_row_yuv_to_rgb(const struct convert_constants *restrict k, const uint8_t *restrict luma,
                            const uint8_t *restrict cb, const uint8_t *restrict cr, size_t count, uint8_t *restrict red,
                            uint8_t *restrict green, uint8_t *restrict blue);

/* The average of two rows, halves upwards. */
void convert_row_average(const uint8_t *restrict a, const uint8_t *restrict b, size_t count, uint8_t *restrict out);

#endif
