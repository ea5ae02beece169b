/*
 * detect: from what a detector's network gives to boxes, best first: float32 [most, 6], in each row x and y of the upper left
 * corner, width, height, score and class; rows not used are 0.
 *
 * A candidate has four fields that place a box, and a value for each class, which lie where the layout says; its class is the
 * one of the largest value, the first at a tie. Candidates of at least the least score are taken in the order of their scores,
 * at a tie the earlier one first, and no more than DETECT_SORTED of them. One that overlaps a box already kept of its class by
 * more than `iou` (the common area over that of both together) is dropped; once `most` are kept, no more are looked at.
 *
 * Boxes are compared in pixels of the network's input and given in those of the picture that came into the pipeline, within
 * its edges, where that is known.
 */
#ifndef FRAMED_GPU_STAGES_DETECT_DETECT_H
#define FRAMED_GPU_STAGES_DETECT_DETECT_H

#include "gpu/record/parameters.h"
#include "gpu/stages/arithmetic.h"

enum {
  DETECT_ROW = 6,
  DETECT_SORTED = 4096, /* candidates that are looked at */
  DETECT_STRIDES = 4
};

/* Where numbers of candidate i lie: field f is element offset + i * candidate + f * field. */
struct detect_place {
  uint64_t offset; /* elements from the start of the frame */
  uint32_t candidate, field;
};

struct detect_constants {
  uint32_t layout, activation;
  uint32_t candidates, classes, most;
  float score, iou;
  struct detect_place box, value;
  uint32_t width, height;                     /* yolox: of the network's input */
  float unit_x, unit_y;                       /* detr: what a share of 1 is */
  float scale_x, scale_y, offset_x, offset_y; /* into the picture */
  float right, bottom;                        /* its edges; infinite where unknown */
};

/* Corners, and the class. */
struct detect_box {
  float left, top, right, bottom;
  float score;
  uint32_t class_index;
};

/* Where things lie in the slot's scratch memory. */
struct detect_scratch {
  uint32_t *count;            /* of candidates found */
  unsigned long long *keys;   /* of those, in any order */
  unsigned long long *sorted; /* the best of them, greatest first; CUDA only */
  uint32_t *classes;          /* of each candidate found, by its index */
  uint32_t *ranks;            /* of each key: how many are greater; CUDA only */
};

extern const struct stage_descriptor detect_stage;

int detect_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);

/* On the CPU. */
void detect_run(const struct stage_plan *plan, const struct stage_call *call);

/* Fills in what the layout says of the input: places, candidates, classes. False and a problem if the input is none of it. */
bool detect_read_layout(const struct stage_plan *plan, struct detect_constants *constants, char problem[STAGE_TEXT]);

enum { DETECT_HEAD = 256 };

STAGE_INLINE size_t detect_scratch_bytes(uint32_t candidates) {
  return DETECT_HEAD + DETECT_SORTED * sizeof(unsigned long long) +
         candidates * (sizeof(unsigned long long) + 2 * sizeof(uint32_t));
}

STAGE_INLINE struct detect_scratch detect_scratch_at(const struct detect_constants *constants, void *memory) {
  struct detect_scratch scratch;
  scratch.count = (uint32_t *)memory;
  scratch.sorted = (unsigned long long *)((unsigned char *)memory + DETECT_HEAD);
  scratch.keys = scratch.sorted + DETECT_SORTED;
  scratch.classes = (uint32_t *)(scratch.keys + constants->candidates);
  scratch.ranks = scratch.classes + constants->candidates;
  return scratch;
}

STAGE_INLINE float detect_field(const struct detect_constants *constants, const float *in, uint32_t candidate, uint32_t field) {
  const struct detect_place place = constants->box;
  return in[place.offset + (uint64_t)candidate * place.candidate + (uint64_t)field * place.field];
}

STAGE_INLINE float detect_value(const struct detect_constants *constants, const float *in, uint32_t candidate, uint32_t index) {
  const struct detect_place place = constants->value;
  return in[place.offset + (uint64_t)candidate * place.candidate + (uint64_t)index * place.field];
}

/* The share that the class of value `best` has among all; the last, which follows the classes, stands for no class. */
STAGE_INLINE float detect_softmax(const struct detect_constants *constants, const float *in, uint32_t candidate, float best) {
  const float none = detect_value(constants, in, candidate, constants->classes);
  const float largest = none > best ? none : best;
  float sum = 0;
  for (uint32_t i = 0; i <= constants->classes; i++) {
    sum += arithmetic_exp(detect_value(constants, in, candidate, i) - largest);
  }
  return arithmetic_exp(best - largest) / sum;
}

/* The score of a candidate from the value of its class. */
STAGE_INLINE float detect_score(const struct detect_constants *constants, const float *in, uint32_t candidate, float best) {
  switch (constants->layout) {
  case DETECT_YOLO5:
  case DETECT_YOLOX:
    return detect_field(constants, in, candidate, 4) * best;
  case DETECT_DETR:
    return constants->activation == DETECT_SOFTMAX ? detect_softmax(constants, in, candidate, best)
                                                   : 1.0F / (1.0F + arithmetic_exp(-best));
  default:
    return best;
  }
}

