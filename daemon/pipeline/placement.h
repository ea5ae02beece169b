/*
 * Where sessions go: each is whole on one lane and one device, the least loaded of those that it may have. The functions here
 * only compute: loads come in, a place comes out.
 */
#ifndef FRAMED_PIPELINE_PLACEMENT_H
#define FRAMED_PIPELINE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

/* -- lanes, whose loads are counted in bytes a frame ---------------------------------------------------------------- */

/* Index of the smallest load, the first of equals. `count` is at least 1. */
unsigned placement_choose(const size_t *loads, unsigned count);
/* The same among all but one; `count` is at least 2. */
unsigned placement_choose_other(const size_t *loads, unsigned count, unsigned than);
/* Whether results of that size are to be written on another lane than their session's, of so many. */
bool placement_parts(size_t result_bytes, unsigned lanes);
/* How many lanes suit a machine with so many processors (less than 1: nobody knows). */
unsigned placement_lanes(long processors);

/* -- devices -------------------------------------------------------------------------------------------------------- */

struct placement_device {
  bool is_open;      /* to this session */
  unsigned sessions; /* of the same pipeline that were put there with it */
  size_t load, room; /* bytes a frame of the sessions on it; bytes of its memory that nobody has */
};

/* Index of the device that is open and has room for `needed` bytes, with the fewest sessions of the pipeline, of such the least
 * loaded, and the first of equals; `count`: there is none. The sessions of others may all be idle: a pipeline fans out by
 * itself. */
unsigned placement_device(const struct placement_device *devices, unsigned count, size_t needed);

#endif
