/*
 * What always holds:
 *   - libmicrohttpd runs from pump(), on_listener() and the end alone, so never from inside itself;
 *   - a request is freed when it was both answered by its handler and completed by the library, in either order;
 *   - a suspended connection is on the `waiting` list, because the library cannot be stopped while there is one.
 */
#include "daemon/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  TICK_MS = 1000,
  BODY_LIMIT = 64 * 1024,
  MEMORY_LIMIT = 32 * 1024,  /* a connection: request line, headers, buffers */
  ROUNDS_BEFORE_CLOSING = 8, /* of the library's state machine, for the last answers */
  LOOP_HANDLES = 4
};

struct connection {
  struct connection *next, **link;
  int fd;
  uint64_t since; /* loop time in ms: accepted, or last answer finished */
  bool suspended;
};

struct http_request {
  struct http_request *next, **link; /* on http->waiting while suspended */
  struct http *http;
  struct MHD_Connection *handle; /* NULL once completed */
  struct connection *connection;
  char *method, *path;
  size_t body_bytes;
  unsigned status;
  struct MHD_Response *response;
  bool asked, answered, suspended;
};

struct http {
  struct http_setup setup;
  struct MHD_Daemon *daemon;
  uv_poll_t listener, events;
  uv_timer_t timer; /* the library's own time-outs */
  uv_timer_t tick;  /* slow clients, and accepting again */
  unsigned open_handles;
  bool accepting, closing;
  struct connection *connections;
  struct http_request *waiting;
  unsigned waiting_count;
  void (*done)(void *context);
  void *done_context;
};

static void on_timer(uv_timer_t *timer);

static bool is_post(const char *method) { return strcmp(method, MHD_HTTP_METHOD_POST) == 0; }

/* -- requests ----------------------------------------------------------------------------------------------------- */

static void request_free(struct http_request *request) {
  if (request->response) {
    MHD_destroy_response(request->response);
  }
  free(request->method);
  free(request->path);
  free(request);
}

static struct connection *connection_of(struct MHD_Connection *handle) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

static struct http_request *request_new(struct http *http, struct MHD_Connection *handle, const char *method,
                                        const char *path) {
  struct http_request *request = calloc(1, sizeof *request);
  if (!request) {
    return NULL;
  }
  request->http = http;
  request->handle = handle;
  request->connection = connection_of(handle);
  request->method = strdup(method);
  request->path = strdup(path);
  if (!request->connection || !request->method || !request->path) {
    request_free(request);
    return NULL;
  }
  return request;
}

const char *http_method(const struct http_request *request) { return request->method; }
const char *http_path(const struct http_request *request) { return request->path; }
bool http_is(const struct http_request *request, const char *method) { return strcmp(request->method, method) == 0; }

static void suspend(struct http_request *request) {
  struct http *http = request->http;
  request->suspended = request->connection->suspended = true;
  request->next = http->waiting;
  request->link = &http->waiting;
  if (request->next) {
    request->next->link = &request->next;
  }
  http->waiting = request;
  http->waiting_count++;
  MHD_suspend_connection(request->handle);
}

static void resume(struct http_request *request) {
  struct http *http = request->http;
  *request->link = request->next;
  if (request->next) {
    request->next->link = request->link;
  }
  http->waiting_count--;
  request->suspended = request->connection->suspended = false;
  request->connection->since = uv_now(http->setup.loop);
  MHD_resume_connection(request->handle);
  uv_timer_start(&http->timer, on_timer, 0, 0); /* a resume does not wake the library's epoll descriptor */
}

static struct MHD_Response *make_response(struct http_answer *answer) {
  if (!answer->body) {
    return NULL;
  }
  struct MHD_Response *response = MHD_create_response_from_buffer(answer->length, answer->body, MHD_RESPMEM_MUST_FREE);
  if (!response) {
    free(answer->body);
    return NULL;
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  MHD_add_response_header(response, MHD_HTTP_HEADER_X_CONTENT_TYPE_OPTIONS, "nosniff");
  if (answer->allow) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
  }
  return response;
}

static void set_response(struct http_request *request, struct http_answer *answer) {
  request->status = answer->status;
  request->response = make_response(answer);
  answer->body = NULL;
}

