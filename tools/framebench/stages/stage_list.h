/* The stages that framebench measures, as text, and what the text stands for. */
#ifndef FRAMED_FRAMEBENCH_STAGES_STAGE_LIST_H
#define FRAMED_FRAMEBENCH_STAGES_STAGE_LIST_H

#include "gpu/gpu.h"
#include "tools/framectl/common/problem.h"

struct stage_entry {
  enum pixel_format pixels;
  const char *stage; /* "NAME" or "NAME: KEY=VALUE,KEY=VALUE"; of width and height also a share (stage_list.c) */
  uint64_t shape[3]; /* of PIXELS_NONE, a float32 tensor: sides of 0 are the picture's height and width */
};

extern const struct stage_entry stage_list[];
extern const unsigned stage_list_length;

/* Whether the stage computes on purpose, or takes a small tensor, so that memory is not what it is held to. */
bool stage_list_computes(const struct stage_entry *entry);

/* "gray" or "float32". */
const char *stage_list_input(const struct stage_entry *entry);

/* Fills a frame of a detector with what its network would give: of so many candidates every tenth is one of 40 objects, and
 * those of one object lie on each other. False: the stage is no detector, and the frame is as it was. */
bool stage_list_fill(const struct stage_plan *plan, float *frame);

/* The chain of one stage on images of that size. NULL on a problem. */
struct gpu_chain *stage_list_chain(const struct stage_entry *entry, uint32_t width, uint32_t height, struct problem *problem);

#endif
