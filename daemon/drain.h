/*
 * Requests that wait until a pipeline is drained, each with a time limit of its own.
 */
#ifndef FRAMED_DAEMON_DRAIN_H
#define FRAMED_DAEMON_DRAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/answer.h"

struct drain;

struct drains {
  struct drain *first;
  uv_loop_t *loop;
  /* Answers a request whose time is over. */
  void (*expired)(void *owner, server_answer *answer, void *context);
  void *owner;
};

/* Lets a request wait; answers at once with 503 if there is no memory for that. */
void drains_add(struct drains *drains, int64_t limit_ns, server_answer *answer, void *context);
/* Takes the next request that waits off the list. False if there is none. */
bool drains_take(struct drains *drains, server_answer **answer, void **context);

#endif
