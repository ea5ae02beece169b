/* `framectl push` and `framectl pull` for native pipelines, with libframed: over the connection, or in shared memory. */
#ifndef FRAMED_TOOLS_FRAMECTL_STREAM_NATIVE_H
#define FRAMED_TOOLS_FRAMECTL_STREAM_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/framectl/common/problem.h"

struct native_transfer {
  const char *name; /* the pipeline's */
  const char *path; /* of its socket */
  bool replies;     /* results of a push come back on the same connection */
  bool shared;      /* asks for shared memory; a message says if the daemon offers no shared memory */
  uint64_t frames;  /* of a pull: stop after so many; 0: no limit */
};

/* Sends frames from standard input, writes results of `replies` to standard output, and prints a summary to standard error. */
bool native_push(const struct native_transfer *transfer, struct problem *problem);
bool native_pull(const struct native_transfer *transfer, struct problem *problem);

#endif
