/*
 * The routes of the status socket and what each of them answers.
 *
 * What always holds: a request is answered once, with JSON {"error", "remedy"} if it failed; only the Unix socket
 * takes commands; a route asks the daemon and never a pipeline's sessions.
 */
#include "daemon/status/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/status/access.h"
#include "daemon/status/links.h"
#include "daemon/status/reply.h"
#include "daemon/status/routes.h"

static const struct http_limits limits = {
    .connections = 64, .share = 16, .waiting = 32, .kept = 8, .request_seconds = 5, .idle_seconds = 5, .answer_seconds = 60};

/* -- documents ------------------------------------------------------------------------------------------------------ */

/* The page that a browser gets polls /v1/status and needs nothing from elsewhere. It lies in a file of its own, which the
 * assembler takes in, so that editors and browsers know it as what it is. */
extern const char status_page[];
__asm__(".pushsection .rodata\n"
        ".global status_page\n"
        "status_page:\n"
        ".incbin \"daemon/status/page.html\"\n"
        ".byte 0\n"
        ".popsection\n");

static void answer_page(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)status, (void)route, (void)name;
  reply_text(request, 200, "text/html; charset=utf-8", strdup(status_page), NULL);
}

static void answer_status(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route, (void)name;
  json_t *document = status_document(status->ops, &status->viewer);
  if (document) { /* without it the page would not know whether commands are taken here */
    json_object_set_new(document, "read_only", json_boolean(status->read_only));
  }
  reply_json(request, 200, document, NULL);
}

/* 200 while what was asked for is so, else 503. */
static void answer_judgement(struct status *status, struct http_request *request, bool live_only) {
  struct health *health = status->ops->health(status->ops->server);
  bool good = health && (live_only ? health->live : health->ok);
  reply_json(request, health && !good ? 503 : 200, health ? health_document(health, live_only) : NULL, NULL);
  free(health);
}

static void answer_live(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route, (void)name;
  answer_judgement(status, request, true);
}

static void answer_health(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route, (void)name;
  answer_judgement(status, request, false);
}

static void answer_metrics(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route, (void)name;
  reply_text(request, 200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(status->ops), NULL);
}

static void answer_config(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route, (void)name;
  struct server_view view;
  status->ops->read(status->ops->server, &view);
  reply_text(request, 200, "text/plain; charset=utf-8", viewer_config(&status->viewer, view.config), NULL);
}

/* -- history -------------------------------------------------------------------------------------------------------- */

static void answer_history(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route;
  const struct pipeline *pipeline = routes_find_pipeline(status, name);
  if (pipeline && !viewer_sees(&status->viewer, pipeline_config(pipeline))) {
    routes_answer_hidden(status, request, name);
  } else if (pipeline) {
    reply_json(request, 200, past_document(pipeline_past(pipeline), clock_now()), NULL);
  } else {
    reply_json(request, 404, answer_error_document("there is no such pipeline", NULL), NULL);
  }
}

/* -- commands ------------------------------------------------------------------------------------------------------- */

static void do_reload(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route, (void)name;
  status->ops->reload(status->ops->server, reply_later, request);
}

static void do_upgrade(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route, (void)name;
  status->ops->upgrade(status->ops->server, reply_later, request);
}

/* Who may use none of a pipeline's sockets may not keep others from them either. False: that was answered. */
static bool may_command(struct status *status, struct http_request *request, const char *name) {
  const struct pipeline *pipeline = routes_find_pipeline(status, name);
  if (pipeline && !viewer_sees(&status->viewer, pipeline_config(pipeline))) {
    routes_answer_hidden(status, request, name);
    return false;
  }
  return true;
}

static void do_command(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  if (!may_command(status, request, name)) {
    return;
  }
  const struct command_order order = {.pipeline = name,
                                      .command = (enum pipeline_command)route->detail,
                                      .wanted = routes_is_wanted,
                                      .answer = reply_later,
                                      .context = request};
  status->ops->command(status->ops->server, &order);
}

static void hear_link(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  (void)route;
  if (may_command(status, request, name)) {
    links_answer(request, routes_find_pipeline(status, name));
  }
}

