/*
 * What the routes of the status server share (routes.c). status.c has the table, routes_frames.c the routes that show frames
 * (traces and pictures).
 */
#ifndef FRAMED_STATUS_ROUTES_H
#define FRAMED_STATUS_ROUTES_H

#include "daemon/status/http.h"
#include "daemon/status/status_ops.h"
#include "daemon/status/viewer.h"

enum { NAME_LIMIT = 64 };

struct status {
  const struct status_ops *ops;
  struct http *http;
  bool read_only;
  struct viewer viewer; /* of the request that is being handled */
  void (*done)(void *context);
  void *done_context;
};

struct route {
  const char *method, *path; /* NAME stands for one segment */
  void (*answer)(struct status *status, struct http_request *request, const struct route *route, const char *name);
  int detail; /* of commands which, of pictures the side */
};

/* NULL: there is none of that name. */
struct pipeline *routes_find_pipeline(const struct status *status, const char *name);
/* Says that the viewer may not see the pipeline of that name. */
void routes_answer_hidden(struct status *status, struct http_request *request, const char *name);
/* A whole number up to `most`; `usual` if it was not given. False: it is none. */
bool routes_parse_number(const char *text, unsigned most, unsigned usual, unsigned *number);
/* Whether the client of the request, which is the context, still waits. */
bool routes_is_wanted(void *context);

/* routes_frames.c */
void routes_trace(struct status *status, struct http_request *request, const struct route *route, const char *name);
void routes_picture(struct status *status, struct http_request *request, const struct route *route, const char *name);
void routes_live_view(struct status *status, struct http_request *request, const struct route *route, const char *name);

#endif
