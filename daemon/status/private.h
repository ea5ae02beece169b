/*
 * What the parts of the HTTP server share: http.c has the loop, the connections and the life of the server, http_places.c who
 * may have how many of them and for how long, http_request.c what is asked on a connection and answered.
 */
#ifndef FRAMED_STATUS_PRIVATE_H
#define FRAMED_STATUS_PRIVATE_H

#include <microhttpd.h>

#include "daemon/status/http.h"

struct http_client {
  bool tcp;
  uint64_t number; /* its address, or its user */
  bool trusted;    /* the daemon's own user, or root */
};

struct http_connection {
  struct http_connection *next, **link;
  int fd;
  struct http_client client;
  uint64_t since; /* loop time in ms: accepted, last answer finished, or this one begun */
  bool answering; /* a whole request has come, and its answer is not out */
  bool suspended; /* that waits for http_answer() */
  bool live;      /* that gets a live stream, and takes no place */
  bool shut;      /* the connection has lost its place, and closes as soon as the library has seen that */
};

struct http_request {
  struct http_request *next, **link; /* on http->waiting while suspended */
  struct http *http;
  struct MHD_Connection *handle; /* NULL once completed */
  struct http_connection *connection;
  char *method, *path;
  char *body; /* the first bytes of it, if it has any */
  size_t body_bytes;
  unsigned status;
  struct MHD_Response *response;
  bool asked, answered, suspended;
  bool cut; /* its stream ends now */
};

struct http {
  struct http_setup setup;
  struct MHD_Daemon *daemon;
  uv_poll_t listener, events;
  uv_timer_t timer;     /* when the library runs next: its own time-outs, or at once to send an answer */
  uv_timer_cb on_timer; /* runs the library: how the parts below http.c start the timer */
  uv_timer_t tick;      /* slow clients, and accepting again */
  unsigned open_handles;
  bool accepting, closing;
  struct http_connection *connections;
  struct http_client newcomer; /* who is being let in */
  struct http_request *waiting;
  unsigned waiting_count; /* of these, commands */
  void (*done)(void *context);
  void *done_context;
};

/* -- http_places.c ------------------------------------------------------------------------------------------------ */

void http_identify(int fd, const struct sockaddr_storage *address, struct http_client *client);
/* Whether nobody gives way yet, because all have only just come. */
bool http_must_wait(const struct http *http);
/* Whether this client may have one more connection, for which another one may have to give way. */
bool http_find_place(struct http *http, const struct http_client *client);
/* Shuts connections that take too long to ask or to read, and those whose clients have gone. */
void http_shut_slow(struct http *http);

/* -- http_request.c, called by the library ---------------------------------------------------------------------- */

/* For the head of a request, for each piece of its body, at its end, and after a resume. */
enum MHD_Result http_on_request(void *context, struct MHD_Connection *handle, const char *path, const char *method,
                                const char *version, const char *data, size_t *size, void **state);
void http_on_completed(void *context, struct MHD_Connection *handle, void **state, enum MHD_RequestTerminationCode code);

/* Answers every waiting request with 503; the library then sends that as it runs. */
void http_refuse_waiting(struct http *http);
/* The same for the one on this connection, and for those whose clients have left, so that they give up their places. */
void http_refuse_one(struct http *http, const struct http_connection *connection);
void http_refuse_gone(struct http *http);

#endif
