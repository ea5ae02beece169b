/* The clocks of framed-camera, in nanoseconds. */
#ifndef FRAMED_TOOLS_CAMERA_CLOCK_H
#define FRAMED_TOOLS_CAMERA_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_S  INT64_C(1000000000)
#define CLOCK_MS INT64_C(1000000)

static inline int64_t clock_read(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * CLOCK_S + now.tv_nsec;
}

/* For deadlines and intervals. */
static inline int64_t clock_now(void) { return clock_read(CLOCK_MONOTONIC); }

/* To compare with what a camera says of its own clock. */
static inline int64_t clock_wall(void) { return clock_read(CLOCK_REALTIME); }

#endif
