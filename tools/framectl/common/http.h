/* HTTP requests to the daemon over its Unix socket, one connection each. */
#ifndef FRAMED_TOOLS_FRAMECTL_COMMON_HTTP_H
#define FRAMED_TOOLS_FRAMECTL_COMMON_HTTP_H

#include "tools/framectl/common/problem.h"
#include "tools/framectl/common/reply.h"

/*
 * Connects to a Unix stream socket, or returns -1 and a problem whose remedy fits the reason. `what` is the program that should
 * listen there: "framed". With timeout -1 it waits without limit, also while the listener's queue is full.
 */
int unix_connect(const char *path, const char *what, int timeout_ms, struct problem *problem);

typedef void http_idle(void *context);

struct question {
  const char *socket, *method, *path;
  const char *body; /* JSON; NULL: none */
  int timeout_ms;   /* for the whole answer; -1: none */
  http_idle *idle;  /* called several times a second until the answer comes; may be NULL */
  void *idle_context;
};

/* True with a complete answer of any HTTP status. The caller clears `reply` in any case. */
bool http_ask(const struct question *question, struct reply *reply, struct problem *problem);

#endif
