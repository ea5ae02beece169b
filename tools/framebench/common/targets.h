/*
 * Performance targets of framed, each a ratio to a limit that was measured in the same run.
 *
 * Each command adds its targets to the section "targets" of its document, as the last section. framebench report collects them
 * from all documents of a folder into one table.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_TARGETS_H
#define FRAMED_FRAMEBENCH_COMMON_TARGETS_H

#include "tools/framebench/common/results.h"

struct target {
  const char *what;  /* "engine, 4 MiB frames, 3 slots, spin" */
  const char *limit; /* "bare CUDA loop" */
  const char *unit;  /* of both figures: "frames/s", "GB/s", "us"; "" if only their ratio has a meaning */
  double value, limit_value;
  /* The least ratio of value to limit, or with `at_most` the largest value. */
  double bound;
  bool at_most;
};

/* Starts the section. */
void targets_begin(struct results *results);
void targets_add(struct results *results, const struct target *target);

bool targets_reached(const struct target *target);

#endif
