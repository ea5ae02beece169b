/* top: descriptor and the CPU's way, which keeps the best in a short list in order. */
#include "gpu/stages/top.h"
#include "gpu/stages/labels.h"
#include "gpu/stages/prepare.h"

enum { MOST_CLASSES = 1 << 24 }; /* what a float counts to */

/* All sides but one are 1. */
static bool is_list(const struct frame_format *format) {
  unsigned longer = 0;
  for (uint32_t i = 0; i < format->rank; i++) {
    longer += format->shape[i] > 1;
  }
  return format->pixels == PIXELS_NONE && format->dtype == ELEMENT_FLOAT32 && !format->parts && longer <= 1 &&
         format_samples(format) <= MOST_CLASSES;
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (!is_list(&plan->input)) {
    return stage_refuse(plan, problem, "one list of scores, as float32 [1, classes]", "choose the model's output of scores");
  }
  struct top_constants constants = {
      .classes = (uint32_t)format_samples(&plan->input),
      .k = (uint32_t)values[TOP_K].numbers[0],
      .softmax = values[TOP_SOFTMAX].numbers[0] != 0,
  };
  constants.k = constants.k < constants.classes ? constants.k : constants.classes;
  STAGE_SET_CONSTANTS(plan, &constants);
  plan->output = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){constants.k, TOP_ROW}, 2);
  plan->output.meaning = MEANING_CLASSES;
  if (!stage_fill_sizes(plan, problem) || !labels_read(plan, &values[TOP_LABELS], problem)) {
    return false;
  }
  if (!labels_check(plan, constants.classes, problem)) {
    labels_release(plan);
    return false;
  }
  return true;
}

static float sum_of(const struct top_constants *constants, const float *in, float largest) {
  float lanes[TOP_LANES] = {0};
  for (uint32_t i = 0; i < constants->classes; i++) {
    lanes[i % TOP_LANES] += top_power(in[i], largest);
  }
  for (uint32_t width = TOP_LANES / 2; width > 0; width /= 2) {
    for (uint32_t lane = 0; lane < width; lane++) {
      lanes[lane] += lanes[lane + width];
    }
  }
  return lanes[0];
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct top_constants constants;
  unsigned long long best[TOP_MOST] = {0};
  STAGE_GET_CONSTANTS(plan, &constants);
  const float *in = call->input;
  for (uint32_t i = 0; i < constants.classes; i++) {
    const unsigned long long key = top_key(top_score(in[i]), i);
    uint32_t at = constants.k;
    for (; at > 0 && best[at - 1] < key; at--) {
      if (at < constants.k) {
        best[at] = best[at - 1];
      }
    }
    if (at < constants.k) {
      best[at] = key;
    }
  }
  const float largest = top_key_score(best[0]);
  const float sum = constants.softmax ? sum_of(&constants, in, largest) : 0;
  for (uint32_t i = 0; i < constants.k; i++) {
    top_write(&constants, best[i], largest, sum, (float *)call->output + (size_t)i * TOP_ROW);
  }
}

const struct stage_descriptor top_stage = {
    .about = &top_about, .prepare = prepare, .release = labels_release, .run = run, .enqueue = STAGE_ENQUEUE(top_enqueue)};
