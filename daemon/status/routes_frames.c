/* Routes that show frames: traces, pictures and live views. Each asks first whether the client may see them. */
#include "daemon/status/routes.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/status/live.h"
#include "daemon/status/reply.h"
#include "daemon/status/trace_text.h"

/* -- traces --------------------------------------------------------------------------------------------------------- */

#define SHORTEST_TRACE 0.1
#define LONGEST_TRACE  60.0
#define USUAL_TRACE    2.0

/* Digits with at most one point. False: that is no duration of a trace. */
static bool parse_seconds(const char *text, double *seconds) {
  char *end;
  if (!text) {
    *seconds = USUAL_TRACE;
    return true;
  }
  if (strspn(text, "0123456789.") != strlen(text) || strlen(text) > NAME_LIMIT) {
    return false;
  }
  *seconds = strtod(text, &end);
  return end != text && *end == '\0' && *seconds >= SHORTEST_TRACE && *seconds <= LONGEST_TRACE;
}

static size_t read_trace(void *context, char *bytes, size_t room) { return trace_text_read(context, bytes, room); }

static void free_trace(void *context) { trace_text_free(context); }

static void on_trace(void *context, struct trace *trace) {
  struct http_answer answer = {.status = 200, .type = "application/json"};
  struct trace_text *text = trace_text_new(trace);
  if (text) {
    answer.stream = (struct http_stream){.read = read_trace, .free = free_trace, .context = text};
  }
  http_answer(context, &answer);
}

/* A trace has the frames of all pipelines. */
static const struct config_pipeline *find_hidden(const struct status *status) {
  struct server_view view;
  status->ops->read(status->ops->server, &view);
  for (unsigned i = 0; i < view.pipeline_count; i++) {
    const struct config_pipeline *config = pipeline_config(status->ops->pipeline(status->ops->server, i));
    if (!viewer_sees(&status->viewer, config)) {
      return config;
    }
  }
  return NULL;
}

void routes_trace(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route, (void)name;
  double seconds;
  const struct config_pipeline *hidden = find_hidden(status);
  if (hidden) {
    routes_answer_hidden(status, request, hidden->name);
  } else if (!parse_seconds(http_argument(request, "seconds"), &seconds)) {
    reply_json(request, 400, answer_error_document("seconds is a number from 0.1 to 60", "ask for /v1/trace?seconds=2"), NULL);
  } else if (http_is(request, "HEAD")) {
    reply_text(request, 200, "application/json", strdup(""), NULL);
  } else {
    const struct trace_order order = {.duration_ns = (int64_t)(seconds * (double)NS_PER_S),
                                      .wanted = routes_is_wanted,
                                      .ready = on_trace,
                                      .failed = reply_later,
                                      .context = request};
    status->ops->trace(status->ops->server, &order);
  }
}

/* -- pictures ------------------------------------------------------------------------------------------------------- */

enum { WIDEST = FORMAT_MAX_SIDE, USUAL_WIDTH = 640, MOST_PRODUCERS = 1024 };

static void on_picture(void *context, unsigned char *file, size_t length) {
  struct http_answer answer = {.status = 200, .type = "image/jpeg", .body = (char *)file, .length = length};
  http_answer(context, &answer);
}

static bool parse_side(const char *text, enum picture_side *side) {
  *side = text && strcmp(text, "in") == 0 ? PICTURE_IN : PICTURE_OUT;
  return !text || *side == PICTURE_IN || strcmp(text, "out") == 0;
}

/* What is asked for, all but the side. False: that was answered. */
static bool parse_picture(struct http_request *request, const char *name, struct picture_order *order) {
  const char *as = http_argument(request, "as");
  *order = (struct picture_order){.pipeline = name, .ready = on_picture, .failed = reply_later, .context = request};
  order->heat = as && strcmp(as, "heat") == 0;
  if ((!as || order->heat) && routes_parse_number(http_argument(request, "width"), WIDEST, USUAL_WIDTH, &order->width) &&
      routes_parse_number(http_argument(request, "client"), MOST_PRODUCERS, 0, &order->producer)) {
    return true;
  }
  reply_json(request, 400,
             answer_error_document("width is a whole number of pixels, client the place of a producer, from 0, and as is heat",
                                   "ask for in.jpg?width=320; a width of 0 is that of the frame"),
             NULL);
  return false;
}

/* False: the viewer may not see that side, and the answer says so. A pipeline that is unknown is somebody else's to refuse. */
static bool shows_side(struct status *status, struct http_request *request, const char *name, enum picture_side side) {
  const struct pipeline *pipeline = routes_find_pipeline(status, name);
  if (pipeline && !viewer_sees_side(&status->viewer, pipeline_config(pipeline), side == PICTURE_OUT)) {
    routes_answer_hidden(status, request, name);
    return false;
  }
  return true;
}

void routes_picture(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  struct picture_order order;
  if (!shows_side(status, request, name, (enum picture_side)route->detail) || !parse_picture(request, name, &order)) {
    return;
  }
  order.side = (enum picture_side)route->detail;
  if (http_is(request, "HEAD")) {
    reply_text(request, 200, "image/jpeg", strdup(""), NULL);
  } else {
    status->ops->picture(status->ops->server, &order);
  }
}

void routes_live_view(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route;
  struct picture_order order;
  if (!parse_picture(request, name, &order)) {
    return;
  }
  if (!parse_side(http_argument(request, "side"), &order.side)) {
    reply_json(request, 400, answer_error_document("side is in or out", "ask for live?side=in"), NULL);
  } else if (!shows_side(status, request, name, order.side)) {
    return;
  } else if (http_is(request, "HEAD")) {
    reply_text(request, 200, LIVE_TYPE, strdup(""), NULL);
  } else {
    live_answer(status->ops, request, &order, status->viewer.sees_all && !status->viewer.is_known);
  }
}
