/* Which lane a new session goes to: the least loaded one, counted in bytes a frame. */
#ifndef FRAMED_DAEMON_PLACEMENT_H
#define FRAMED_DAEMON_PLACEMENT_H

#include <stddef.h>

/* Index of the smallest load, the first of equals. `count` is at least 1. */
unsigned placement_choose(const size_t *loads, unsigned count);
/* How many lanes `auto` means: one for each processor but one, which the control loop keeps; 1 to 4. */
unsigned placement_lanes(long processors);

#endif
