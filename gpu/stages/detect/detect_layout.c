/* The layouts that detect reads: where boxes and values of classes lie in a tensor, or in a frame of several. */
#include "gpu/model/parts.h"
#include "gpu/stages/detect/detect.h"
#include "gpu/stages/prepare.h"

#include <stdio.h>

enum { MOST_ELEMENTS = 1 << 30, FIRST_STRIDE = 8, FEWEST_STRIDES = 3 };

/* A tensor of two sides, with sides of 1 before them. */
struct table {
  uint64_t offset; /* elements */
  uint32_t rows, columns;
};

static bool read_table(const uint64_t *shape, uint32_t rank, struct table *table) {
  uint64_t before = 1;
  for (uint32_t i = 0; i + 2 < rank; i++) {
    before *= shape[i];
  }
  if (rank < 2 || before != 1 || shape[rank - 2] > MOST_ELEMENTS / shape[rank - 1]) {
    return false;
  }
  table->rows = (uint32_t)shape[rank - 2];
  table->columns = (uint32_t)shape[rank - 1];
  return true;
}

/* Candidates are rows. */
static struct detect_place in_rows(const struct table *table, uint32_t first) {
  return (struct detect_place){.offset = table->offset + first, .candidate = table->columns, .field = 1};
}

static bool is_grid(struct detect_constants *constants, uint32_t width, uint32_t height) {
  uint64_t cells = 0;
  constants->width = width;
  constants->height = height;
  for (uint32_t level = 0, stride = FIRST_STRIDE; level < DETECT_STRIDES; level++, stride *= 2) {
    cells += (uint64_t)(width / stride) * (height / stride);
    if (level + 1 >= FEWEST_STRIDES && cells == constants->candidates) {
      return true;
    }
  }
  return false;
}

/* Where the sides of the network's input are not known, they are equal. */
static bool read_grid(const struct stage_plan *plan, struct detect_constants *constants, char problem[STAGE_TEXT]) {
  const struct frame_view *view = &plan->input.view;
  bool found = view->width > 0 && is_grid(constants, view->width, view->height);
  for (uint32_t side = 32; view->width == 0 && !found && side <= FORMAT_MAX_SIDE / 4; side += 32) {
    found = is_grid(constants, side, side);
  }
  if (!found) {
    snprintf(
        problem, STAGE_TEXT,
        "%u candidates are not those of layout yolox, which has one for each 8, 16 and 32 pixels of the model's input; take "
        "another layout",
        constants->candidates);
  }
  return found;
}

/* Boxes and values of one table, or of two: the one with four columns has the boxes. */
static bool read_detr(const struct stage_plan *plan, struct detect_constants *constants) {
  const struct parts *parts = plan->input.parts;
  struct table tables[2] = {0};
  if (!parts) {
    if (!read_table(plan->input.shape, plan->input.rank, &tables[0]) || tables[0].columns < 5) {
      return false;
    }
    constants->candidates = tables[0].rows;
    constants->classes = tables[0].columns - 4;
    constants->box = in_rows(&tables[0], 0);
    constants->value = in_rows(&tables[0], 4);
    return true;
  }
  for (uint32_t i = 0; i < 2; i++) {
    const struct part *part = &parts->parts[i];
    if (parts->count != 2 || part->dtype != ELEMENT_FLOAT32 || !read_table(part->shape, part->rank, &tables[i])) {
      return false;
    }
    tables[i].offset = part->offset / sizeof(float);
  }
  const struct table *boxes = tables[0].columns == 4 ? &tables[0] : &tables[1];
  const struct table *values = tables[0].columns == 4 ? &tables[1] : &tables[0];
  constants->candidates = boxes->rows;
  constants->classes = values->columns;
  constants->box = in_rows(boxes, 0);
  constants->value = in_rows(values, 0);
  return boxes->columns == 4 && values->rows == boxes->rows;
}

/* Of the layouts with one table; `fields` come before the values of the classes. */
static bool read_one(const struct stage_plan *plan, struct detect_constants *constants, uint32_t fields) {
  struct table table = {0};
  if (plan->input.parts || !read_table(plan->input.shape, plan->input.rank, &table)) {
    return false;
  }
  if (constants->layout == DETECT_YOLO8) {
    constants->candidates = table.columns;
    constants->classes = table.rows - fields;
    constants->box = (struct detect_place){.candidate = 1, .field = table.columns};
    constants->value = constants->box;
    constants->value.offset = (uint64_t)fields * table.columns;
    return table.rows > fields;
  }
  constants->candidates = table.rows;
  constants->classes = table.columns - fields;
  constants->box = in_rows(&table, 0);
  constants->value = in_rows(&table, fields);
  return table.columns > fields;
}

bool detect_read_layout(const struct stage_plan *plan, struct detect_constants *constants, char problem[STAGE_TEXT]) {
  static const char *const takes[] = {
      [DETECT_YOLO5] = "in layout yolo5 float32 [1, candidates, 5 + classes]",
      [DETECT_YOLOX] = "in layout yolox float32 [1, candidates, 5 + classes]",
      [DETECT_YOLO8] = "in layout yolo8 float32 [1, 4 + classes, candidates]",
      [DETECT_END2END] = "in layout end2end float32 [1, candidates, 6]",
      [DETECT_DETR] = "in layout detr float32 [1, candidates, 4] and [1, candidates, classes], or both in one",
  };
  bool good = plan->input.pixels == PIXELS_NONE && (plan->input.parts || plan->input.dtype == ELEMENT_FLOAT32);
  switch ((enum detect_layout)constants->layout) {
  case DETECT_YOLO5:
  case DETECT_YOLOX:
    good = good && read_one(plan, constants, 5);
    break;
  case DETECT_YOLO8:
    good = good && read_one(plan, constants, 4);
    break;
  case DETECT_END2END:
    good = good && read_one(plan, constants, 4) && constants->classes == 2;
    constants->classes = 1;
    break;
  case DETECT_DETR:
    good = good && read_detr(plan, constants);
    good = good && (constants->activation != DETECT_SOFTMAX || constants->classes > 1);
    constants->classes -= constants->activation == DETECT_SOFTMAX;
    break;
  }
  if (!good) {
    return stage_refuse(plan, problem, takes[constants->layout], "take the layout of the model's result");
  }
  return constants->layout != DETECT_YOLOX || read_grid(plan, constants, problem);
}
