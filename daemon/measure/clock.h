/* Time in the daemon is nanoseconds of CLOCK_MONOTONIC in an int64_t; 0 means "not yet". */
#ifndef FRAMED_MEASURE_CLOCK_H
#define FRAMED_MEASURE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

static inline int64_t clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

#endif
