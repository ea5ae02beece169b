/* Which lane a new session or a sink of its own lane goes to: the least loaded one, counted in bytes a frame. */
#ifndef FRAMED_PIPELINE_PLACEMENT_H
#define FRAMED_PIPELINE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

/* Index of the smallest load, the first of equals. `count` is at least 1. */
unsigned placement_choose(const size_t *loads, unsigned count);
/* The same among all but one; `count` is at least 2. */
unsigned placement_choose_other(const size_t *loads, unsigned count, unsigned than);
/* Whether a lossless sink for results of that size is better off on another lane than its session. */
bool placement_parts(size_t result_bytes, unsigned lanes);
/* How many lanes `auto` means: one for each processor but one, which the control loop keeps; 1 to 4, and 2 as soon as
 * there are two processors, so that large results can be written where nothing is read. */
unsigned placement_lanes(long processors);

#endif