void http_answer(struct http_request *request, struct http_answer *answer) {
  request->answered = true;
  if (!request->handle) {
    free(answer->body);
    answer->body = NULL;
    request_free(request);
    return;
  }
  if (request->response) { /* http_close() came first */
    free(answer->body);
    answer->body = NULL;
    return;
  }
  set_response(request, answer);
  if (request->suspended) {
    resume(request);
  }
}

/* The library's own answers are of no use to a program that reads JSON. */
static void refuse(struct http_request *request, unsigned status, const char *text) {
  struct http_answer answer = {.status = status, .type = "application/json", .body = strdup(text), .length = strlen(text)};
  set_response(request, &answer);
}

static enum MHD_Result send_response(struct http_request *request) {
  return request->response ? MHD_queue_response(request->handle, request->status, request->response) : MHD_NO;
}

static const char stopping[] = "{\"error\": \"the daemon is stopping\", \"remedy\": \"ask again when it runs\"}\n";

static enum MHD_Result ask(struct http *http, struct http_request *request) {
  if (http->closing) {
    refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, stopping);
    return send_response(request);
  }
  if (is_post(request->method) && http->waiting_count >= http->setup.limits.waiting) {
    refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE,
           "{\"error\": \"too many commands wait for their end\", \"remedy\": \"try again when they have ended\"}\n");
    return send_response(request);
  }
  request->asked = true;
  http->setup.handler(http->setup.context, request);
  if (request->answered) {
    return send_response(request);
  }
  suspend(request);
  return MHD_YES;
}

/* The library calls this for the head of a request, for each piece of its body, at its end, and after a resume. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *handle, const char *path, const char *method,
                                  const char *version, const char *data, size_t *size, void **state) {
  (void)version, (void)data;
  struct http_request *request = *state;
  if (!request) {
    request = *state = request_new(context, handle, method, path);
    return request ? MHD_YES : MHD_NO;
  }
  if (*size > 0) {
    request->body_bytes += *size;
    *size = 0;
    return request->body_bytes <= BODY_LIMIT ? MHD_YES : MHD_NO;
  }
  return request->asked ? send_response(request) : ask(context, request);
}

static void on_completed(void *context, struct MHD_Connection *handle, void **state, enum MHD_RequestTerminationCode code) {
  (void)handle, (void)code;
  struct http *http = context;
  struct http_request *request = *state;
  *state = NULL;
  if (!request) {
    return;
  }
  request->connection->since = uv_now(http->setup.loop);
  request->handle = NULL;
  if (request->answered || !request->asked) {
    request_free(request);
  }
}

/* -- connections -------------------------------------------------------------------------------------------------- */

static void connection_add(struct http *http, struct MHD_Connection *handle, void **state) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
  struct connection *connection = calloc(1, sizeof *connection);
  if (!connection || !info) { /* requests on it will be refused, for they find no connection */
    free(connection);
    return;
  }
  connection->fd = info->connect_fd;
  connection->since = uv_now(http->setup.loop);
  connection->next = http->connections;
  connection->link = &http->connections;
  if (connection->next) {
    connection->next->link = &connection->next;
  }
  http->connections = connection;
  *state = connection;
}

static void on_connection(void *context, struct MHD_Connection *handle, void **state,
                          enum MHD_ConnectionNotificationCode code) {
  struct connection *connection = *state;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    connection_add(context, handle, state);
  } else if (connection) {
    *connection->link = connection->next;
    if (connection->next) {
      connection->next->link = connection->link;
    }
    free(connection);
    *state = NULL;
  }
}

/* A client that drips bytes defeats the library's idle time-out; its socket is shut and the library sees the end. */
static void shut_slow_connections(struct http *http) {
  uint64_t now = uv_now(http->setup.loop);
  for (struct connection *connection = http->connections; connection; connection = connection->next) {
    if (!connection->suspended && now - connection->since >= http->setup.limits.seconds * UINT64_C(1000)) {
      shutdown(connection->fd, SHUT_RDWR);
    }
  }
}

static bool has_room(struct http *http) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
  return info && info->num_connections < http->setup.limits.connections;
}

static void on_listener(uv_poll_t *poll, int status, int events);

static void update(struct http *http) {
  bool room = has_room(http);
  if (!http->accepting && room) {
    http->accepting = uv_poll_start(&http->listener, UV_READABLE, on_listener) == 0;
  } else if (http->accepting && !room) {
    uv_poll_stop(&http->listener);
    http->accepting = false;
  }
}

