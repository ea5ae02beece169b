/*
 * A stage for framed: adds `by` to every sample of a gray picture. framed-stage(3) explains it.
 *
 *   cc -O3 -shared -fPIC -o brighten.so brighten.c
 *
 *   stages:
 *     - library: {file: brighten.so, settings: {by: 40}}
 */
#include <framed-stage.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct brighten {
  int by;
};

static int refuse(struct framed_stage_plan *plan, const char *why) {
  snprintf(plan->problem, plan->problem_size, "%s", why);
  return 1;
}

static int prepare(struct framed_stage_plan *plan) {
  int by = 0;
  if (plan->input.pixels != FRAMED_STAGE_GRAY) {
    return refuse(plan, "brighten takes gray; put `convert: {to: gray}` before it");
  }
  for (uint32_t i = 0; i < plan->setting_count; i++) {
    const struct framed_stage_setting *setting = &plan->settings[i];
    if (strcmp(setting->name, "by") != 0 || setting->text || setting->count != 1) {
      return refuse(plan, "brighten takes one setting, `by`, which is a number");
    }
    by = (int)setting->numbers[0];
  }
  struct brighten *brighten = malloc(sizeof *brighten);
  if (!brighten) {
    return refuse(plan, "no memory for brighten");
  }
  brighten->by = by;
  plan->object = brighten;
  return 0;
}

static int run(const struct framed_stage_plan *plan, const struct framed_stage_call *call) {
  const struct brighten *brighten = plan->object;
  const uint8_t *in = call->input;
  uint8_t *out = call->output;
  size_t count = (size_t)plan->input.width * plan->input.height;
  for (size_t i = 0; i < count; i++) {
    int value = in[i] + brighten->by;
    out[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
  }
  return 0;
}

static void release(struct framed_stage_plan *plan) { free(plan->object); }

const struct framed_stage *framed_stage(void) {
  static const struct framed_stage table = {
      .abi = FRAMED_STAGE_ABI, .size = sizeof table, .name = "brighten", .prepare = prepare, .run = run, .release = release};
  return &table;
}
