/*
 * What always holds:
 *   - a request is freed when it was both answered by its handler and completed by the library, in either order;
 *   - a suspended connection is on the `waiting` list, because the library cannot be stopped while there is one: it waits for
 *     its answer, or for more of its stream.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/status/private.h"

enum { BODY_LIMIT = 64 * 1024, STREAM_BLOCK = 16 * 1024 };

static const char stopping[] = "{\"error\": \"the daemon is stopping\", \"remedy\": \"ask again when it runs\"}\n";
static const char crowded[] =
    "{\"error\": \"too many commands wait for their end\", \"remedy\": \"try again when they have ended\"}\n";

static void request_free(struct http_request *request) {
  if (request->response) {
    MHD_destroy_response(request->response);
  }
  free(request->method);
  free(request->path);
  free(request->body);
  free(request);
}

static struct http_request *request_new(struct http *http, struct MHD_Connection *handle, const char *method,
                                        const char *path) {
  struct http_request *request = calloc(1, sizeof *request);
  if (!request) {
    return NULL;
  }
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  request->http = http;
  request->handle = handle;
  request->connection = info ? info->socket_context : NULL;
  request->method = strdup(method);
  request->path = strdup(path);
  if (!request->connection || !request->method || !request->path) {
    request_free(request);
    return NULL;
  }
  return request;
}

const char *http_path(const struct http_request *request) { return request->path; }
bool http_is(const struct http_request *request, const char *method) { return strcmp(request->method, method) == 0; }

const char *http_argument(const struct http_request *request, const char *name) {
  const char *value = NULL;
  size_t length = 0;
  bool found =
      MHD_lookup_connection_value_n(request->handle, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value, &length) == MHD_YES;
  return found && !value ? "" : value;
}

const char *http_field(const struct http_request *request, const char *name) {
  return MHD_lookup_connection_value(request->handle, MHD_HEADER_KIND, name);
}

const char *http_cookie(const struct http_request *request, const char *name) {
  return MHD_lookup_connection_value(request->handle, MHD_COOKIE_KIND, name);
}

int http_unix_socket(const struct http_request *request) {
  return request->connection->client.tcp ? -1 : request->connection->fd;
}

const char *http_body(const struct http_request *request, size_t *length) {
  *length = request->body_bytes;
  return request->body_bytes == 0 ? "" : request->body_bytes <= HTTP_BODY ? request->body : NULL;
}

/* False: it is more than anybody needs, or there is no memory for it. */
static bool take_body(struct http_request *request, const char *data, size_t size) {
  request->body = request->body ? request->body : malloc(HTTP_BODY);
  if (request->body && request->body_bytes + size <= HTTP_BODY) {
    memcpy(request->body + request->body_bytes, data, size);
  }
  request->body_bytes += size;
  return request->body && request->body_bytes <= BODY_LIMIT;
}

/* The library does not look at a suspended connection. */
bool http_client_left(const struct http_request *request) {
  if (!request->handle) {
    return true;
  }
  struct pollfd state = {.fd = request->connection->fd, .events = request->connection->client.tcp ? POLLRDHUP : 0};
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void suspend(struct http_request *request) {
  struct http *http = request->http;
  request->suspended = request->connection->suspended = true;
  request->next = http->waiting;
  request->link = &http->waiting;
  if (request->next) {
    request->next->link = &request->next;
  }
  http->waiting = request;
  http->waiting_count += http_is(request, MHD_HTTP_METHOD_POST);
  MHD_suspend_connection(request->handle);
}

static void resume(struct http_request *request) {
  struct http *http = request->http;
  *request->link = request->next;
  if (request->next) {
    request->next->link = request->link;
  }
  http->waiting_count -= http_is(request, MHD_HTTP_METHOD_POST);
  request->suspended = request->connection->suspended = false;
  request->connection->since = uv_now(http->setup.loop);
  MHD_resume_connection(request->handle);
  uv_timer_start(&http->timer, http->on_timer, 0, 0); /* a resume alone does not wake the library's epoll descriptor */
}

/* A stream that is being sent; freed by the library. */
struct sent_stream {
  struct http_stream stream;
  struct http_request *request;
};

static ssize_t read_stream(void *context, uint64_t position, char *bytes, size_t room) {
  (void)position;
  const struct sent_stream *sent = context;
  size_t count = sent->request->cut ? 0 : sent->stream.read(sent->stream.context, bytes, room);
  if (count == HTTP_LATER) {
    suspend(sent->request);
    return 0;
  }
  return count > 0 ? (ssize_t)count : MHD_CONTENT_READER_END_OF_STREAM;
}

static void free_stream(void *context) {
  const struct sent_stream *sent = context;
  sent->stream.free(sent->stream.context);
  free(context);
}

void http_go_on(struct http_request *request) {
  if (request->suspended) {
    resume(request);
  }
}

static struct MHD_Response *respond_with_stream(struct http_request *request, const struct http_stream *stream) {
  struct sent_stream *kept = malloc(sizeof *kept);
  if (!kept) {
    stream->free(stream->context);
    return NULL;
  }
  *kept = (struct sent_stream){*stream, request};
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, kept, free_stream);
  if (!response) {
    free_stream(kept);
  }
  return response;
}

