/*
 * Plain socket relays with no GPU in them: what Unix sockets allow to whoever copies frames in and out.
 *
 * Three processes: one writes frames, one relays them, and the caller reads them; what relays may also be a daemon. The relay
 * takes whole frames, as a frame processor must, with one thread, or with a reading and a writing thread and buffers between
 * them. The processes are forked, so call before any use of CUDA and before threads are started.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_RELAY_H
#define FRAMED_FRAMEBENCH_COMMON_RELAY_H

#include "tools/framebench/common/samples.h"
#include "tools/framectl/common/problem.h"

enum relay_kind {
  RELAY_ONE_THREAD,
  RELAY_TWO_THREADS,
  RELAY_POLLING /* one thread that asks its socket again and again, and never sleeps */
};

struct relay_load {
  enum relay_kind kind;
  size_t frame_bytes;
  size_t socket_buffer; /* SO_SNDBUF and SO_RCVBUF in bytes; 0: the system's own */
  double seconds;       /* for how long */
  const char *source;   /* NULL: a relay as above; else where a daemon takes the frames, */
  const char *sink;     /* and gives its results */
};

/* As many frames as fit; `rate` gets bytes a second each way. */
bool relay_throughput(const struct relay_load *load, double *rate, struct problem *problem);

/* One frame at a time; `round_trips` gets microseconds from the start of writing to the last byte read. */
bool relay_latency(const struct relay_load *load, struct samples *round_trips, struct problem *problem);

#endif
