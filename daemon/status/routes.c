#include "daemon/status/routes.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/status/reply.h"

struct pipeline *routes_find_pipeline(const struct status *status, const char *name) {
  struct server_view view;
  status->ops->read(status->ops->server, &view);
  for (unsigned i = 0; i < view.pipeline_count; i++) {
    struct pipeline *pipeline = status->ops->pipeline(status->ops->server, i);
    if (strcmp(pipeline_config(pipeline)->name, name) == 0) {
      return pipeline;
    }
  }
  return NULL;
}

void routes_answer_hidden(struct status *status, struct http_request *request, const char *name) {
  struct server_view view;
  status->ops->read(status->ops->server, &view);
  json_t *remedy = status->read_only ? json_sprintf("send the token of status.token, or ask at the Unix socket %s",
                                                    view.config->status.socket)
                                     : json_string("ask as a user who may connect to the pipeline's sockets");
  reply_json(request, 403,
             json_pack("{s:o, s:o}", "error", json_sprintf("the sockets of pipeline '%s' are not for this client", name),
                       "remedy", remedy),
             NULL);
}

bool routes_parse_number(const char *text, unsigned most, unsigned usual, unsigned *number) {
  *number = usual;
  if (!text) {
    return true;
  }
  if (!text[0] || strspn(text, "0123456789") != strlen(text) || strlen(text) > 6) {
    return false;
  }
  *number = (unsigned)strtoul(text, NULL, 10);
  return *number <= most;
}

bool routes_is_wanted(void *context) { return !http_client_left(context); }
