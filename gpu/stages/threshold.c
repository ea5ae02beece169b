/* threshold: descriptor and CPU loop. Single-channel images and tensors go through in their own format. */
#include "gpu/stages/threshold.h"
#include "gpu/stages/samples.h"

#include <stdio.h>

#define LIMIT 1e9

enum { LEVEL, MODE, LOW, HIGH };
enum { MODE_BINARY, MODE_TRUNCATE, MODE_TO_ZERO };

static const char *const modes[] = {"binary", "truncate", "to_zero", NULL};

static const struct stage_parameter parameters[] = {
    [LEVEL] = {.name = "level",
               .type = STAGE_NUMBER,
               .minimum = -LIMIT,
               .maximum = LIMIT,
               .fallback = 128,
               .help =
                   "Samples strictly above this count as above; 0 to 255 for 8 bit formats, and 0.5 unless given for float32."},
    [MODE] = {.name = "mode",
              .type = STAGE_CHOICE,
              .maximum = MODE_TO_ZERO,
              .fallback = MODE_BINARY,
              .choices = modes,
              .help = "binary gives high above the level and low elsewhere, truncate cuts off at the level, to_zero keeps what "
                      "is above and gives low elsewhere."},
    [LOW] = {.name = "low",
             .type = STAGE_NUMBER,
             .minimum = -LIMIT,
             .maximum = LIMIT,
             .fallback = 0,
             .help = "What samples that are not above the level become under binary and to_zero."},
    [HIGH] = {.name = "high",
              .type = STAGE_NUMBER,
              .minimum = -LIMIT,
              .maximum = LIMIT,
              .fallback = 255,
              .help = "What samples above the level become under binary; 1 unless given for float32 formats."},
};

static struct threshold_side constant_side(double value) {
  return (struct threshold_side){.value = (float)value, .byte_value = arithmetic_level((float)value)};
}

static struct threshold_side kept_side(void) { return (struct threshold_side){.keep = true, .byte_keep = 255}; }

static bool check_levels(const struct stage_value *values, char problem[STAGE_TEXT]) {
  static const int levels[] = {LEVEL, LOW, HIGH};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    double number = values[levels[i]].numbers[0];
    if (number < 0 || number > 255) {
      snprintf(problem, STAGE_TEXT, "`%s` is %g, but the samples of an 8 bit format go from 0 to 255",
               parameters[levels[i]].name, number);
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
  double level = floats && !values[LEVEL].given ? 0.5 : values[LEVEL].numbers[0];
  double high = floats && !values[HIGH].given ? 1 : values[HIGH].numbers[0];
  int mode = (int)values[MODE].numbers[0];
  struct threshold_constants constants = {
      .level = (float)level,
      .byte_level = floats ? 0 : (uint8_t)level,
      .above = mode == MODE_TO_ZERO ? kept_side() : constant_side(mode == MODE_BINARY ? high : level),
      .rest = mode == MODE_TRUNCATE ? kept_side() : constant_side(values[LOW].numbers[0]),
  };
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_keep_format(plan, problem);
}

STAGE_EACH_SAMPLE(threshold)

const struct stage_descriptor threshold_stage = {
    .name = "threshold",
    .help = "Replaces samples above and below a level; takes gray, grayf32le and tensors and gives the same format.",
    .parameters = parameters,
    .parameter_count = STAGE_PARAMETER_COUNT(parameters),
    .prepare = prepare,
    .run = run,
    .enqueue = STAGE_ENQUEUE(threshold_enqueue),
};
