/*
 * mask and image: from float planes [C, H, W] of a network back to pixels.
 *
 * mask gives for each pixel the class whose plane is largest there, the first one at a tie, times `scale`, as gray; a plane's
 * NaN is never the largest. image gives value * scale + offset of each channel, rounded to the nearest level: one plane as
 * gray, three as rgb24.
 */
#ifndef FRAMED_GPU_STAGES_PLANES_H
#define FRAMED_GPU_STAGES_PLANES_H

#include "gpu/stages/arithmetic.h"

enum { PLANES_CHANNELS = 3 };

struct mask_constants {
  uint32_t classes;
  float scale;
};

struct image_constants {
  uint32_t channels;
  uint32_t plane[PLANES_CHANNELS]; /* that each channel of a pixel is read from */
  float scale[PLANES_CHANNELS], offset[PLANES_CHANNELS];
};

extern const struct stage_descriptor mask_stage, image_stage;

int mask_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);
int image_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

/* The gray image that one plane of float32 [C, H, W] or [1, C, H, W] has the size of; `planes` gets C. False if the tensor is
 * none of these. */
bool planes_read(const struct frame_format *format, struct frame_format *image, uint32_t *planes);

STAGE_INLINE uint8_t mask_level(uint32_t index, struct mask_constants constants) {
  return arithmetic_level((float)index * constants.scale);
}

STAGE_INLINE uint8_t image_level(float value, float scale, float offset) { return arithmetic_level(value * scale + offset); }

#endif
