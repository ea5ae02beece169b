/* normalize: descriptor and CPU loop. Interleaved channels are parted block by block, then each is computed. */
#include "gpu/stages/normalize.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

#define LIMIT 1e6

enum { BLOCK = 1024 };
enum { MEAN, STD, SCALE };

static const struct stage_parameter parameters[] = {
    [MEAN] = {.name = "mean",
              .type = STAGE_NUMBERS,
              .minimum = -LIMIT,
              .maximum = LIMIT,
              .fallback = 0,
              .help = "Subtracted after scaling: one number, or one for each channel."},
    [STD] = {.name = "std",
             .type = STAGE_NUMBERS,
             .minimum = 1 / LIMIT,
             .maximum = LIMIT,
             .fallback = 1,
             .help = "Divisor after the subtraction: one number, or one for each channel."},
    [SCALE] = {.name = "scale",
               .type = STAGE_NUMBER,
               .minimum = -LIMIT,
               .maximum = LIMIT,
               .fallback = 1.0 / 255.0,
               .help = "Factor that samples are multiplied by first; the default maps 0 to 255 onto 0 to 1."},
};

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  unsigned channels = stage_channels(&plan->input);
  if (channels == 0 || plan->input.dtype != ELEMENT_UINT8) {
    return stage_refuse(plan, problem, "gray, rgb24 and bgr24", "put `convert: {to: rgb24}` before it");
  }
  if (!stage_check_channels(&values[MEAN], channels, "mean", problem) ||
      !stage_check_channels(&values[STD], channels, "std", problem)) {
    return false;
  }
  struct normalize_constants constants = {.channels = channels};
  for (unsigned c = 0; c < channels; c++) {
    constants.channel[c] = (struct normalize_channel){
        .scale = (float)values[SCALE].numbers[0],
        .mean = (float)stage_channel_number(&values[MEAN], c),
        .deviation = (float)stage_channel_number(&values[STD], c),
    };
  }
  STAGE_SET_CONSTANTS(plan, &constants);
  plan->output = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){channels, plan->input.height, plan->input.width}, 3);
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

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct normalize_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const uint8_t *in = call->input;
  float *out = call->output;
  size_t pixels = (size_t)plan->input.width * plan->input.height;
  size_t channels = constants.channels;
  uint8_t block[BLOCK];
  for (size_t first = 0; first < pixels; first += BLOCK) {
    size_t count = pixels - first < BLOCK ? pixels - first : BLOCK;
    for (size_t c = 0; c < channels; c++) {
      gather(in + first * channels + c, block, count, channels);
      run_plane(block, out + c * pixels + first, count, constants.channel[c]);
    }
  }
}

const struct stage_descriptor normalize_stage = {
    .name = "normalize",
    .help = "Gives (in * scale - mean) / std as a float32 tensor of planes [C, H, W]; takes gray, rgb24 and bgr24.",
    .parameters = parameters,
    .parameter_count = STAGE_PARAMETER_COUNT(parameters),
    .prepare = prepare,
    .run = run,
    .enqueue = STAGE_ENQUEUE(normalize_enqueue),
};
