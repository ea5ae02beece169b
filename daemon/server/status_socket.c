/*
 * The socket of status. Another daemon that has it ends this one before any memory is taken. Where the machine cannot make it
 * for now, pipelines run without it, and it is tried again at every tick.
 */
#include "daemon/base/log.h"
#include "daemon/server/private.h"

static const struct config_socket_access access_rights = {.mode = 0660, .owner = (uid_t)-1, .group = (gid_t)-1};

static bool open_listener(struct server *server, struct failure *failure) {
  server->status_listener = listener_open("status", server->config->status.socket, &access_rights, failure);
  return server->status_listener;
}

bool status_socket_open(struct server *server, struct failure *failure) {
  if (open_listener(server, failure)) {
    return true;
  }
  const bool passes = failure->passes && failure->status != EXIT_STATUS_CONFIG;
  if (passes) {
    log_event(LOG_HTTP_WAITS, NULL, "status does not answer, and is tried again: %s; %s", failure->text, failure->remedy);
  }
  return passes;
}

bool status_socket_serve(struct server *server, struct failure *failure) {
  struct failure why;
  if (server->status || !server->status_listener) {
    return true;
  }
  if (!listener_begin(server->status_listener, &access_rights, &why)) {
    log_event(LOG_FAILED, NULL, "somebody has removed the socket '%s', and it stays away: %s",
              listener_path(server->status_listener), why.text);
  }
  server->status = status_new(&server->ops, listener_fd(server->status_listener), false, failure);
  return server->status;
}

void status_socket_follow(struct server *server) {
  struct failure failure;
  if (server->status || (!server->status_listener && !open_listener(server, &failure))) {
    return;
  }
  if (status_socket_serve(server, &failure)) {
    log_event(LOG_HTTP_SERVES, NULL, "status answers at %s", listener_path(server->status_listener));
    server_note(server);
  }
}
