/*
 * detect on the CPU: candidates of at least the least score make a heap, the best is taken from it until enough boxes are
 * kept. So only as many are put in order as are looked at.
 */
#include "gpu/stages/detect/detect.h"
#include "gpu/stages/prepare.h"
#include "gpu/stages/vector.h"

#include <math.h>

enum { BLOCK = 256 };

/* -- the class of each candidate ---------------------------------------------------------------------------------- */

STAGE_VECTOR
static void take_class(const float *restrict values, float *restrict best, uint32_t *restrict classes, size_t count,
                       uint32_t index) {
  for (size_t i = 0; i < count; i++) {
    const bool better = values[i] > best[i];
    best[i] = better ? values[i] : best[i];
    classes[i] = better ? index : classes[i];
  }
}

/* Where a class's values of neighbouring candidates lie side by side. */
static void find_by_class(const struct detect_constants *constants, const float *in, uint32_t first, uint32_t count,
                          float *best, uint32_t *classes) {
  for (uint32_t c = 0; c < constants->classes; c++) {
    take_class(in + constants->value.offset + (uint64_t)c * constants->value.field + first, best, classes, count, c);
  }
}

static void find_by_candidate(const struct detect_constants *constants, const float *in, uint32_t first, uint32_t count,
                              float *best, uint32_t *classes) {
  for (uint32_t i = 0; i < count; i++) {
    const float *values = in + constants->value.offset + (uint64_t)(first + i) * constants->value.candidate;
    for (uint32_t c = 0; c < constants->classes; c++) {
      if (values[c] > best[i]) {
        best[i] = values[c];
        classes[i] = c;
      }
    }
  }
}

static void find(const struct detect_constants *constants, const float *in, const struct detect_scratch *scratch) {
  float best[BLOCK];
  for (uint32_t first = 0; first < constants->candidates; first += BLOCK) {
    const uint32_t rest = constants->candidates - first;
    const uint32_t count = rest < BLOCK ? rest : BLOCK;
    uint32_t *classes = scratch->classes + first;
    for (uint32_t i = 0; i < count; i++) {
      best[i] = -INFINITY;
      classes[i] = 0;
    }
    if (constants->value.candidate == 1) {
      find_by_class(constants, in, first, count, best, classes);
    } else {
      find_by_candidate(constants, in, first, count, best, classes);
    }
    for (uint32_t i = 0; i < count; i++) {
      const float score = detect_score(constants, in, first + i, best[i]);
      if (score >= constants->score) {
        classes[i] = detect_class(constants, in, first + i, classes[i]);
        scratch->keys[(*scratch->count)++] = detect_key(score, first + i);
      }
    }
  }
}

/* -- the best first ----------------------------------------------------------------------------------------------- */

/* Lets the key at `at` sink until no key below it is greater. */
static void sink(unsigned long long *keys, uint32_t count, uint32_t at) {
  const unsigned long long key = keys[at];
  for (uint32_t below = 2 * at + 1; below < count; below = 2 * at + 1) {
    below += below + 1 < count && keys[below + 1] > keys[below];
    if (keys[below] < key) {
      break;
    }
    keys[at] = keys[below];
    at = below;
  }
  keys[at] = key;
}

static unsigned long long take_greatest(unsigned long long *keys, uint32_t *count) {
  const unsigned long long greatest = keys[0];
  keys[0] = keys[--*count];
  sink(keys, *count, 0);
  return greatest;
}

static bool is_dropped(const struct detect_box *kept, uint32_t count, const struct detect_box *box, float iou) {
  for (uint32_t i = 0; i < count; i++) {
    if (detect_overlaps(&kept[i], box, iou)) {
      return true;
    }
  }
  return false;
}

static uint32_t keep(const struct detect_constants *constants, const float *in, const struct detect_scratch *scratch,
                     struct detect_box kept[DETECT_MOST]) {
  uint32_t left = *scratch->count;
  uint32_t count = 0;
  for (uint32_t i = left / 2; i-- > 0;) {
    sink(scratch->keys, left, i);
  }
  for (uint32_t looked = 0; left > 0 && looked < DETECT_SORTED && count < constants->most; looked++) {
    const unsigned long long key = take_greatest(scratch->keys, &left);
    kept[count] = detect_box_of(constants, in, key, scratch->classes);
    count += !is_dropped(kept, count, &kept[count], constants->iou);
  }
  return count;
}

void detect_run(const struct stage_plan *plan, const struct stage_call *call) {
  struct detect_constants constants;
  struct detect_box kept[DETECT_MOST];
  STAGE_GET_CONSTANTS(plan, &constants);
  const struct detect_scratch scratch = detect_scratch_at(&constants, call->scratch);
  *scratch.count = 0;
  find(&constants, call->input, &scratch);
  const uint32_t count = keep(&constants, call->input, &scratch, kept);
  float *out = call->output;
  memset(out, 0, plan->output_bytes);
  for (uint32_t i = 0; i < count; i++) {
    detect_write(&constants, &kept[i], out + (size_t)i * DETECT_ROW);
  }
}
