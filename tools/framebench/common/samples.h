/* Repeated measurements of one time, and their statistics. */
#ifndef FRAMED_FRAMEBENCH_COMMON_SAMPLES_H
#define FRAMED_FRAMEBENCH_COMMON_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct samples { /* zero before use; samples_free() after */
  double *values;
  size_t count, room;
};

/* False without memory; earlier samples remain. */
bool samples_add(struct samples *samples, double value);
void samples_free(struct samples *samples);

/* The value that `share` (0 to 1) of the samples do not exceed, by the nearest rank. 0 without samples. Sorts the samples. */
double samples_percentile(struct samples *samples, double share);

/* CLOCK_MONOTONIC in ns. */
static inline int64_t samples_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