static void do_device(struct status *status, struct http_request *request, const struct route *route, const char *name) {
  enum { MOST = 64 };
  struct device_order order = {.command = (enum device_command)route->detail, .answer = reply_later, .context = request};
  if (routes_parse_number(name, MOST, MOST, &order.number)) {
    status->ops->device_command(status->ops->server, &order);
  } else {
    reply_json(request, 404, answer_error_document("a device is named by its number", "see `devices` in /v1/status"), NULL);
  }
}

static const struct route routes[] = {
    {"GET", "/", answer_page, 0},
    {"GET", "/v1/status", answer_status, 0},
    {"GET", "/v1/live", answer_live, 0},
    {"GET", "/v1/health", answer_health, 0},
    {"GET", "/metrics", answer_metrics, 0},
    {"GET", "/v1/config", answer_config, 0},
    {"GET", "/v1/trace", routes_trace, 0},
    {"GET", "/v1/pipelines/NAME/history", answer_history, 0},
    {"GET", "/v1/pipelines/NAME/in.jpg", routes_picture, PICTURE_IN},
    {"GET", "/v1/pipelines/NAME/out.jpg", routes_picture, PICTURE_OUT},
    {"GET", "/v1/pipelines/NAME/live", routes_live_view, 0},
    {"POST", "/v1/reload", do_reload, 0},
    {"POST", "/v1/upgrade", do_upgrade, 0},
    {"POST", "/v1/devices/NAME/drain", do_device, DEVICE_DRAIN},
    {"POST", "/v1/devices/NAME/resume", do_device, DEVICE_RESUME},
    {"POST", "/v1/pipelines/NAME/pause", do_command, PIPELINE_COMMAND_PAUSE},
    {"POST", "/v1/pipelines/NAME/resume", do_command, PIPELINE_COMMAND_RESUME},
    {"POST", "/v1/pipelines/NAME/drain", do_command, PIPELINE_COMMAND_DRAIN},
    {"POST", "/v1/pipelines/NAME/record", do_command, PIPELINE_COMMAND_RECORD},
    {"POST", "/v1/pipelines/NAME/link", hear_link, 0},
};
enum { ROUTE_COUNT = sizeof routes / sizeof routes[0] };

/* -- routing -------------------------------------------------------------------------------------------------------- */

/* Whether the path is the route's; `name` gets what stands where the route says NAME, or "". */
static bool matches(const struct route *route, const char *path, char name[NAME_LIMIT + 1]) {
  const char *hole = strstr(route->path, "NAME");
  name[0] = '\0';
  if (!hole) {
    return strcmp(path, route->path) == 0;
  }
  size_t prefix = (size_t)(hole - route->path);
  if (strncmp(path, route->path, prefix) != 0) {
    return false;
  }
  size_t length = strcspn(path + prefix, "/");
  if (length == 0 || length > NAME_LIMIT || strcmp(path + prefix + length, hole + strlen("NAME")) != 0) {
    return false;
  }
  memcpy(name, path + prefix, length);
  name[length] = '\0';
  return true;
}

static void answer_unknown(struct http_request *request) {
  json_t *document = answer_error_document("there is nothing at this path", "ask for one of the routes listed here");
  json_t *list = json_array();
  for (int i = 0; i < ROUTE_COUNT; i++) {
    json_array_append_new(list, json_sprintf("%s %s", routes[i].method, routes[i].path));
  }
  json_object_set_new(document, "routes", list);
  reply_json(request, 404, document, NULL);
}

static void answer_wrong_method(struct http_request *request, const struct route *route) {
  bool is_post = strcmp(route->method, "POST") == 0;
  json_t *document = json_pack("{s:o, s:s}", "error", json_sprintf("%s does not take this method", route->path), "remedy",
                               is_post ? "send POST" : "send GET or HEAD");
  reply_json(request, 405, document, is_post ? "POST" : "GET, HEAD");
}

