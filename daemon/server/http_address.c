/*
 * The address of status.http: served as the configuration in force says, which a reload may change. A port that another program
 * has is no reason to end, nor to refuse a configuration: it is tried again at every tick, and the log says so once.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/server/private.h"

static void on_http_left(void *context) {
  struct server *server = context;
  server->http = NULL;
  server->http_leaves = false;
  http_address_follow(server);
}

/* Whether nobody listens at another address any more. */
static bool is_left(struct server *server) {
  const char *wanted = server->config->status.http;
  if (!server->http_listener || (wanted && strcmp(listener_path(server->http_listener), wanted) == 0)) {
    return true;
  }
  if (server->http && !server->http_leaves) {
    server->http_leaves = true;
    status_close(server->http, on_http_left, server);
  }
  if (!server->http) {
    server->http_listener = listener_close(server->http_listener);
  }
  return !server->http_listener;
}

void http_address_open(struct server *server) {
  const char *wanted = server->config->status.http;
  struct failure failure;
  if (!wanted || server->http_listener) {
    return;
  }
  server->http_listener = listener_open_tcp(wanted, &failure);
  if (server->http_listener) {
  } else if (strcmp(server->http_refusal, failure.text) != 0) {
    snprintf(server->http_refusal, sizeof server->http_refusal, "%s", failure.text);
    log_event(LOG_HTTP_WAITS, NULL, "status.http does not answer, and is tried again: %s%s%s", failure.text,
              failure.remedy[0] ? "; " : "", failure.remedy);
  }
}

void http_address_follow(struct server *server) {
  struct failure failure;
  if (server->phase > SERVER_RUNNING || server->http_leaves || !is_left(server)) {
    return;
  }
  http_address_open(server);
  if (server->http_listener && !server->http) {
    server->http = status_new(&server->ops, listener_fd(server->http_listener), true, &failure);
  }
  if (server->http && server->http_refusal[0]) {
    log_event(LOG_HTTP_SERVES, NULL, "status.http answers at %s", listener_path(server->http_listener));
  }
  if (server->http || !server->config->status.http) {
    server->http_refusal[0] = '\0';
  }
}

void http_address_close(struct server *server) {
  if (server->http && !server->http_leaves) {
    server->http_leaves = true;
    status_close(server->http, on_http_left, server);
  }
}
