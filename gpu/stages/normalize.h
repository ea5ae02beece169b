/*
 * normalize: 8 bit pixels to the float32 tensor [C, H, W] that networks take; out = (in * scale - mean) / std.
 *
 * Channels keep the order of the input: rgb24 gives red, green, blue, bgr24 gives blue, green, red, gray gives
 * one plane. All steps are single precision, each rounded once.
 */
#ifndef FRAMED_GPU_STAGES_NORMALIZE_H
#define FRAMED_GPU_STAGES_NORMALIZE_H

#include "gpu/stage.h"

enum { NORMALIZE_MAX_CHANNELS = 3 };

struct normalize_channel {
  float scale, mean, deviation;
};

struct normalize_constants {
  uint32_t channels;
  struct normalize_channel channel[NORMALIZE_MAX_CHANNELS];
};

extern const struct stage_descriptor normalize_stage;

int normalize_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

STAGE_INLINE float normalize_sample(uint8_t value, struct normalize_channel channel) {
  return ((float)value * channel.scale - channel.mean) / channel.deviation;
}

#endif
