/*
 * Signals as events of the control loop: TERM and INT end, HUP reloads, USR1 writes the state to the log, USR2 upgrades.
 */
#include <signal.h>
#include <stdlib.h>

#include "daemon/log.h"
#include "daemon/server_state.h"

static const int wanted[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
enum { WANTED = sizeof wanted / sizeof *wanted };

struct signals {
  uv_signal_t handles[WANTED];
  unsigned open; /* handles that libuv still has */
};

static void dump_pipeline(const char *name, json_t *document) {
  char *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(9));
  log_event(LOG_STATE_DUMP, name, "%s", text ? text : "not enough memory to write the state");
  free(text);
}

static void dump_state(struct server *server) {
  json_t *document = server->phase == SERVER_RUNNING ? status_document(server) : NULL;
  if (!document) {
    log_event(LOG_STATE_DUMP, NULL, "there is no state to write at the moment");
    return;
  }
  const char *name;
  json_t *pipeline;
  json_object_foreach(json_object_get(document, "pipelines"), name, pipeline) { dump_pipeline(name, pipeline); }
  json_object_del(document, "pipelines");
  dump_pipeline(NULL, document);
  json_decref(document);
}

static void on_signal(uv_signal_t *handle, int number) {
  struct server *server = handle->data;
  switch (number) {
  case SIGHUP:
    server_reload(server, answer_nobody, NULL);
    break;
  case SIGUSR2:
    server_upgrade(server, answer_nobody, NULL);
    break;
  case SIGUSR1:
    dump_state(server);
    break;
  default:
    server_stop(server, number == SIGTERM ? "SIGTERM" : "SIGINT");
    break;
  }
}

bool signals_open(struct server *server, struct failure *failure) {
  server->signals = calloc(1, sizeof *server->signals);
  int status = server->signals ? 0 : UV_ENOMEM;
  for (unsigned i = 0; i < WANTED && status == 0; i++) {
    uv_signal_t *handle = &server->signals->handles[i];
    status = uv_signal_init(&server->loop, handle);
    if (status == 0) {
      server->signals->open++;
      handle->data = server;
      status = uv_signal_start(handle, on_signal, wanted[i]);
    }
  }
  return status == 0 || failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "cannot handle signals: %s", uv_strerror(status));
}

static void on_closed(uv_handle_t *handle) {
  struct signals *signals = handle->data;
  if (--signals->open == 0) {
    free(signals);
  }
}

void signals_close(struct server *server) {
  struct signals *signals = server->signals;
  server->signals = NULL;
  if (!signals || signals->open == 0) {
    free(signals);
    return;
  }
  unsigned count = signals->open;
  for (unsigned i = 0; i < count; i++) {
    signals->handles[i].data = signals;
    uv_close((uv_handle_t *)&signals->handles[i], on_closed);
  }
}
