/* `framectl push` and `framectl pull` on native pipelines, by libframed: through the connection, or in shared memory. */
#ifndef FRAMED_TOOLS_FRAMECTL_STREAM_NATIVE_H
#define FRAMED_TOOLS_FRAMECTL_STREAM_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/framectl/common/problem.h"

struct native_transfer {
  const char *name; /* the pipeline's */
  const char *path; /* of its socket */
  bool replies;     /* results of a push come back */
  bool shared;      /* ask for shared memory; where there is none it is said */
  uint64_t frames;  /* of a pull: stop after so many; 0: never */
};

/* Frames from standard input, results of `replies` to standard output, and what it was to standard error. */
bool native_push(const struct native_transfer *transfer, struct problem *problem);
bool native_pull(const struct native_transfer *transfer, struct problem *problem);

#endif