/* Runs the library's state machine and asks when it wants to run next. */
static void pump(struct http *http) {
  MHD_run(http->daemon);
  MHD_UNSIGNED_LONG_LONG wait_ms = 0;
  if (MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES) {
    uv_timer_start(&http->timer, on_timer, wait_ms, 0);
  } else {
    uv_timer_stop(&http->timer);
  }
}

static void on_timer(uv_timer_t *timer) {
  pump(timer->data);
  update(timer->data);
}

static void on_events(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  pump(poll->data);
  update(poll->data);
}

static void on_tick(uv_timer_t *tick) {
  struct http *http = tick->data;
  shut_slow_connections(http);
  update(http);
}

static void on_listener(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  struct http *http = poll->data;
  const struct sockaddr address = {.sa_family = AF_UNIX};
  while (has_room(http)) {
    int fd = accept4(http->setup.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      MHD_add_connection(http->daemon, fd, &address, sizeof address); /* closes it on error */
      pump(http);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      /* No descriptor or no memory: the listener stays readable, so leave it until the next tick. */
      uv_poll_stop(&http->listener);
      http->accepting = false;
      return;
    }
  }
  update(http);
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

static bool start_library(struct http *http) {
  const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
  http->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, on_request, http, MHD_OPTION_CONNECTION_LIMIT, http->setup.limits.connections,
      MHD_OPTION_CONNECTION_TIMEOUT, http->setup.limits.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_LIMIT,
      MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
  return http->daemon != NULL;
}

/* Counts the handles that were made, so that closing knows them. */
static int start_handles(struct http *http) {
  uv_loop_t *loop = http->setup.loop;
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  uv_timer_init(loop, &http->timer);
  uv_timer_init(loop, &http->tick);
  http->open_handles = 2;
  int status = info ? uv_poll_init(loop, &http->events, info->epoll_fd) : UV_EINVAL;
  if (status != 0) {
    return status;
  }
  http->open_handles = 3;
  status = uv_poll_init(loop, &http->listener, http->setup.fd);
  if (status != 0) {
    return status;
  }
  http->open_handles = LOOP_HANDLES;
  http->timer.data = http->tick.data = http->events.data = http->listener.data = http;
  status = uv_poll_start(&http->events, UV_READABLE, on_events);
  return status != 0 ? status : uv_timer_start(&http->tick, on_tick, TICK_MS, TICK_MS);
}

static void on_handle_closed(uv_handle_t *handle) {
  struct http *http = handle->data;
  if (--http->open_handles > 0) {
    return;
  }
  MHD_stop_daemon(http->daemon);
  if (http->done) {
    http->done(http->done_context);
  }
  free(http);
}

static void close_handles(struct http *http) {
  uv_handle_t *handles[LOOP_HANDLES] = {(uv_handle_t *)&http->timer, (uv_handle_t *)&http->tick, (uv_handle_t *)&http->events,
                                        (uv_handle_t *)&http->listener};
  unsigned made = http->open_handles;
  for (unsigned i = 0; i < made; i++) {
    handles[i]->data = http;
    uv_close(handles[i], on_handle_closed);
  }
}

struct http *http_new(const struct http_setup *setup, struct failure *failure) {
  struct http *http = calloc(1, sizeof *http);
  if (!http) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "no memory for the status server");
    return NULL;
  }
  http->setup = *setup;
  if (!start_library(http)) {
    failure_set(failure, EXIT_STATUS_INTERNAL, "see that the limit of open files (LimitNOFILE) is not reached",
                "the status server cannot start: %s", strerror(errno));
    free(http);
    return NULL;
  }
  int status = start_handles(http);
  if (status != 0) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the status server cannot listen: %s", uv_strerror(status));
    close_handles(http);
    return NULL;
  }
  update(http);
  return http;
}

void http_close(struct http *http, void (*done)(void *context), void *context) {
  http->closing = true;
  http->done = done;
  http->done_context = context;
  for (struct http_request *request = http->waiting, *next; request; request = next) {
    next = request->next;
    refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, stopping);
    resume(request);
  }
  for (int i = 0; i < ROUNDS_BEFORE_CLOSING; i++) {
    MHD_run(http->daemon);
  }
  close_handles(http);
}
