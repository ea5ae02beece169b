/*
 * What happens every few seconds while the daemon runs: readings for rates, workers that stand by, the log's counts of what it
 * left out, systemd's status line, and systemd's watchdog, which is fed as long as there is progress. Where the service manager
 * keeps the state, the heartbeat and what is noted of it as well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/measure/meter.h"
#include "daemon/server/private.h"
#include "daemon/state/fd_store.h"

enum { FLUSH_MS = 10000, HEARTBEAT_MS = 20 };

struct supervision {
  struct loop_timer *tick, *flush, *watchdog;
  struct loop_timer *heartbeat; /* the heartbeat; NULL: there is no fd store */
  struct loop_hook *noted;      /* what is noted of it; likewise */
  int64_t interval;             /* of systemd's watchdog, ns */
  int64_t warned;               /* the gpu.timeout that was said to be longer than the interval */
  char status[256];
};

/* -- devices --------------------------------------------------------------------------------------------------- */

/* Memory of its own, since a set-up thread may wait for a worker for longer than supervision lives. */
struct attending {
  struct server *server;
  enum config_standby standby;
  bool stands;
  struct gpu_error error;
};

static void attend(void *context) {
  struct attending *attending = context;
  attending->stands = engine_stand_by(attending->server->engine, attending->standby, &attending->error);
}

static void on_attended(void *context) {
  struct attending *attending = context;
  attending->server->attending = false;
  if (!attending->stands) {
    log_event(LOG_DEVICE, NULL, "no worker stands by, so that a fault costs more time: %s%s%s", attending->error.text,
              attending->error.remedy[0] ? "; " : "", attending->error.remedy);
  }
  free(attending);
}

/* One at a time. */
static void renew_a_worker(struct server *server) {
  for (unsigned i = 0; i < engine_devices(server->engine) && !recoveries_are_at_work(server); i++) {
    const unsigned number = engine_device_number(server->engine, i);
    if (engine_may_renew(server->engine, number, server->config->gpu.standby)) {
      server_renew_worker(server, number);
    }
  }
}

static void attend_devices(struct server *server) {
  server->report(server, SERVER_FAULT, NULL); /* should one have been lost before anybody listened */
  bool may = server->phase == SERVER_RUNNING && !server->reload && !server->attending && !recoveries_are_at_work(server);
  if (may) {
    renew_a_worker(server);
  }
  struct attending *attending = may && !recoveries_are_at_work(server) ? calloc(1, sizeof *attending) : NULL;
  if (attending) { /* else the next tick tries again */
    *attending = (struct attending){.server = server, .standby = server->config->gpu.standby};
    server->attending = loop_job(&server->loop, attend, on_attended, attending);
    if (!server->attending) {
      free(attending);
    }
  }
}

/* -- readings -------------------------------------------------------------------------------------------------- */

/* Writes the status line; true: it is another one than was said last. */
static bool supervision_describe(struct server *server) {
  char text[sizeof server->supervision->status];
  unsigned running = 0;
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    running += pipeline_state(server->pipelines[i]) == PIPELINE_RUNNING;
  }
  snprintf(text, sizeof text, "%u of %u pipelines running on %s", running, server->pipeline_count,
           device_name(engine_main_device(server->engine)));
  bool differs = strcmp(text, server->supervision->status) != 0;
  memcpy(server->supervision->status, text, sizeof text);
  return differs;
}

void supervision_say_ready(struct server *server) {
  supervision_describe(server);
  systemd_ready(server->supervision->status);
}

/* At every tick, since a reload may change gpu.timeout. */
static void compare_limits(struct server *server) {
  struct supervision *supervision = server->supervision;
  int64_t timeout = server->config->gpu.timeout_ns;
  if (supervision->interval > 0 && timeout > supervision->interval && timeout != supervision->warned) {
    supervision->warned = timeout;
    log_event(LOG_WATCHDOG, NULL,
              "gpu.timeout (%.3g s) is longer than WatchdogSec (%.3g s): systemd may kill the daemon for a frame that may take "
              "that long; raise WatchdogSec, or lower gpu.timeout",
              (double)timeout / (double)NS_PER_S, (double)supervision->interval / (double)NS_PER_S);
  }
}

