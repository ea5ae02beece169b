/*
 * What the two halves of the HTTP server share: http.c has the loop, the connections and the life of the server,
 * http_request.c what is asked on a connection and answered.
 */
#ifndef FRAMED_DAEMON_HTTP_PRIVATE_H
#define FRAMED_DAEMON_HTTP_PRIVATE_H

#include <microhttpd.h>

#include "daemon/http.h"

struct http_connection {
  struct http_connection *next, **link;
  int fd;
  uint64_t since; /* loop time in ms: accepted, or last answer finished */
  bool suspended;
};

struct http_request {
  struct http_request *next, **link; /* on http->waiting while suspended */
  struct http *http;
  struct MHD_Connection *handle; /* NULL once completed */
  struct http_connection *connection;
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
  struct http_connection *connections;
  struct http_request *waiting;
  unsigned waiting_count;
  void (*done)(void *context);
  void *done_context;
};

/* Runs the library soon; may be called from inside it. */
void http_wake(struct http *http);

/* -- http_request.c, called by the library ---------------------------------------------------------------------- */

/* For the head of a request, for each piece of its body, at its end, and after a resume. */
enum MHD_Result http_on_request(void *context, struct MHD_Connection *handle, const char *path, const char *method,
                                const char *version, const char *data, size_t *size, void **state);
void http_on_completed(void *context, struct MHD_Connection *handle, void **state, enum MHD_RequestTerminationCode code);

/* Answers every waiting request with 503; the library then sends that as it runs. */
void http_refuse_waiting(struct http *http);

#endif
