/*
 * A producer and the reader of its results, each in its own thread, so that neither waits for the other.
 *
 * With a rate, the due time of each frame is fixed before the first one is sent, and latency counts from that time. A late
 * result or a stalled daemon therefore cannot improve the latency of later frames. Without a rate, frames are sent as fast as
 * possible, or up to `in_flight` at once, and latency counts from the write.
 *
 * The calls of a client in order: new, start, send_out (the writer has ended), finish (the reader has ended), figures, free.
 */
#ifndef FRAMED_FRAMEBENCH_LOAD_CLIENT_H
#define FRAMED_FRAMEBENCH_LOAD_CLIENT_H

#include "daemon/measure/histogram.h"
#include "tools/framebench/load/frames.h"
#include "tools/framebench/load/pace.h"
#include "tools/framectl/common/problem.h"

struct load_wire {     /* load_client_new() takes ownership of the descriptors */
  int to, from;        /* connected sockets; may be the same */
  struct load_form in; /* of sent frames */
  struct load_form out;
};

enum load_transport { LOAD_ANY, LOAD_SHARED, LOAD_STREAM };

struct load_native_wire { /* of a native pipeline */
  const char *source;
  const char *sink; /* empty: results come back on the producer's connection */
  enum load_transport transport;
  bool spin;
};

/* Figures, which load_client_figures() adds up over clients. */
struct load_figures {
  uint64_t sent, received;      /* all frames */
  uint64_t offered, answered;   /* measured frames, and their results */
  uint64_t arrived;             /* results received between `from` and `to` */
  uint64_t disordered;          /* results received after a later one */
  bool shared;                  /* some frames were in memory shared with the daemon */
  bool by_order;                /* some results have no stamp, so they were counted */
  struct histogram_view ns;     /* latency of the answered frames */
  struct histogram_view lag_ns; /* how late the writer itself woke up */
  int64_t max_ns;
};

struct load_client;

/* NULL on a problem; the descriptors are closed then. */
struct load_client *load_client_new(const struct load_wire *wire, struct problem *problem);
/* Makes its own connections; see native.h. */
struct load_client *load_client_new_native(const struct load_native_wire *wire, struct problem *problem);
bool load_client_start(struct load_client *client, const struct load_pace *pace, struct problem *problem);
/* True if a connection broke, so that waiting is useless. */
bool load_client_is_broken(const struct load_client *client);
/* Waits for the writer, which ends after pace.to; with `hurry` it ends at once. */
void load_client_send_out(struct load_client *client, bool hurry);
/* Ends the reader when all results have come, or when the connection is silent for a moment. */
void load_client_finish(struct load_client *client);
/* Adds to `figures`. False if a connection broke or its data was malformed. */
bool load_client_figures(const struct load_client *client, struct load_figures *figures, struct problem *problem);
struct load_client *load_client_free(struct load_client *client); /* NULL is valid; returns NULL */

#endif
