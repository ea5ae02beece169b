/* The stages that framebench measures, as text, and a parser of that text. */
#ifndef FRAMED_FRAMEBENCH_STAGES_STAGE_LIST_H
#define FRAMED_FRAMEBENCH_STAGES_STAGE_LIST_H

#include "gpu/gpu.h"
#include "tools/framectl/common/problem.h"

struct stage_entry {
  enum pixel_format pixels;
  const char *stage; /* "NAME" or "NAME: KEY=VALUE,KEY=VALUE"; values may be fractions of width and height (stage_list.c) */
  uint64_t shape[3]; /* of a float32 tensor with PIXELS_NONE; sides of 0 become the picture's height and width */
};

extern const struct stage_entry stage_list[];
extern const unsigned stage_list_length;

/* Whether the stage is compute-bound, or has a small tensor, so that memory is no suitable target. */
bool stage_list_computes(const struct stage_entry *entry);

/* "gray" or "float32". */
const char *stage_list_input(const struct stage_entry *entry);

/*
 * Fills a detector's frame like the output of its network: every tenth candidate is one of 40 objects, and those of one object
 * overlap. False: the stage is no detector, and the frame is unchanged.
 */
bool stage_list_fill(const struct stage_plan *plan, float *frame);

/* A chain of this stage on images of that size. NULL on a problem. */
struct gpu_chain *stage_list_chain(const struct stage_entry *entry, uint32_t width, uint32_t height, struct problem *problem);

#endif
