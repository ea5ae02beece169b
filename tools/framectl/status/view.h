/*
 * The figures of /v1/status. Strings belong to the document. Missing figures are 0 or "", so that documents of older and newer
 * daemons are shown as far as possible.
 */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_VIEW_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_VIEW_H

#include <jansson.h>
#include <stdint.h>

#include "daemon/measure/ledger.h"
#include "daemon/measure/overlap.h"
#include "tools/framectl/common/problem.h"

struct end_view { /* the frames' source or the results' sink */
  const char *socket, *file, *url, *protocol, *format;
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
  uint64_t slots;   /* slots that can be on the device at once, of all sessions */
  uint64_t devices; /* that many on each device */
  uint64_t kernels_at_once;
  bool has_services; /* daemons of earlier versions send none */
};

struct refusal_view {        /* the last client that was refused */
  const char *text, *remedy; /* "": no refusal, or no remedy */
  double age_s;
};

enum { VIEW_MOST_INSTANCES = 64 };

struct model_view {
  const char *file; /* "": no model */
  unsigned instances;
  uint64_t served[VIEW_MOST_INSTANCES]; /* frames of each instance */
  uint64_t batches, batched;            /* batches, and their frames */
};

struct pipeline_view {
  const char *name, *waiting;
  const char *state; /* or the reason of a degraded pipeline, from health */
  bool is_degraded;
  uint64_t slots, sessions, clients, readers, missed, refused;
  bool not_read;  /* a client with a `reply` sink does not read its results */
  bool is_silent; /* no frame comes although one should */
  bool graph, copies_by_kernel;
  uint64_t timed_one_in;
  struct refusal_view refusal;
  struct end_view source, sink;
  uint64_t in, in_flight, fates[FATE_COUNT];
  double in_fps, out_fps, in_bytes_per_s, out_bytes_per_s, window_s;
  double last_in_s, last_out_s; /* seconds since the last frame and the last result; negative: none yet */
  struct latency_view latency[STEP_COUNT];
  struct overlap_view overlap;
  struct model_view model;
};

/* How often a new process image took over, and the last time. */
struct handovers_view {
  uint64_t total, upgrades;
  const char *cause, *text; /* of the last handover; "": none */
  double gap_ms, longest_ms;
  uint64_t connections_lost; /* by killed processes */
  bool upgrading;
  const char *refused; /* why the last upgrade was refused, or "" */
};

struct daemon_view {
  const char *version, *backend, *device;
  double uptime_s;
  uint64_t lanes;
  const char *http_refused;   /* why status.http does not listen, or "" */
  const char *reload_refused; /* why the last reload was refused, or "" */
  struct handovers_view handovers;
};

void view_daemon(const json_t *document, struct daemon_view *view);
void view_pipeline(const char *name, const json_t *document, struct pipeline_view *view);
/* Finds the pipeline of that name. False with a problem that lists all names. */
bool view_find(json_t *document, const char *name, struct pipeline_view *view, struct problem *problem);
/* Lists the causes of handovers: "fault 2, upgrade 1". */
const char *view_causes(const json_t *document, char *text, size_t room);
/* Whether a client was refused so recently that the user may be looking for the reason. */
bool view_refused_lately(const struct pipeline_view *view);
uint64_t view_dropped(const struct pipeline_view *view); /* all fates except emitted */

#endif
