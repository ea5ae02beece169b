/*
 * A daemon of one's own: framed from the folder of this program, on a configuration made here, with its sockets in a
 * folder that goes with it.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_OWN_DAEMON_H
#define FRAMED_FRAMEBENCH_COMMON_OWN_DAEMON_H

#include "gpu/format.h"
#include "tools/framectl/common/problem.h"

#include <jansson.h>

struct own_daemon;

/* A pipeline for the configuration, with sockets at both ends, lossless both ways: frames of so many bytes of floats through
 * affine, or of another format through other stages. `name` is its sockets' too. */
struct own_pipeline {
  const char *name, *completion;
  size_t frame_bytes;
  unsigned slots;
  bool native;             /* on one socket, with shared memory if the client wants it */
  const char *graph;       /* NULL: the daemon's default */
  json_t *format, *stages; /* borrowed; NULL: as above */
  unsigned clients;        /* that it takes at once; 0: one */
  unsigned devices;        /* it has the first so many; 0: the one of `gpu` */
};

/* The format of a tensor, as a configuration says it; to be released. */
json_t *own_daemon_format(const struct frame_format *tensor);

/* Starts it and waits until it answers. `keys` (taken) has `gpu` and what else the configuration is to have at its top. NULL on
 * a problem, which has the daemon's own last words. Forks, so before any use of CUDA in this process. */
struct own_daemon *own_daemon_start(const struct own_pipeline *pipelines, unsigned count, json_t *keys,
                                    struct problem *problem);
const char *own_daemon_socket(const struct own_daemon *daemon); /* of status */
const char *own_daemon_folder(const struct own_daemon *daemon); /* of the pipelines' sockets: NAME, and NAME.out for results */
/* Ends it and removes its folder. NULL is fine; returns NULL. */
struct own_daemon *own_daemon_stop(struct own_daemon *daemon);

#endif
