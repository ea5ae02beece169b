/*
 * Chooses lanes and devices: the least loaded of those allowed. These functions only compute.
 */
#ifndef FRAMED_PIPELINE_PLACEMENT_H
#define FRAMED_PIPELINE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

/* -- lanes, whose loads are counted in bytes per frame -------------------------------------------------------------- */

/* Index of the smallest load, the first if equal. `count` is at least 1. */
unsigned placement_choose(const size_t *loads, unsigned count);
/* Index of the smallest load, without index `than`; `count` is at least 2. */
unsigned placement_choose_other(const size_t *loads, unsigned count, unsigned than);
/* True if results of that size should be written on another lane than their session's. */
bool placement_parts(size_t result_bytes, unsigned lanes);
/* Number of lanes for that many processors (less than 1: unknown). */
unsigned placement_lanes(long processors);

/* -- devices -------------------------------------------------------------------------------------------------------- */

struct placement_device {
  bool is_open;      /* allowed for this session */
  unsigned sessions; /* of the same pipeline, assigned before */
  size_t load, room; /* bytes per frame of its sessions; free bytes of its memory */
};

/* Index of the allowed device with `needed` free bytes that has the fewest sessions of the pipeline, then the smallest load;
 * `count`: no device is suitable. Sessions of other pipelines may be idle, so a pipeline spreads over devices first. */
unsigned placement_device(const struct placement_device *devices, unsigned count, size_t needed);

#endif
