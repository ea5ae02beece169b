/* Asks the daemon something over its Unix socket: one connection a question. */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_HTTP_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_HTTP_H

#include "tools/framectl/common/problem.h"
#include "tools/framectl/common/reply.h"

/* Connects to a Unix stream socket, or gives -1 and a problem whose remedy fits the reason. `what` is who should
 * listen there: "framed". Who listens may have too many waiting to take one more: -1 waits for that without end. */
int unix_connect(const char *path, const char *what, int timeout_ms, struct problem *problem);

typedef void http_waiter(void *context);

struct question {
  const char *socket, *method, *path;
  const char *body;    /* JSON; NULL: none */
  int timeout_ms;      /* for the whole answer; -1: none */
  http_waiter *waiter; /* called some times a second while no answer comes; NULL: nobody is */
  void *waiter_context;
};

/* True with a whole answer of any HTTP status in `reply`, which the caller clears in any case. */
bool http_ask(const struct question *question, struct reply *reply, struct problem *problem);

#endif
