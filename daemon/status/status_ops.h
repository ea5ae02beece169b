/*
 * What status, metrics and traces ask of the daemon: a table of functions that the daemon fills in, so that nothing here calls
 * what lies above it, and a test can stand in for a daemon. Control loop only.
 */
#ifndef FRAMED_STATUS_STATUS_OPS_H
#define FRAMED_STATUS_STATUS_OPS_H

#include <uv.h>

#include "config/config.h"
#include "daemon/base/answer.h"
#include "daemon/measure/health.h"
#include "daemon/measure/history.h"
#include "daemon/pipeline/pipeline.h"

struct server; /* the daemon, as it is known here */
struct trace;

struct server_view {
  const char *version;
  double uptime_s;
  const char *backend, *device;
  struct gpu_lacks lacks;
  const struct config *config; /* the one in force */
  unsigned pipeline_count, device_count;
  unsigned lanes;
  uint64_t reloads, reload_failures;
  const char *reload_refusal; /* why the last reload was none, or NULL */
  const struct history *history;
  const char *http_refusal; /* why nobody answers at status.http, or NULL */
  bool upgrading;
  const char *refusal; /* why the last upgrade was none, or NULL */
  bool stopping;
};

struct device_view {
  unsigned number;
  const char *name, *address; /* of PCI; "" without */
  bool lost;
  const char *state;     /* "open", or why it is left out, */
  const char *text;      /* in a sentence, */
  int64_t since;         /* and since when: CLOCK_MONOTONIC ns; 0: it is open */
  unsigned producers;    /* connected to sessions on it */
  const double *figures; /* NVML_FIGURES of gpu/record/figures.h; NULL: nothing is known */
  pid_t worker;          /* the process that serves it now; 0: none */
  const struct worker_history *workers;
  pid_t standby;          /* the process that would take its place; 0: none, */
  const char *standby_is; /* and how far it is: warm or bare */
};

/* What the process has of the machine, so that a leak shows long before it hurts: on a healthy daemon none of these figures
 * grows with the number of frames, or of clients that came and went. */
struct usage {
  size_t resident_bytes;             /* memory of the process, pinned memory included; 0: the kernel does not say */
  size_t descriptors;                /* open files; 0 likewise */
  size_t pinned_bytes, device_bytes; /* registered with devices, and allocated on them */
};

enum device_command { DEVICE_DRAIN, DEVICE_RESUME };

struct device_order {
  unsigned number;
  enum device_command command;
  server_answer *answer;
  void *context;
};

struct command_order {
  const char *pipeline;
  enum pipeline_command command;
  bool (*wanted)(void *context); /* asked before an order that had to wait is obeyed; false: it is not */
  server_answer *answer;
  void *context;
};

/* A trace that is asked for. One of `ready`, which takes the laid out trace, and `failed` is called once, at once or later. */
struct trace_order {
  int64_t duration_ns;
  bool (*wanted)(void *context); /* asked now and then: false cancels it */
  void (*ready)(void *context, struct trace *trace);
  server_answer *failed;
  void *context;
};

/* A picture that is asked for. One of `ready`, which takes a JPEG file from malloc(), and `failed` is called once, at once or
 * later; `failed` with 204 where no result came for two seconds. */
struct picture_order {
  const char *pipeline; /* only within the call */
  unsigned producer;    /* the place of the producer whose frames it shows, from 0 */
  enum picture_side side;
  unsigned width; /* of the file at most; 0: the frame's */
  bool heat;      /* numbers as a map of heat */
  bool live;      /* for one of those that watch, who are counted elsewhere */
  void (*ready)(void *context, unsigned char *file, size_t length);
  server_answer *failed;
  void *context;
};

struct status_ops {
  struct server *server; /* the first argument of each */
  uv_loop_t *loop;
  unsigned *live_viewers; /* of all addresses together */
  void (*read)(const struct server *server, struct server_view *view);
  void (*device)(const struct server *server, unsigned index, struct device_view *view); /* open ones first */
  void (*usage)(const struct server *server, struct usage *usage);
  struct health *(*health)(const struct server *server);                     /* the caller's to free; NULL: no memory */
  struct pipeline *(*pipeline)(const struct server *server, unsigned index); /* in order of the configuration */
  void (*reload)(struct server *server, server_answer *answer, void *context);
  void (*upgrade)(struct server *server, server_answer *answer, void *context);
  void (*command)(struct server *server, const struct command_order *order);
  void (*device_command)(struct server *server, const struct device_order *order);
  void (*trace)(struct server *server, const struct trace_order *order);
  void (*picture)(struct server *server, const struct picture_order *order);
};

#endif