static void answer_read_only(struct status *status, struct http_request *request) {
  struct server_view view;
  status->ops->read(status->ops->server, &view);
  json_t *remedy = json_sprintf("send it to the Unix socket %s, for example by framectl", view.config->status.socket);
  reply_json(request, 403,
             json_pack("{s:s, s:o}", "error", "this address is read-only and takes no commands", "remedy", remedy), NULL);
}

static bool takes(const struct route *route, const struct http_request *request) {
  return http_is(request, route->method) || (http_is(request, "HEAD") && strcmp(route->method, "GET") == 0);
}

/* The token is for TCP: who may use the Unix socket is said by its directory. */
static bool needs_token(const struct status *status) {
  struct server_view view;
  status->ops->read(status->ops->server, &view);
  return status->read_only && view.config->status.token;
}

static enum access judge(struct status *status, const struct http_request *request) {
  const struct access_headers headers = {.host = http_field(request, "Host"),
                                         .origin = http_field(request, "Origin"),
                                         .site = http_field(request, "Sec-Fetch-Site"),
                                         .mode = http_field(request, "Sec-Fetch-Mode"),
                                         .commands = http_is(request, "POST"),
                                         .authorization = http_field(request, "Authorization"),
                                         .cookie = http_cookie(request, "framed_token")};
  struct server_view view;
  status->ops->read(status->ops->server, &view);
  return access_judge(&headers, status->read_only ? view.config->status.token : NULL);
}

static void answer_refused(struct http_request *request, enum access access) {
  static const struct {
    unsigned code;
    const char *error, *remedy;
  } answers[] = {
      [ACCESS_WRONG_HOST] = {403, "this is asked by a name that may be anybody's",
                             "ask by address, by localhost, or by a name without dots; any name does with status.token"},
      [ACCESS_WRONG_ORIGIN] = {403, "another website asks for this", "open this daemon's own page"},
      [ACCESS_NO_TOKEN] = {401, "this needs the token of status.token", "send it as Authorization: Bearer TOKEN"},
      [ACCESS_NO_FILE] = {503, "the file of status.token holds no token, or cannot be read",
                          "put a line of 16 to 256 letters and digits there that the daemon's user may read"},
  };
  reply_json(request, answers[access].code, answer_error_document(answers[access].error, answers[access].remedy), NULL);
}

static void route_request(struct status *status, struct http_request *request, enum access access) {
  for (const struct route *route = routes; route < routes + ROUTE_COUNT; route++) {
    char name[NAME_LIMIT + 1];
    if (!matches(route, http_path(request), name)) {
      continue;
    }
    /* The page says nothing by itself, and asks for the token. */
    if (access != ACCESS_GRANTED && (access < ACCESS_NO_TOKEN || route->answer != answer_page)) {
      answer_refused(request, access);
    } else if (!takes(route, request)) {
      answer_wrong_method(request, route);
    } else if (status->read_only && http_is(request, "POST")) {
      answer_read_only(status, request);
    } else {
      route->answer(status, request, route, name);
    }
    return;
  }
  answer_unknown(request);
}

static void on_request(void *context, struct http_request *request) {
  struct status *status = context;
  enum access access = judge(status, request);
  viewer_read(&status->viewer, request, access == ACCESS_GRANTED && needs_token(status));
  route_request(status, request, access);
  viewer_clear(&status->viewer);
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

struct status *status_new(const struct status_ops *ops, int fd, bool read_only, struct failure *failure) {
  struct status *status = calloc(1, sizeof *status);
  if (!status) {
    failure_set_memory(failure, "no memory for the status server");
    return NULL;
  }
  status->ops = ops;
  status->read_only = read_only;
  const struct http_setup setup = {.loop = ops->loop, .fd = fd, .limits = limits, .handler = on_request, .context = status};
  status->http = http_new(&setup, failure);
  if (!status->http) {
    free(status);
    return NULL;
  }
  return status;
}

static void on_closed(void *context) {
  struct status *status = context;
  void (*done)(void *) = status->done;
  void *done_context = status->done_context;
  free(status);
  if (done) {
    done(done_context);
  }
}

void status_close(struct status *status, void (*done)(void *context), void *context) {
  status->done = done;
  status->done_context = context;
  http_close(status->http, on_closed, status);
}
