/*
 * One producer and the reader of its results, each a thread of its own, so that neither waits for the other.
 *
 * With a rate, frame n is due at a time that is fixed before the first one is sent, and its latency counts from then: a
 * result that comes late, or a daemon that takes nothing, makes no later frame look better than it was. Without a rate
 * frames go out as fast as they are taken, or as many at once as `in_flight` says, and latency counts from the write.
 *
 * The life of a client: new, start, send_out (its writer has ended), finish (its reader has ended), figures, free.
 */
#ifndef FRAMED_FRAMEBENCH_LOAD_CLIENT_H
#define FRAMED_FRAMEBENCH_LOAD_CLIENT_H

#include "daemon/measure/histogram.h"
#include "tools/framebench/load/frames.h"
#include "tools/framebench/load/pace.h"
#include "tools/framectl/common/problem.h"

struct load_wire {     /* descriptors are the client's from load_client_new() on */
  int to, from;        /* connected sockets; may be the same one */
  struct load_form in; /* of the frames that are sent */
  struct load_form out;
};

enum load_transport { LOAD_ANY, LOAD_SHARED, LOAD_STREAM };

struct load_native_wire { /* to a native pipeline */
  const char *source;
  const char *sink; /* empty: results come back on the producer's connection */
  enum load_transport transport;
  bool spin;
};

/* What was seen; sums over several clients by load_client_figures(). */
struct load_figures {
  uint64_t sent, received;      /* all frames */
  uint64_t offered, answered;   /* those that are measured, and the results that came of them */
  uint64_t arrived;             /* results that came between `from` and `to` */
  uint64_t disordered;          /* results that came after a later one */
  bool shared;                  /* some were in memory shared with the daemon */
  bool by_order;                /* some results bear no stamp, so that they were counted */
  struct histogram_view ns;     /* latency of the answered */
  struct histogram_view lag_ns; /* how late the writer itself woke up */
  int64_t max_ns;
};

struct load_client;

/* NULL on a problem; the descriptors are closed then. */
struct load_client *load_client_new(const struct load_wire *wire, struct problem *problem);
/* Connects by itself; see load_native.h. */
struct load_client *load_client_new_native(const struct load_native_wire *wire, struct problem *problem);
bool load_client_start(struct load_client *client, const struct load_pace *pace, struct problem *problem);
/* Whether a connection broke, so that there is nothing to wait for. */
bool load_client_is_broken(const struct load_client *client);
/* Waits for the writer, which ends after pace.to; with `hurry` at once. */
void load_client_send_out(struct load_client *client, bool hurry);
/* Ends the reader once all frames have come back, or once the connection is silent for a moment. */
void load_client_finish(struct load_client *client);
/* Adds to `figures`. False if a connection broke or its bytes made no sense. */
bool load_client_figures(const struct load_client *client, struct load_figures *figures, struct problem *problem);
struct load_client *load_client_free(struct load_client *client); /* NULL is fine; returns NULL */

#endif
