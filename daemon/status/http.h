/*
 * A small HTTP server on a libuv loop, by libmicrohttpd in its external epoll mode; the only user of that library.
 *
 * Everything happens on the loop's thread. Clients are bounded in number, in bytes and in time, so that slow or
 * hostile ones cost a connection for a while and nothing else, and each user, or address, has a share alone. Where the
 * process has no free descriptor, they wait in the listener's backlog until there is one. A request may be answered long after
 * it was asked.
 */
#ifndef FRAMED_STATUS_HTTP_H
#define FRAMED_STATUS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/failure.h"

struct http;
struct http_request;

/* Called once for each whole request; of a body the first HTTP_BODY bytes are kept. Must lead to exactly one http_answer(), at
 * once or later, on the loop; until then the request is valid, also when its client or the server has gone. */
typedef void http_handler(void *context, struct http_request *request);

struct http_limits {
  unsigned connections;     /* at once; where there is a new one, one that has not asked yet gives way */
  unsigned share;           /* of these, one user's of a Unix socket, or one address's of TCP */
  unsigned waiting;         /* of these, POSTs whose answer comes later; one more gets 503 */
  unsigned kept;            /* of all and of those that wait, for the daemon's own user and root alone, who have no share */
  unsigned request_seconds; /* from its beginning, or the answer before, until a whole request is there */
  unsigned idle_seconds;    /* without a byte of an answer that is taken */
  unsigned answer_seconds;  /* for the whole answer, not counting the wait for http_answer() */
};

struct http_setup {
  uv_loop_t *loop;
  int fd; /* listening; stays the caller's and must outlive the server */
  struct http_limits limits;
  http_handler *handler;
  void *context;
};

struct http *http_new(const struct http_setup *setup, struct failure *failure);
/* Takes no more requests, answers those that wait with 503, and frees itself; then `done`, on the loop. */
void http_close(struct http *http, void (*done)(void *context), void *context);

const char *http_path(const struct http_request *request);            /* unescaped, without the query */
bool http_is(const struct http_request *request, const char *method); /* "GET" */

/* What the query says for `name`, "" without a value; NULL: nothing. Only within the handler. */
const char *http_argument(const struct http_request *request, const char *name);
/* Of the head: a field, and the value of a cookie; NULL: it has none. Only within the handler. */
const char *http_field(const struct http_request *request, const char *name);
const char *http_cookie(const struct http_request *request, const char *name);
/* The descriptor of its connection if that is a Unix socket; -1: it is TCP. Only within the handler. */
int http_unix_socket(const struct http_request *request);
/* What came with it; NULL: more than is kept. Only within the handler. */
enum { HTTP_BODY = 4096 };
const char *http_body(const struct http_request *request, size_t *length);
/* Whether the client closed its connection; one that only ended its own side may still listen, which TCP does not tell. */
bool http_client_left(const struct http_request *request);

#define HTTP_LATER SIZE_MAX /* nothing is there yet: http_go_on() says when */

/* A body that is made as the client takes it. */
struct http_stream {
  size_t (*read)(void *context, char *bytes, size_t room); /* on the loop; 0: the end */
  void (*free)(void *context);
  void *context;
};

struct http_answer {
  unsigned status;
  const char *type;  /* Content-Type */
  const char *allow; /* the Allow header, or NULL */
  char *body;        /* from malloc(), taken; NULL: there was no memory for it, or it is a stream */
  size_t length;
  struct http_stream stream; /* taken, with or without a client; `read` is NULL: it is a body */
  bool live;                 /* a stream that lasts while somebody watches: it takes none of the places, and has no time */
};

void http_answer(struct http_request *request, struct http_answer *answer);
/* A stream that said HTTP_LATER is read again. Not after its free(). */
void http_go_on(struct http_request *request);

#endif
