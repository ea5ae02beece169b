/*
 * Starts a private daemon: framed from the folder of this program. Its configuration and sockets are in a temporary folder,
 * which is removed at the end.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_OWN_DAEMON_H
#define FRAMED_FRAMEBENCH_COMMON_OWN_DAEMON_H

#include "gpu/format.h"
#include "tools/framectl/common/problem.h"

#include <jansson.h>

struct own_daemon;

/*
 * A pipeline of the configuration, with a socket at each end and lossless overload. Frames of `frame_bytes` bytes of floats go
 * through affine, unless `format` and `stages` are set. `name` also names its sockets.
 */
struct own_pipeline {
  const char *name, *completion;
  size_t frame_bytes;
  unsigned slots;
  bool native;             /* on one socket; clients may ask for shared memory */
  const char *graph;       /* NULL: the daemon's default */
  json_t *format, *stages; /* owned by the caller; NULL: affine on floats */
  unsigned clients;        /* limit of clients; 0: one */
  unsigned devices;        /* the first devices, so many; 0: the one of `gpu` */
};

/* The format of a tensor for a configuration; the caller releases it. */
json_t *own_daemon_format(const struct frame_format *tensor);

/*
 * Starts the daemon and waits until it answers. Takes ownership of `keys`, which holds `gpu` and other top-level keys. Returns
 * NULL on a problem, which includes the end of the daemon's log. Forks, so call it before any use of CUDA in this process.
 */
struct own_daemon *own_daemon_start(const struct own_pipeline *pipelines, unsigned count, json_t *keys,
                                    struct problem *problem);
const char *own_daemon_socket(const struct own_daemon *daemon); /* the status socket */
const char *own_daemon_folder(const struct own_daemon *daemon); /* of the pipelines' sockets: NAME, and NAME.out for results */
/* Stops the daemon and removes its folder. NULL is valid; returns NULL. */
struct own_daemon *own_daemon_stop(struct own_daemon *daemon);

#endif
