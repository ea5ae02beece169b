/*
 * What of a pipeline a client of the status server may see.
 *
 * A pipeline's sockets say who may use its frames: by `mode`, `owner`, `group` and `allow`. Pictures, live views, traces, the
 * configuration, the history and the status of a pipeline follow the same rights. The kernel names the user of a Unix socket. A
 * client of TCP is anybody, unless it has sent the token, which opens everything.
 */
#ifndef FRAMED_STATUS_VIEWER_H
#define FRAMED_STATUS_VIEWER_H

#include "config/config.h"
#include "daemon/client/peer.h"
#include "daemon/status/http.h"

struct viewer {
  bool sees_all; /* root, the daemon's own user, or a client with the token */
  bool is_known; /* a user of the Unix socket: `peer` */
  struct peer peer;
};

/* Within a request's handler. viewer_clear() follows. */
void viewer_read(struct viewer *viewer, const struct http_request *request, bool has_token);
void viewer_clear(struct viewer *viewer);

/* Pictures of what comes in need the rights of the source's socket, pictures of results those of the sink's. */
bool viewer_sees_side(const struct viewer *viewer, const struct config_pipeline *pipeline, bool out);
/* The rest: a known user may use one of the sockets; anybody may only if both are open to all. */
bool viewer_sees(const struct viewer *viewer, const struct config_pipeline *pipeline);
/* The text of the configuration without the pipelines that the viewer may not see, from malloc(). NULL: no memory. */
char *viewer_config(const struct viewer *viewer, const struct config *config);

#endif
