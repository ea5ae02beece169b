/* affine: descriptor and CPU loop. Any format goes through unchanged in shape; see affine.h for the rounding. */
#include "gpu/stages/affine.h"
#include "gpu/stages/samples.h"

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  struct affine_constants constants = {.scale = (float)values[0].numbers[0], .offset = (float)values[1].numbers[0]};
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_keep_format(plan, problem);
}

STAGE_EACH_SAMPLE(affine)

const struct stage_descriptor affine_stage = {
    .about = &affine_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(affine_enqueue)};