/* The class where `best` is the index of the largest value; end2end names it in a field. */
STAGE_INLINE uint32_t detect_class(const struct detect_constants *constants, const float *in, uint32_t candidate,
                                   uint32_t best) {
  return constants->layout == DETECT_END2END
             ? arithmetic_whole(arithmetic_clamp(detect_field(constants, in, candidate, 5), 0.0F, 65535.0F))
             : best;
}

/* Orders candidates: greater scores first, then the lower index. Scores are above 0, so their bits order as they do. */
STAGE_INLINE unsigned long long detect_key(float score, uint32_t candidate) {
  return (unsigned long long)arithmetic_bits(score) << 32 | (0xffffffffU - candidate);
}
STAGE_INLINE uint32_t detect_key_candidate(unsigned long long key) { return 0xffffffffU - (uint32_t)key; }
STAGE_INLINE float detect_key_score(unsigned long long key) { return arithmetic_from_bits((uint32_t)(key >> 32)); }

STAGE_INLINE struct detect_box detect_from_centre(float x, float y, float width, float height) {
  struct detect_box box;
  box.left = x - width * 0.5F;
  box.top = y - height * 0.5F;
  box.right = x + width * 0.5F;
  box.bottom = y + height * 0.5F;
  return box;
}

/* YOLOX gives places within a cell of a grid, whose candidates follow each other row by row, the finest grid first. */
STAGE_INLINE struct detect_box detect_from_grid(const struct detect_constants *constants, uint32_t candidate, float x, float y,
                                                float width, float height) {
  uint32_t stride = 8;
  uint32_t index = candidate;
  for (uint32_t level = 1; level < DETECT_STRIDES; level++) {
    const uint32_t cells = (constants->width / stride) * (constants->height / stride);
    if (index < cells) {
      break;
    }
    index -= cells;
    stride *= 2;
  }
  const uint32_t columns = constants->width / stride, column = index % columns, row = index / columns;
  const float side = (float)stride;
  return detect_from_centre((x + (float)column) * side, (y + (float)row) * side, arithmetic_exp(width) * side,
                            arithmetic_exp(height) * side);
}

STAGE_INLINE struct detect_box detect_box_of(const struct detect_constants *constants, const float *in, unsigned long long key,
                                             const uint32_t *classes) {
  const uint32_t candidate = detect_key_candidate(key);
  const float a = detect_field(constants, in, candidate, 0);
  const float b = detect_field(constants, in, candidate, 1);
  const float c = detect_field(constants, in, candidate, 2);
  const float d = detect_field(constants, in, candidate, 3);
  struct detect_box box = {a, b, c, d, 0, 0};
  if (constants->layout == DETECT_YOLOX) {
    box = detect_from_grid(constants, candidate, a, b, c, d);
  } else if (constants->layout == DETECT_DETR) {
    box = detect_from_centre(a * constants->unit_x, b * constants->unit_y, c * constants->unit_x, d * constants->unit_y);
  } else if (constants->layout != DETECT_END2END) {
    box = detect_from_centre(a, b, c, d);
  }
  box.score = detect_key_score(key);
  box.class_index = classes[candidate];
  return box;
}

STAGE_INLINE float detect_least(float a, float b) { return a < b ? a : b; }
STAGE_INLINE float detect_greatest(float a, float b) { return a > b ? a : b; }

STAGE_INLINE bool detect_overlaps(const struct detect_box *a, const struct detect_box *b, float iou) {
  const float width = detect_least(a->right, b->right) - detect_greatest(a->left, b->left);
  const float height = detect_least(a->bottom, b->bottom) - detect_greatest(a->top, b->top);
  const float common = detect_greatest(width, 0.0F) * detect_greatest(height, 0.0F);
  const float first = (a->right - a->left) * (a->bottom - a->top);
  const float second = (b->right - b->left) * (b->bottom - b->top);
  return a->class_index == b->class_index && common > iou * (first + second - common);
}

/* The box as it is in the picture. */
STAGE_INLINE void detect_write(const struct detect_constants *constants, const struct detect_box *box, float *row) {
  const float left = arithmetic_clamp(box->left * constants->scale_x + constants->offset_x, 0.0F, constants->right);
  const float top = arithmetic_clamp(box->top * constants->scale_y + constants->offset_y, 0.0F, constants->bottom);
  row[0] = left;
  row[1] = top;
  row[2] = arithmetic_clamp(box->right * constants->scale_x + constants->offset_x, 0.0F, constants->right) - left;
  row[3] = arithmetic_clamp(box->bottom * constants->scale_y + constants->offset_y, 0.0F, constants->bottom) - top;
  row[4] = box->score;
  row[5] = (float)box->class_index;
}

#endif
