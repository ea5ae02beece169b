/* Requests to the daemon: its documents and commands. */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_DAEMON_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_DAEMON_H

#include <jansson.h>

#include "tools/framectl/common/http.h"

enum { DAEMON_PATIENCE_MS = 10000 };

/* A document as text; the caller frees it. NULL with a problem. */
char *daemon_text(const char *socket, const char *path, int timeout_ms, struct problem *problem);
/*
 * Receives a long document in pieces. `idle` is called with the same context while no data comes. False with a problem, whose
 * text is generic if `receive` ended the transfer.
 */
bool daemon_stream(const char *socket, const char *path, int timeout_ms, reply_receiver *receive, http_idle *idle,
                   void *context, struct problem *problem);
/* /v1/status; release with json_decref(). NULL with a problem. */
json_t *daemon_status(const char *socket, int timeout_ms, struct problem *problem);
/* /v1/health, healthy or not; release with json_decref(). NULL with a problem. */
json_t *daemon_health(const char *socket, int timeout_ms, struct problem *problem);
/*
 * Posts a command for a pipeline, or for the daemon if `pipeline` is NULL. With timeout -1 it waits without limit and shows
 * that it waits.
 */
json_t *daemon_command(const char *socket, const char *pipeline, const char *command, int timeout_ms, struct problem *problem);

/* The process that listens at the socket, if it is framed on this machine; 0: unknown. */
int daemon_pid(const char *socket);

#endif
