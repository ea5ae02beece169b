/* threshold: descriptor and CPU loop. Single-channel images and tensors go through in their own format. */
#include "gpu/stages/threshold.h"
#include "gpu/stages/samples.h"

#include <stdio.h>

static struct threshold_side constant_side(double value) {
  return (struct threshold_side){.value = (float)value, .byte_value = arithmetic_level((float)value)};
}

static struct threshold_side kept_side(void) { return (struct threshold_side){.keep = true, .byte_keep = 255}; }

static bool check_levels(const struct stage_value *values, char problem[STAGE_TEXT]) {
  static const int levels[] = {THRESHOLD_LEVEL, THRESHOLD_LOW, THRESHOLD_HIGH};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    double number = values[levels[i]].numbers[0];
    if (number < 0 || number > 255) {
      snprintf(problem, STAGE_TEXT, "`%s` is %g, but the samples of an 8 bit format go from 0 to 255",
               threshold_about.parameters[levels[i]].name, number);
      return false;
    }
  }
  return true;
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (plan->input.pixels != PIXELS_NONE && stage_channels(&plan->input) != 1) {
    return stage_refuse(plan, problem, "gray, grayf32le and tensors", "put `convert: {to: gray}` before it");
  }
  bool floats = plan->input.dtype == ELEMENT_FLOAT32;
  if (!floats && !check_levels(values, problem)) {
    return false;
  }
  double level = floats && !values[THRESHOLD_LEVEL].given ? 0.5 : values[THRESHOLD_LEVEL].numbers[0];
  double high = floats && !values[THRESHOLD_HIGH].given ? 1 : values[THRESHOLD_HIGH].numbers[0];
  int mode = (int)values[THRESHOLD_MODE].numbers[0];
  struct threshold_constants constants = {
      .level = (float)level,
      .byte_level = floats ? 0 : (uint8_t)level,
      .above = mode == THRESHOLD_TO_ZERO ? kept_side() : constant_side(mode == THRESHOLD_BINARY ? high : level),
      .rest = mode == THRESHOLD_TRUNCATE ? kept_side() : constant_side(values[THRESHOLD_LOW].numbers[0]),
  };
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_keep_format(plan, problem);
}

STAGE_EACH_SAMPLE(threshold)

const struct stage_descriptor threshold_stage = {
    .about = &threshold_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(threshold_enqueue)};
