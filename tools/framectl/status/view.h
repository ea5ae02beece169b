/*
 * /v1/status as plain figures. Strings belong to the document. What a document lacks is 0 or "": a newer or older
 * daemon is shown as far as it is understood.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_VIEW_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_VIEW_H

#include <jansson.h>
#include <stdint.h>

#include "daemon/measure/ledger.h"
#include "daemon/measure/overlap.h"
#include "tools/framectl/common/problem.h"

struct end_view { /* where frames come from, or results go */
  const char *socket, *file, *protocol, *format;
  bool reply;
  uint64_t frame_bytes;
};

struct latency_view { /* microseconds */
  double p50, p99, p999, max, mean;
  uint64_t count;
};

struct overlap_view { /* of the last ten seconds */
  double ratio, speedup, ideal_speedup, gain;
  double service_us[OVERLAP_ENGINES], succession_us[OVERLAP_ENGINES], alone_us, turnaround_us, host_us; /* see overlap.h */
  const char *bound_by, *advice, *improve;
  uint64_t slots;   /* that can be on the device at once, of all sessions: */
  uint64_t devices; /* on each of so many */
  uint64_t kernels_at_once;
  bool has_services; /* a daemon of before says none */
};

struct refusal_view {        /* the last client that was turned away */
  const char *text, *remedy; /* "": there was none, or no remedy */
  double age_s;
};

enum { VIEW_MOST_INSTANCES = 64 };

struct model_view {
  const char *file; /* "": there is none */
  unsigned instances;
  uint64_t served[VIEW_MOST_INSTANCES]; /* frames of each */
  uint64_t batches, batched;            /* and the frames in these */
};

struct pipeline_view {
  const char *name, *waiting;
  const char *state; /* or why it does not do its job: what health says */
  bool is_degraded;
  uint64_t slots, sessions, clients, readers, missed, refused;
  bool not_read;  /* a client that gets its results on the connection of its frames does not take them */
  bool is_silent; /* no frame comes, and one should */
  bool graph, copies_by_kernel;
  uint64_t timed_one_in;
  struct refusal_view refusal;
  struct end_view source, sink;
  uint64_t in, in_flight, fates[FATE_COUNT];
  double in_fps, out_fps, in_bytes_per_s, out_bytes_per_s, window_s;
  double last_in_s, last_out_s; /* how long ago a frame came in, or went out; less than 0: none has yet */
  struct latency_view latency[STEP_COUNT];
  struct overlap_view overlap;
  struct model_view model;
};

/* How often one process image took over from another, and the last time. */
struct handovers_view {
  uint64_t total, upgrades;
  const char *cause, *text; /* of the last one; "": there was none */
  double gap_ms, longest_ms;
  uint64_t connections_lost; /* by processes that were killed */
  bool upgrading;
  const char *refused; /* why the last upgrade was none, or "" */
};

struct daemon_view {
  const char *version, *backend, *device;
  double uptime_s;
  uint64_t lanes;
  const char *http_refused;   /* why nobody answers at status.http, or "" */
  const char *reload_refused; /* why the last reload was none, or "" */
  struct handovers_view handovers;
};

void view_daemon(const json_t *document, struct daemon_view *view);
void view_pipeline(const char *name, const json_t *document, struct pipeline_view *view);
/* The pipeline of that name; false with a problem that lists the names there are. */
bool view_find(json_t *document, const char *name, struct pipeline_view *view, struct problem *problem);
/* "fault 2, upgrade 1": the causes there were. */
const char *view_causes(const json_t *document, char *text, size_t room);
/* Whether a client was turned away so lately that whoever looks may be looking for that. */
bool view_refused_lately(const struct pipeline_view *view);
uint64_t view_dropped(const struct pipeline_view *view); /* all fates but emitted */

#endif
