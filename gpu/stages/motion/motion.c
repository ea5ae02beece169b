/* motion: descriptor, background and mask on the CPU; motion_boxes.c groups what changed. */
#include "gpu/stages/motion/motion.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

#include <stdio.h>

enum { BLOCK = 1024 };

/* Parameters of the boxes say nothing about a mask, and giving them there is a mistake. */
static bool check_unused(const struct stage_value *values, char problem[STAGE_TEXT]) {
  for (unsigned i = MOTION_BOXES; i <= MOTION_FILL; i++) {
    if (values[i].given) {
      snprintf(problem, STAGE_TEXT, "`%s` has no effect on a mask; leave it out or add `output: boxes`",
               motion_about.parameters[i].name);
      return false;
    }
  }
  return true;
}

static void plan_boxes(struct stage_plan *plan, const struct stage_value *values, struct motion_constants *constants) {
  constants->boxes = (uint32_t)values[MOTION_BOXES].numbers[0];
  constants->cell = (uint32_t)values[MOTION_CELL].numbers[0];
  constants->fill = (float)values[MOTION_FILL].numbers[0];
  constants->columns = (constants->width + constants->cell - 1) / constants->cell;
  constants->rows = (constants->height + constants->cell - 1) / constants->cell;
  plan->output = format_tensor(ELEMENT_FLOAT32, (uint64_t[]){constants->boxes + 1, MOTION_ROW}, 2);
  plan->output.meaning = MEANING_MOTION;
  plan->scratch_bytes = motion_scratch_bytes(constants->columns * constants->rows);
}

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  if (plan->input.pixels != PIXELS_GRAY) {
    return stage_refuse(plan, problem, "gray", "put `convert: {to: gray}` before it");
  }
  struct motion_constants constants = {
      .rate = (float)values[MOTION_RATE].numbers[0],
      .threshold = (float)values[MOTION_THRESHOLD].numbers[0],
      .width = plan->input.width,
      .height = plan->input.height,
  };
  plan->output = plan->input;
  if (values[MOTION_OUTPUT].numbers[0] == MOTION_GIVES_BOXES) {
    plan_boxes(plan, values, &constants);
  } else if (!check_unused(values, problem)) {
    return false;
  }
  if (!stage_fill_sizes(plan, problem)) {
    return false;
  }
  plan->state_bytes = plan->input_bytes * sizeof(float);
  STAGE_SET_CONSTANTS(plan, &constants);
  return true;
}

STAGE_VECTOR
static void mark(const uint8_t *restrict in, float *restrict background, uint8_t *restrict mask, size_t count, bool restart,
                 float rate, float threshold) {
  for (size_t i = 0; i < count; i++) {
    mask[i] = motion_pixel(in[i], background + i, restart, rate, threshold);
  }
}

STAGE_VECTOR
static uint32_t count_changed(const uint8_t *restrict mask, size_t count) {
  uint32_t changed = 0;
  for (size_t i = 0; i < count; i++) {
    changed += mask[i] & 1U;
  }
  return changed;
}

/* Marks one row in blocks of whole cells and adds what changed to the row's cells. */
static void mark_row(const struct motion_constants *constants, const uint8_t *in, float *background, bool restart,
                     struct motion_cell *cells) {
  const size_t block_cells = BLOCK / constants->cell;
  uint8_t mask[BLOCK];
  for (size_t first = 0; first < constants->columns; first += block_cells) {
    const size_t x = first * constants->cell;
    const size_t count =
        constants->width - x < block_cells * constants->cell ? constants->width - x : block_cells * constants->cell;
    mark(in + x, background + x, mask, count, restart, constants->rate, constants->threshold);
    for (size_t at = 0; at < count; at += constants->cell) {
      const size_t side = count - at < constants->cell ? count - at : constants->cell;
      cells[(x + at) / constants->cell].changed += count_changed(mask + at, side);
    }
  }
}

static void run_boxes(const struct motion_constants *constants, const struct stage_call *call) {
  const struct motion_scratch scratch = motion_scratch_at(constants, call->scratch);
  memset(call->scratch, 0, motion_cleared_bytes(scratch.count));
  for (size_t y = 0; y < constants->height; y++) {
    const size_t row = y * constants->width;
    mark_row(constants, (const uint8_t *)call->input + row, (float *)call->state + row, call->restart,
             scratch.cells + y / constants->cell * constants->columns);
  }
  motion_list_boxes(constants, &scratch, call->output);
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct motion_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  if (constants.boxes > 0) {
    run_boxes(&constants, call);
  } else {
    mark(call->input, call->state, call->output, plan->input_bytes, call->restart, constants.rate, constants.threshold);
  }
}

const struct stage_descriptor motion_stage = {
    .about = &motion_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(motion_enqueue)};