static struct MHD_Response *respond_with_body(const struct http_answer *answer) {
  if (!answer->body) {
    return NULL;
  }
  struct MHD_Response *response = MHD_create_response_from_buffer(answer->length, answer->body, MHD_RESPMEM_MUST_FREE);
  if (!response) {
    free(answer->body);
  }
  return response;
}

static struct MHD_Response *make_response(struct http_request *request, const struct http_answer *answer) {
  struct MHD_Response *response =
      answer->stream.read ? respond_with_stream(request, &answer->stream) : respond_with_body(answer);
  if (!response) {
    return NULL;
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  MHD_add_response_header(response, MHD_HTTP_HEADER_X_CONTENT_TYPE_OPTIONS, "nosniff");
  /* No other website may show the page, whose buttons pause pipelines, within a page of its own. */
  MHD_add_response_header(response, "X-Frame-Options", "DENY");
  MHD_add_response_header(response, "Content-Security-Policy", "frame-ancestors 'none'");
  if (answer->status == MHD_HTTP_UNAUTHORIZED) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  }
  if (answer->allow) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
  }
  return response;
}

static void set_response(struct http_request *request, struct http_answer *answer) {
  request->status = answer->status;
  request->response = make_response(request, answer);
  request->connection->live = answer->live && request->response;
  answer->body = NULL;
}

/* Frees an answer that nobody gets. */
static void answer_drop(struct http_answer *answer) {
  if (answer->stream.read) {
    answer->stream.free(answer->stream.context);
  }
  free(answer->body);
  answer->body = NULL;
}

void http_answer(struct http_request *request, struct http_answer *answer) {
  request->answered = true;
  if (!request->handle) {
    answer_drop(answer);
    request_free(request);
    return;
  }
  if (request->response) { /* http_close() came first */
    answer_drop(answer);
    return;
  }
  set_response(request, answer);
  if (request->suspended) {
    resume(request);
  }
}

/* The library's own answers are of no use to a program that reads JSON. */
static void request_refuse(struct http_request *request, const char *text) {
  struct http_answer answer = {
      .status = MHD_HTTP_SERVICE_UNAVAILABLE, .type = "application/json", .body = strdup(text), .length = strlen(text)};
  set_response(request, &answer);
}

static enum MHD_Result send_response(struct http_request *request) {
  return request->response ? MHD_queue_response(request->handle, request->status, request->response) : MHD_NO;
}

static enum MHD_Result request_ask(struct http *http, struct http_request *request) {
  request->connection->answering = true;
  request->connection->since = uv_now(http->setup.loop);
  if (http->closing) {
    request_refuse(request, stopping);
    return send_response(request);
  }
  unsigned waiting = http->setup.limits.waiting - (request->connection->client.trusted ? 0 : http->setup.limits.kept);
  if (http_is(request, MHD_HTTP_METHOD_POST) && http->waiting_count >= waiting) {
    request_refuse(request, crowded);
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

enum MHD_Result http_on_request(void *context, struct MHD_Connection *handle, const char *path, const char *method,
                                const char *version, const char *data, size_t *size, void **state) {
  (void)version;
  struct http_request *request = *state;
  if (!request) {
    request = *state = request_new(context, handle, method, path);
    return request ? MHD_YES : MHD_NO;
  }
  if (*size > 0) {
    bool taken = take_body(request, data, *size);
    *size = 0;
    return taken ? MHD_YES : MHD_NO;
  }
  return request->asked ? send_response(request) : request_ask(context, request);
}

void http_on_completed(void *context, struct MHD_Connection *handle, void **state, enum MHD_RequestTerminationCode code) {
  (void)handle, (void)code;
  struct http *http = context;
  struct http_request *request = *state;
  *state = NULL;
  if (!request) {
    return;
  }
  request->connection->since = uv_now(http->setup.loop);
  request->connection->answering = request->connection->live = false;
  request->handle = NULL;
  if (request->answered || !request->asked) {
    request_free(request);
  }
}

static void request_give_up(struct http_request *request, const char *text) {
  if (request->response) {
    request->cut = true;
  } else {
    request_refuse(request, text);
  }
  resume(request);
}

void http_refuse_one(struct http *http, const struct http_connection *connection) {
  struct http_request *request = http->waiting;
  while (request->connection != connection) {
    request = request->next;
  }
  request_give_up(request, crowded);
}

void http_refuse_gone(struct http *http) {
  for (struct http_request *request = http->waiting, *next; request; request = next) {
    next = request->next;
    if (http_client_left(request)) {
      request_give_up(request, stopping);
    }
  }
}

void http_refuse_waiting(struct http *http) {
  for (struct http_request *request = http->waiting, *next; request; request = next) {
    next = request->next;
    request_give_up(request, stopping);
  }
}
