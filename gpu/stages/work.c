/* work: descriptor and CPU loop. Samples go through their rounds in blocks that stay in the first-level cache. */
#include "gpu/stages/work.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

enum { BLOCK = 1024 };

static bool prepare(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  struct work_constants constants = {.rounds = (uint32_t)values[0].numbers[0]};
  STAGE_SET_CONSTANTS(plan, &constants);
  return stage_keep_format(plan, problem);
}

STAGE_VECTOR
static void run_block(float *restrict block, size_t count, uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; round++) {
    for (size_t i = 0; i < count; i++) {
      block[i] = work_round(block[i]);
    }
  }
}

static void read_block(const struct stage_plan *plan, const void *input, size_t first, float *restrict block, size_t count) {
  if (plan->input.dtype == ELEMENT_FLOAT32) {
    memcpy(block, (const float *)input + first, count * sizeof *block);
    return;
  }
  const uint8_t *restrict bytes = (const uint8_t *)input + first;
  for (size_t i = 0; i < count; i++) {
    block[i] = work_from_byte(bytes[i]);
  }
}

static void write_block(const struct stage_plan *plan, void *output, size_t first, const float *restrict block, size_t count) {
  if (plan->input.dtype == ELEMENT_FLOAT32) {
    memcpy((float *)output + first, block, count * sizeof *block);
    return;
  }
  uint8_t *restrict bytes = (uint8_t *)output + first;
  for (size_t i = 0; i < count; i++) {
    bytes[i] = work_to_byte(block[i]);
  }
}

static void run(const struct stage_plan *plan, const struct stage_call *call) {
  struct work_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  size_t samples = format_samples(&plan->input);
  float block[BLOCK];
  for (size_t first = 0; first < samples; first += BLOCK) {
    size_t count = samples - first < BLOCK ? samples - first : BLOCK;
    read_block(plan, call->input, first, block, count);
    run_block(block, count, constants.rounds);
    write_block(plan, call->output, first, block, count);
  }
}

const struct stage_descriptor work_stage = {
    .about = &work_about, .prepare = prepare, .run = run, .enqueue = STAGE_ENQUEUE(work_enqueue)};
