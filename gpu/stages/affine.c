/* affine: descriptor and CPU loop. Any format goes through unchanged in shape; see affine.h for the rounding. */
#include "gpu/stages/affine.h"
#include "gpu/stages/samples.h"

/* Beyond this, 8 bit products would leave what a float counts exactly, and nobody means it. */
#define LIMIT 1e6

static const struct stage_parameter parameters[] = {
    {.name = "scale",
     .type = STAGE_NUMBER,
     .minimum = -LIMIT,
     .maximum = LIMIT,
     .fallback = 1,
     .help = "Factor that each sample is multiplied by; 8 bit samples are rounded, halves upwards, and saturate."},
    {.name = "offset",
     .type = STAGE_NUMBER,
     .minimum = -LIMIT,
     .maximum = LIMIT,
     .fallback = 0,
     .help = "Added after the multiplication, in units of a sample: levels for 8 bit formats."},
};

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  struct affine_constants constants = {.scale = (float)values[0].numbers[0], .offset = (float)values[1].numbers[0]};
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_keep_format(plan, problem);
}

STAGE_EACH_SAMPLE(affine)

const struct stage_descriptor affine_stage = {
    .name = "affine",
    .help = "Multiplies every sample by a factor and adds an offset, in float32; takes and gives any format.",
    .parameters = parameters,
    .parameter_count = STAGE_PARAMETER_COUNT(parameters),
    .prepare = prepare,
    .run = run,
    .enqueue = STAGE_ENQUEUE(affine_enqueue),
};
