/* mask: descriptor and CPU loop, plane after plane in blocks of pixels. planes.h says what is given. */
#include "gpu/stages/planes.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

#include <math.h>

enum { BLOCK = 1024 };
bool planes_read(const struct frame_format *format, struct frame_format *image, uint32_t *planes) {
  const uint32_t first = format->rank == 4 && format->shape[0] == 1;
  if (format->pixels != PIXELS_NONE || format->dtype != ELEMENT_FLOAT32 || format->parts || format->rank - first != 3 ||
      format->shape[first + 1] > FORMAT_MAX_SIDE || format->shape[first + 2] > FORMAT_MAX_SIDE ||
      format->shape[first] > FORMAT_MAX_SIDE) {
    return false;
  }
  *planes = (uint32_t)format->shape[first];
  *image = format_image(PIXELS_GRAY, (uint32_t)format->shape[first + 2], (uint32_t)format->shape[first + 1]);
  return true;
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  struct mask_constants constants = {.scale = (float)values[MASK_SCALE].numbers[0]};
  if (!planes_read(&plan->input, &plan->output, &constants.classes) || constants.classes < 2) {
    return stage_refuse(plan, problem, "float32 [classes, height, width] of at least two classes",
                        constants.classes == 1 ? "put `image` and `threshold` in its place" : NULL);
  }
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_fill_sizes(plan, problem);
}

STAGE_VECTOR
static void take_plane(const float *restrict in, float *restrict best, uint32_t *restrict classes, size_t count,
                       uint32_t index) {
  for (size_t i = 0; i < count; i++) {
    const bool better = in[i] > best[i];
    best[i] = better ? in[i] : best[i];
    classes[i] = better ? index : classes[i];
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct mask_constants constants;
  float best[BLOCK];
  uint32_t classes[BLOCK];
  STAGE_GET_CONSTANTS(plan, &constants);
  const size_t pixels = plan->output_bytes;
  for (size_t first = 0; first < pixels; first += BLOCK) {
    const size_t count = pixels - first < BLOCK ? pixels - first : BLOCK;
    for (size_t i = 0; i < count; i++) {
      best[i] = -INFINITY;
      classes[i] = 0;
    }
    for (uint32_t c = 0; c < constants.classes; c++) {
      take_plane((const float *)call->input + c * pixels + first, best, classes, count, c);
    }
    for (size_t i = 0; i < count; i++) {
      ((uint8_t *)call->output)[first + i] = mask_level(classes[i], constants);
    }
  }
}

const struct stage_descriptor mask_stage = {
    .about = &mask_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(mask_enqueue)};
