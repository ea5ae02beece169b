/*
 * Which finished segments go: those that are too old (`keep`), too many (`most`), or in the way of the next one on a full disk
 * (`full`). The oldest goes first.
 *
 * The wall clock may be set to any time at any moment, and a reading of it alone must not remove what was recorded a minute
 * ago. So each look at the clock is compared with CLOCK_BOOTTIME: a step forward does not count for the age of segments that
 * were there before it. A process that begins counts from the time of its newest segment.
 */
#ifndef FRAMED_SINK_RETENTION_H
#define FRAMED_SINK_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

/* What is known of the clock; all 0 before the first look. All in ns. */
struct retention {
  int64_t looked;  /* CLOCK_BOOTTIME at the last look, */
  int64_t shift;   /* and how far CLOCK_REALTIME was ahead of it */
  int64_t doubt;   /* how much too old those segments seem */
  int64_t stepped; /* whose last write was before this time */
};

/* Whether what another process left of it can be used. */
bool retention_is_sound(const struct retention *retention);
/* Removes what has to go. With `is_full` the disk has just refused a write. Returns how many went. Blocks. */
unsigned retention_apply(const struct config_pipeline *config, struct retention *retention, bool is_full);
/* Whether nothing bounds the segments but the share of the file system that they get by default, CONFIG_DEFAULT_MOST. */
bool retention_has_default(const struct config_rotate *rotate);
/* Whether old segments of this pipeline go when its disk is full. */
bool retention_makes_room(const struct config_rotate *rotate);
/* Whether an errno means that the disk is full. */
bool retention_is_full(int error);

#endif