/* What a reload has put in force stays so: a pipeline that could not start yet is tried until it does. */
static void start_late(struct server *server) {
  struct failure failure;
  for (unsigned i = 0; server->phase == SERVER_RUNNING && !server->reload && i < server->pipeline_count; i++) {
    struct pipeline *pipeline = server->pipelines[i];
    if (pipeline_state(pipeline) == PIPELINE_STARTING && pipeline_start(pipeline, &failure)) {
      log_event(LOG_RESUMED, pipeline_config(pipeline)->name, "runs now");
      server_note(server);
    }
  }
}

static void on_tick(void *context) {
  struct server *server = context;
  processors_look(engine_processors(server->engine));
  for (unsigned i = 0; i < server->pipeline_count; i++) {
    pipeline_tick(server->pipelines[i]);
  }
  attend_devices(server);
  systemd_flush();
  start_late(server);
  if (server->phase == SERVER_RUNNING && !server->reload) {
    status_socket_follow(server);
    http_address_follow(server);
  }
  fd_store_try_again();
  compare_limits(server);
  if (server->phase == SERVER_RUNNING && !server->reload && supervision_describe(server)) {
    systemd_status(server->supervision->status);
  }
}

static void on_flush(void *context) {
  (void)context;
  log_flush();
}

static void on_heartbeat(void *context) { server_beat(context); }

static void on_turn(void *context) { server_note_state(context); }

/* -- the watchdog ---------------------------------------------------------------------------------------------- */

/* The watchdog is fed as long as /v1/live says that all moves: no restart mends a camera that is silent, or a disk that is
 * full. A device's fault is found and answered long before it bites. */
static void on_watchdog(void *context) {
  struct server *server = context;
  struct health *health = server_health(server);
  if (health && health->live) {
    systemd_watchdog();
  }
  free(health);
}

/* -- all of it ------------------------------------------------------------------------------------------------- */

bool supervision_start(struct server *server) {
  struct supervision *supervision = calloc(1, sizeof *supervision);
  server->supervision = supervision;
  if (!supervision) {
    return false;
  }
  supervision->interval = systemd_watchdog_interval();
  supervision->tick = loop_timer_new(&server->loop, on_tick, server);
  supervision->flush = loop_timer_new(&server->loop, on_flush, NULL);
  supervision->watchdog = loop_timer_new(&server->loop, on_watchdog, server);
  if (!supervision->tick || !supervision->flush || !supervision->watchdog) {
    return false;
  }
  if (systemd_keeps() > 0) {
    supervision->heartbeat = loop_timer_new(&server->loop, on_heartbeat, server);
    supervision->noted = loop_hook_new(&server->loop, on_turn, server);
    if (!supervision->heartbeat || !supervision->noted) {
      return false;
    }
    loop_timer_start(supervision->heartbeat, 0, HEARTBEAT_MS);
  }
  loop_timer_start(supervision->tick, METER_INTERVAL_MS, METER_INTERVAL_MS);
  loop_timer_start(supervision->flush, FLUSH_MS, FLUSH_MS);
  compare_limits(server);
  if (supervision->interval > 0) {
    uint64_t quarter = (uint64_t)(supervision->interval / 4 / NS_PER_MS);
    loop_timer_start(supervision->watchdog, 0, quarter > 0 ? quarter : 1);
  }
  return true;
}

void supervision_stop(struct server *server) {
  struct supervision *supervision = server->supervision;
  if (!supervision) {
    return;
  }
  loop_timer_close(supervision->tick);
  loop_timer_close(supervision->flush);
  loop_timer_close(supervision->watchdog);
  loop_timer_close(supervision->heartbeat);
  loop_hook_close(supervision->noted);
  free(supervision);
  server->supervision = NULL;
}
