/*
 * Requests that wait until something has come about, each with a time limit of its own.
 */
#ifndef FRAMED_PIPELINE_PENDING_H
#define FRAMED_PIPELINE_PENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/answer.h"

struct pending_request;

struct pending {
  struct pending_request *first;
  uv_loop_t *loop;
  /* Answers a request whose time is over. */
  void (*expired)(void *owner, server_answer *answer, void *context);
  void *owner;
};

/* Lets a request wait. False: there is no memory for that, which was answered, with 503. */
bool pending_add(struct pending *pending, int64_t limit_ns, server_answer *answer, void *context);
/* Takes the next request that waits off the list. False if there is none. */
bool pending_take(struct pending *pending, server_answer **answer, void **context);

#endif
