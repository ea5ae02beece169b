/* normalize: descriptor and CPU loop. Interleaved channels are parted block by block, then each is computed. */
#include "gpu/stages/normalize.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

#include <stdio.h>

enum { BLOCK = 1024 };

/* Whether the order asked for is the other one than the input's. */
static bool turns(enum pixel_format pixels, unsigned order) {
  return (pixels == PIXELS_RGB24 && order == NORMALIZE_BGR) || (pixels == PIXELS_BGR24 && order == NORMALIZE_RGB);
}

static struct frame_format result(const struct frame_format *input, const struct normalize_constants *constants) {
  const enum element_type dtype = constants->half ? ELEMENT_FLOAT16 : ELEMENT_FLOAT32;
  return constants->interleaved ? format_tensor(dtype, (uint64_t[]){input->height, input->width, constants->channels}, 3)
                                : format_tensor(dtype, (uint64_t[]){constants->channels, input->height, input->width}, 3);
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  unsigned channels = stage_channels(&plan->input);
  if (channels == 0 || plan->input.dtype != ELEMENT_UINT8) {
    return stage_refuse(plan, problem, "gray, rgb24 and bgr24", "put `convert: {to: rgb24}` before it");
  }
  if (!stage_check_channels(&values[NORMALIZE_MEAN], channels, "mean", problem) ||
      !stage_check_channels(&values[NORMALIZE_STD], channels, "std", problem)) {
    return false;
  }
  if (channels == 1 && values[NORMALIZE_CHANNELS].numbers[0] != NORMALIZE_KEEP) {
    snprintf(problem, STAGE_TEXT, "`channels` has no effect on gray; leave it out, or put `convert: {to: rgb24}` before it");
    return false;
  }
  struct normalize_constants constants = {.channels = channels,
                                          .half = values[NORMALIZE_DTYPE].numbers[0] == NORMALIZE_FLOAT16,
                                          .interleaved = values[NORMALIZE_LAYOUT].numbers[0] == NORMALIZE_HWC};
  const bool turned = turns(plan->input.pixels, (unsigned)values[NORMALIZE_CHANNELS].numbers[0]);
  for (unsigned c = 0; c < channels; c++) {
    constants.source[c] = turned ? channels - 1 - c : c;
    constants.channel[c] = (struct normalize_channel){
        .scale = (float)values[NORMALIZE_SCALE].numbers[0],
        .mean = (float)stage_channel_number(&values[NORMALIZE_MEAN], c),
        .deviation = (float)stage_channel_number(&values[NORMALIZE_STD], c),
    };
  }
  STAGE_SET_CONSTANTS(plan, &constants);
  plan->output = result(&plan->input, &constants);
  return stage_fill_sizes(plan, problem);
}

STAGE_VECTOR
static void run_plane(const uint8_t *restrict in, float *restrict out, size_t count, struct normalize_channel channel) {
  for (size_t i = 0; i < count; i++) {
    out[i] = normalize_sample(in[i], channel);
  }
}

STAGE_VECTOR
static void gather(const uint8_t *restrict in, uint8_t *restrict out, size_t count, size_t channels) {
  for (size_t i = 0; i < count; i++) {
    out[i] = in[i * channels];
  }
}

STAGE_VECTOR
static void spread(const float *restrict in, float *restrict out, size_t count, size_t step) {
  for (size_t i = 0; i < count; i++) {
    out[i * step] = in[i];
  }
}

STAGE_VECTOR
static void spread_half(const float *restrict in, uint16_t *restrict out, size_t count, size_t step) {
  for (size_t i = 0; i < count; i++) {
    out[i * step] = arithmetic_half(in[i]);
  }
}

/* Computes a block of one channel and puts it where the result has it: every `step`th element from `at` on. */
static void run_block(const uint8_t *in, const struct stage_call *call, size_t at, size_t count, size_t step, bool half,
                      struct normalize_channel channel) {
  float values[BLOCK];
  if (!half && step == 1) {
    run_plane(in, (float *)call->output + at, count, channel);
    return;
  }
  run_plane(in, values, count, channel);
  if (half) {
    spread_half(values, (uint16_t *)call->output + at, count, step);
  } else {
    spread(values, (float *)call->output + at, count, step);
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct normalize_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const uint8_t *in = call->input;
  size_t pixels = (size_t)plan->input.width * plan->input.height;
  size_t channels = constants.channels;
  uint8_t block[BLOCK];
  for (size_t first = 0; first < pixels; first += BLOCK) {
    size_t count = pixels - first < BLOCK ? pixels - first : BLOCK;
    for (size_t c = 0; c < channels; c++) {
      const size_t at = constants.interleaved ? first * channels + c : c * pixels + first;
      gather(in + first * channels + constants.source[c], block, count, channels);
      run_block(block, call, at, count, constants.interleaved ? channels : 1, constants.half, constants.channel[c]);
    }
  }
}

const struct stage_descriptor normalize_stage = {
    .about = &normalize_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(normalize_enqueue)};
