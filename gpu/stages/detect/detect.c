/* detect: descriptor; detect_layout.c reads the tensor's shape, detect_run.c runs on the CPU. */
#include "gpu/stages/detect/detect.h"
#include "gpu/stages/labels.h"
#include "gpu/stages/prepare.h"

#include <math.h>
#include <stdio.h>

enum { LAYOUT, LABELS, SCORE, IOU, MOST, LOGITS };

static const char *const layouts[] = {"yolo5", "yolox", "yolo8", "end2end", "detr", NULL};
static const char *const activations[] = {"sigmoid", "softmax", NULL};

static const struct stage_parameter parameters[] = {
    [LAYOUT] = {.name = "layout",
                .type = STAGE_CHOICE,
                .required = true,
                .maximum = DETECT_DETR,
                .choices = layouts,
                .help =
                    "How the model lays out its result: yolo5 [1, n, 5 + classes], yolox the same on its grids, yolo8 (also "
                    "11) [1, 4 + classes, n], end2end (also v10) [1, n, 6], detr logits and boxes."},
    [LABELS] = {.name = "labels", .type = STAGE_FILE, .help = LABELS_HELP},
    [SCORE] = {.name = "score",
               .type = STAGE_NUMBER,
               .minimum = 0.001,
               .maximum = 1,
               .fallback = 0.25,
               .help = "Least score of a box."},
    [IOU] = {.name = "iou",
             .type = STAGE_NUMBER,
             .minimum = 0,
             .maximum = 1,
             .fallback = 0.45,
             .help = "Boxes that overlap a better one of their class by more than this share of both are dropped; 1 keeps all. "
                     "end2end and detr keep all unless it is given."},
    [MOST] = {.name = "most",
              .type = STAGE_INTEGER,
              .minimum = 1,
              .maximum = DETECT_MOST,
              .fallback = 100,
              .help = "Most boxes in a result, and how many rows it has."},
    [LOGITS] = {.name = "logits",
                .type = STAGE_CHOICE,
                .maximum = DETECT_SOFTMAX,
                .choices = activations,
                .fallback = DETECT_SIGMOID,
                .help = "What makes scores of a detr model's logits: sigmoid, or softmax with a last class for none; only with "
                        "layout detr."},
};

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
      .layout = (uint32_t)values[LAYOUT].numbers[0],
      .activation = (uint32_t)values[LOGITS].numbers[0],
      .most = (uint32_t)values[MOST].numbers[0],
      .score = (float)values[SCORE].numbers[0],
      .iou = (float)values[IOU].numbers[0],
  };
  if (values[LOGITS].given && constants.layout != DETECT_DETR) {
    snprintf(problem, STAGE_TEXT, "`logits` has no effect on layout %s; leave it out", layouts[constants.layout]);
    return false;
  }
  if (is_single(constants.layout) && !values[IOU].given) {
    constants.iou = 1;
  }
  set_view(&plan->input.view, &constants);
  plan->output = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){constants.most, DETECT_ROW}, 2);
  plan->output.meaning = MEANING_BOXES;
  if (!detect_read_layout(plan, &constants, problem) || !stage_fill_sizes(plan, problem) ||
      !labels_read(plan, &values[LABELS], problem)) {
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

const struct stage_descriptor detect_stage = {
    .name = "detect",
    .help =
        "Gives the boxes that a detector found, best first, as float32 [most, 6] of x, y, width, height, score and class, in "
        "pixels of the picture that came in; takes the tensors of the layouts below.",
    .parameters = parameters,
    .parameter_count = STAGE_PARAMETER_COUNT(parameters),
    .any_element = true,
    .prepare = prepare,
    .release = labels_release,
    .run = detect_run,
    .enqueue = STAGE_ENQUEUE(detect_enqueue),
};
