/*
 * The figures that framed is held to, each as a ratio to a limit that was measured in the same run.
 *
 * Whatever measures one adds it to the section "targets" of its document, as the last section; framebench report collects
 * them from all documents of a folder into one table.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_TARGETS_H
#define FRAMED_FRAMEBENCH_COMMON_TARGETS_H

#include "tools/framebench/common/results.h"

struct target {
  const char *what;  /* "engine, 4 MiB frames, 3 slots, spin" */
  const char *limit; /* "bare CUDA loop" */
  const char *unit;  /* of both figures: "frames/s", "GB/s", "us"; "" if only their ratio says something */
  double value, limit_value;
  /* Value over limit is to be at least this, or, where `at_most` is set, the value itself at most this. */
  double bound;
  bool at_most;
};

/* Starts the section. */
void targets_begin(struct results *results);
void targets_add(struct results *results, const struct target *target);

/* Whether the target is reached. */
bool targets_reached(const struct target *target);

#endif
