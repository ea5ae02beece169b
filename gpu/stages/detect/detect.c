/* detect: descriptor; detect_layout.c reads the tensor's shape, detect_run.c runs on the CPU. */
#include "gpu/stages/detect/detect.h"
#include "gpu/stages/labels.h"
#include "gpu/stages/prepare.h"

#include <math.h>
#include <stdio.h>

/* Whether only one box of an object is to be expected. */
static bool is_single(uint32_t layout) { return layout == DETECT_END2END || layout == DETECT_DETR; }

static void set_view(const struct frame_view *view, struct detect_constants *constants) {
  bool known = view->width > 0;
  constants->unit_x = known ? (float)view->width : 1;
  constants->unit_y = known ? (float)view->height : 1;
  constants->scale_x = known ? view->scale_x : 1;
  constants->scale_y = known ? view->scale_y : 1;
  constants->offset_x = view->offset_x;
  constants->offset_y = view->offset_y;
  constants->right = known ? (float)view->picture_width : INFINITY;
  constants->bottom = known ? (float)view->picture_height : INFINITY;
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  struct detect_constants constants = {
      .layout = (uint32_t)values[DETECT_LAYOUT].numbers[0],
      .activation = (uint32_t)values[DETECT_LOGITS].numbers[0],
      .most = (uint32_t)values[DETECT_COUNT].numbers[0],
      .score = (float)values[DETECT_SCORE].numbers[0],
      .iou = (float)values[DETECT_IOU].numbers[0],
  };
  if (values[DETECT_LOGITS].given && constants.layout != DETECT_DETR) {
    snprintf(problem, STAGE_TEXT, "`logits` has no effect on layout %s; leave it out",
             detect_about.parameters[DETECT_LAYOUT].choices[constants.layout]);
    return false;
  }
  if (is_single(constants.layout) && !values[DETECT_IOU].given) {
    constants.iou = 1;
  }
  set_view(&plan->input.view, &constants);
  plan->output = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){constants.most, DETECT_ROW}, 2);
  plan->output.meaning = MEANING_BOXES;
  if (!detect_read_layout(plan, &constants, problem) || !stage_fill_sizes(plan, problem) ||
      !labels_read(plan, &values[DETECT_LABELS], problem)) {
    return false;
  }
  if (constants.layout != DETECT_END2END && !labels_check(plan, constants.classes, problem)) {
    labels_release(plan);
    return false;
  }
  plan->scratch_bytes = detect_scratch_bytes(constants.candidates);
  STAGE_SET_CONSTANTS(plan, &constants);
  return true;
}

const struct stage_descriptor detect_stage = {.about = &detect_about,
                                              .prepare = prepare,
                                              .release = labels_release,
                                              .run = detect_run,
                                              .enqueue = STAGE_ENQUEUE(detect_enqueue)};
