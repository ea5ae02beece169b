/* The daemon as commands see it: documents that it gives, and commands that it takes. */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_DAEMON_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_DAEMON_H

#include <jansson.h>

#include "tools/framectl/common/http.h"

enum { DAEMON_PATIENCE_MS = 10000 };

/* A document as text, to free; NULL with a problem. */
char *daemon_text(const char *socket, const char *path, int timeout_ms, struct problem *problem);
/* A document that may be long, in pieces; false with a problem, which says little if it was the taker who gave up. `waiter` is
 * called with the same context while nothing comes. */
bool daemon_stream(const char *socket, const char *path, int timeout_ms, reply_taker *taker, http_waiter *waiter, void *context,
                   struct problem *problem);
/* /v1/status, to release with json_decref(); NULL with a problem. */
json_t *daemon_status(const char *socket, int timeout_ms, struct problem *problem);
/* /v1/health, well or not, to release with json_decref(); NULL with a problem. */
json_t *daemon_health(const char *socket, int timeout_ms, struct problem *problem);
/* POST a command of the pipeline or, if that is NULL, of the daemon. -1: waits as long as the daemon does, and shows that. */
json_t *daemon_command(const char *socket, const char *pipeline, const char *command, int timeout_ms, struct problem *problem);

/* The process that listens at the socket, if it is framed on this machine; 0: unknown. */
int daemon_pid(const char *socket);

#endif
