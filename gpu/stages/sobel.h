/*
 * Arithmetic of `sobel`: the gradient of gray over 3 by 3 pixels, its components as cv2.Sobel gives them.
 *
 * `magnitude` is the Euclidean length of the gradient (L2); `x` and `y` are the sizes of its components. For 8 bits
 * the components are whole numbers, the root is rounded once, scaled once, and rounded to a level, halves upwards,
 * saturating. Beyond the edges lies the mirror image (border.h).
 */
#ifndef FRAMED_GPU_STAGES_SOBEL_H
#define FRAMED_GPU_STAGES_SOBEL_H

#include "gpu/stages/arithmetic.h"

#include <math.h>

enum sobel_output { SOBEL_MAGNITUDE, SOBEL_X, SOBEL_Y };

struct sobel_constants {
  int32_t output; /* enum sobel_output */
  float scale;
};

/* The eight pixels around one, named as on a map. */
struct sobel_bytes {
  int32_t northwest, north, northeast, west, east, southwest, south, southeast;
};

struct sobel_floats {
  float northwest, north, northeast, west, east, southwest, south, southeast;
};

STAGE_INLINE uint8_t sobel_byte(int32_t output, float scale, struct sobel_bytes p) {
  int32_t x = (p.northeast - p.northwest) + 2 * (p.east - p.west) + (p.southeast - p.southwest);
  int32_t y = (p.southwest - p.northwest) + 2 * (p.south - p.north) + (p.southeast - p.northeast);
  if (output == SOBEL_MAGNITUDE) {
    return arithmetic_level(sqrtf((float)(x * x + y * y)) * scale);
  }
  int32_t component = output == SOBEL_X ? x : y;
  return arithmetic_level((float)(component < 0 ? -component : component) * scale);
}

STAGE_INLINE float sobel_float(int32_t output, float scale, struct sobel_floats p) {
  float x = (p.northeast - p.northwest) + 2.0F * (p.east - p.west) + (p.southeast - p.southwest);
  float y = (p.southwest - p.northwest) + 2.0F * (p.south - p.north) + (p.southeast - p.northeast);
  if (output == SOBEL_MAGNITUDE) {
    return sqrtf(x * x + y * y) * scale;
  }
  return fabsf(output == SOBEL_X ? x : y) * scale;
}

extern const struct stage_descriptor sobel_stage;

int sobel_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

#endif
