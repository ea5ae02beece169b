/* image: descriptor and CPU loop. planes.h says what is given. */
#include "gpu/stages/planes.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  struct image_constants constants = {0};
  if (!planes_read(&plan->input, &plan->output, &constants.channels) ||
      (constants.channels != 1 && constants.channels != PLANES_CHANNELS)) {
    return stage_refuse(plan, problem, "float32 [1, height, width] and [3, height, width]", NULL);
  }
  if (!stage_check_channels(&values[IMAGE_SCALE], constants.channels, "scale", problem) ||
      !stage_check_channels(&values[IMAGE_OFFSET], constants.channels, "offset", problem)) {
    return false;
  }
  if (constants.channels == PLANES_CHANNELS) {
    plan->output = format_image(PIXELS_RGB24, plan->output.width, plan->output.height);
  }
  for (uint32_t c = 0; c < constants.channels; c++) {
    constants.plane[c] = values[IMAGE_CHANNELS].numbers[0] != 0 ? constants.channels - 1 - c : c;
    constants.scale[c] = (float)stage_channel_number(&values[IMAGE_SCALE], constants.plane[c]);
    constants.offset[c] = (float)stage_channel_number(&values[IMAGE_OFFSET], constants.plane[c]);
  }
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_fill_sizes(plan, problem);
}

STAGE_VECTOR
static void run_plane(const float *restrict in, uint8_t *restrict out, size_t count, size_t step, float scale, float offset) {
  for (size_t i = 0; i < count; i++) {
    out[i * step] = image_level(in[i], scale, offset);
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct image_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const size_t pixels = (size_t)plan->output.width * plan->output.height;
  for (uint32_t c = 0; c < constants.channels; c++) {
    run_plane((const float *)call->input + constants.plane[c] * pixels, (uint8_t *)call->output + c, pixels, constants.channels,
              constants.scale[c], constants.offset[c]);
  }
}

const struct stage_descriptor image_stage = {
    .about = &image_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(image_enqueue)};
