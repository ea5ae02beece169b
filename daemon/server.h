/*
 * The daemon as a whole: configuration, devices, lanes, pipelines, and what may be asked of them at run time.
 * Everything here belongs to the control loop (the main thread); status and signals call it.
 */
#ifndef FRAMED_DAEMON_SERVER_H
#define FRAMED_DAEMON_SERVER_H

#include <signal.h>

#include "config/config.h"
#include "daemon/answer.h"
#include "daemon/pipeline.h"
#include "daemon/usage.h"

struct server;
struct succession;
struct tape;
struct trace;

/* Runs the daemon with `config`, which it takes and which `path` may replace on a reload. `tape` is what a process before this
 * one left, behind the text of its configuration, or NULL; `reload`: the file is to be reloaded at once. Returns when it has
 * ended. */
enum exit_status server_run(const char *path, struct config *config, struct tape *tape, bool reload);
/* The signals that order something of a process that serves. Until server_run() they wait, while TERM and INT end the
 * process. */
void signals_orders(sigset_t *orders);
/* Puts the text on a tape, or takes it from there. */
void server_pass_config(char **text, struct tape *tape);

/* Executes the installed program in place, once that has said that it can take over; answers before that, or with 409 and why
 * not. */
void server_upgrade(struct server *server, server_answer *answer, void *context);

/* Reads the configuration file again and changes what differs, or nothing: 400 with the report of its errors, 409 while
 * the daemon starts, stops or reloads. 200 names the pipelines "added", "removed", "changed" and "unchanged". */
void server_reload(struct server *server, server_answer *answer, void *context);

struct command_order {
  const char *pipeline;
  enum pipeline_command command;
  bool (*wanted)(void *context); /* asked before an order that had to wait is obeyed; false: it is not */
  server_answer *answer;
  void *context;
};

/* RESUME answers at once, PAUSE when no frame is taken any more. DRAIN answers when nothing is in flight, or with 504 and what
 * it waits for after `drain_timeout`, or with 409 if it is resumed before. 404, with the names there are, for an unknown
 * one. */
void server_command(struct server *server, const struct command_order *order);

/* A trace that is asked for. One of `ready`, which takes the laid out trace, and `failed` is called once, at once or later. */
struct trace_order {
  int64_t duration_ns;
  bool (*wanted)(void *context); /* asked now and then: false cancels it */
  void (*ready)(void *context, struct trace *trace);
  server_answer *failed;
  void *context;
};

/* Takes a trace of all sessions. 503 if there are too many at once, or if the daemon ends first. */
void server_trace(struct server *server, const struct trace_order *order);

struct server_view {
  const char *version;
  double uptime_s;
  const char *backend, *device;
  const struct config *config; /* the one in force */
  unsigned pipeline_count;
  unsigned lanes;
  uint64_t reloads, reload_failures;
  const char *reload_refusal; /* why the last reload was none, or NULL */
  const struct succession *succession;
  bool upgrading;
  const char *refusal; /* why the last upgrade was none, or NULL */
  bool stopping;
};

void server_read(const struct server *server, struct server_view *view);
void server_usage(const struct server *server, struct usage *usage);
/* Whether all is well at this moment, to free(); NULL if there is no memory. */
struct health *server_health(const struct server *server);
struct pipeline *server_pipeline(const struct server *server, unsigned index); /* in order of the configuration */
uv_loop_t *server_loop(struct server *server);

#endif
