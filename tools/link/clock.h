/* The clock of all link modules. */
#ifndef FRAMED_TOOLS_LINK_CLOCK_H
#define FRAMED_TOOLS_LINK_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, in ns. */
static inline int64_t link_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

#endif
