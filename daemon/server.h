/*
 * The daemon as a whole: configuration, devices, lanes, pipelines, and what may be asked of them at run time.
 * Everything here belongs to the control loop (the main thread); status and signals call it.
 */
#ifndef FRAMED_DAEMON_SERVER_H
#define FRAMED_DAEMON_SERVER_H

#include "config/config.h"
#include "daemon/answer.h"
#include "daemon/pipeline.h"

struct server;

void server_reload(struct server *server, server_answer *answer, void *context);

/* DRAIN answers when nothing is in flight, or with 504 and what it waits for after `drain_timeout`. 404 with the
 * names there are, for a name that is not. */
void server_command(struct server *server, const char *pipeline, enum pipeline_command command, server_answer *answer,
                    void *context);

struct server_view {
  const char *version;
  double uptime_s;
  const char *backend, *device;
  const struct config *config; /* the one in force */
  unsigned pipeline_count;
  unsigned lanes;
  uint64_t reloads, reload_failures;
  bool stopping;
};

void server_read(const struct server *server, struct server_view *view);
struct pipeline *server_pipeline(const struct server *server, unsigned index); /* in order of the configuration */
uv_loop_t *server_loop(struct server *server);

#endif
