/*
 * normalize: 8 bit pixels to the tensor [C, H, W] or [H, W, C] that networks take; out = (in * scale - mean) / std.
 *
 * Channels keep the order of the input unless another is asked for: rgb24 gives red, green, blue, bgr24 gives blue, green, red,
 * gray gives one plane. All steps are single precision, each rounded once; float16 is rounded once more at the end.
 */
#ifndef FRAMED_GPU_STAGES_NORMALIZE_H
#define FRAMED_GPU_STAGES_NORMALIZE_H

#include "gpu/stages/arithmetic.h"

enum { NORMALIZE_MAX_CHANNELS = 3 };

struct normalize_channel {
  float scale, mean, deviation;
};

struct normalize_constants {
  uint32_t channels;
  uint32_t source[NORMALIZE_MAX_CHANNELS]; /* of each channel of the result: that of the input */
  bool half;                               /* float16 */
  bool interleaved;                        /* [H, W, C] */
  struct normalize_channel channel[NORMALIZE_MAX_CHANNELS];
};

extern const struct stage_descriptor normalize_stage;

int normalize_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

STAGE_INLINE float normalize_sample(uint8_t value, struct normalize_channel channel) {
  return ((float)value * channel.scale - channel.mean) / channel.deviation;
}

#endif
