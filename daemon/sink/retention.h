/*
 * Decides which finished segments are removed: those that are too old (`keep`), too many (`most`), or use the room of the next
 * segment on a full disk (`full`). The oldest are removed first.
 *
 * The wall clock may be set to any time, and a wrong time must not remove what was recorded a minute ago. So each reading is
 * compared with CLOCK_BOOTTIME. A step forward does not count towards the age of earlier segments. A new process counts from
 * the time of its newest segment.
 */
#ifndef FRAMED_SINK_RETENTION_H
#define FRAMED_SINK_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

/* State of the clock comparison, in ns; all 0 before the first reading. */
struct retention {
  int64_t looked;  /* CLOCK_BOOTTIME at the last reading */
  int64_t shift;   /* CLOCK_REALTIME - CLOCK_BOOTTIME at the last reading */
  int64_t doubt;   /* age that is not counted, because the clock stepped forward */
  int64_t stepped; /* for segments last written before this time */
};

/* Checks the state that another process left. */
bool retention_is_sound(const struct retention *retention);
/* Removes segments that must go. `is_full`: the disk has just refused a write. Returns how many were removed. Blocks. */
unsigned retention_apply(const struct config_pipeline *config, struct retention *retention, bool is_full);
/* True if the only limit is the default share of the file system, CONFIG_DEFAULT_MOST. */
bool retention_has_default(const struct config_rotate *rotate);
/* True if old segments of this pipeline are removed when its disk is full. */
bool retention_makes_room(const struct config_rotate *rotate);
/* True if the errno means that the disk is full. */
bool retention_is_full(int error);

#endif
