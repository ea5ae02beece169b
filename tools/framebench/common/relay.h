/*
 * Socket relays without a GPU: the rate at which Unix sockets let a process copy frames in and out.
 *
 * Three processes take part: one writes frames, one relays them, and the caller reads them. A daemon can replace the relay.
 * Like a frame processor, the relay reads whole frames, either with one thread, or with a reading and a writing thread and
 * buffers between them. It forks, so call it before any use of CUDA and before threads are started.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_RELAY_H
#define FRAMED_FRAMEBENCH_COMMON_RELAY_H

#include "tools/framebench/common/samples.h"
#include "tools/framectl/common/problem.h"

enum relay_kind {
  RELAY_ONE_THREAD,
  RELAY_TWO_THREADS,
  RELAY_POLLING /* one thread that polls its socket and never sleeps */
};

struct relay_load {
  enum relay_kind kind;
  size_t frame_bytes;
  size_t socket_buffer; /* SO_SNDBUF and SO_RCVBUF in bytes; 0: the system's default */
  double seconds;       /* duration */
  const char *source;   /* a daemon's source socket; NULL: use the relay */
  const char *sink;     /* the daemon's sink socket */
};

/* Sends as many frames as possible. `rate` receives bytes per second in each direction. */
bool relay_throughput(const struct relay_load *load, double *rate, struct problem *problem);

/* Sends one frame at a time. `round_trips` receives microseconds from the start of the write to the last byte read. */
bool relay_latency(const struct relay_load *load, struct samples *round_trips, struct problem *problem);

#endif
