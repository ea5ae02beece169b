/*
 * A thread of its own for one kind of long jobs, which would keep libuv's few threads from opening sessions and files.
 *
 * Jobs run one after the other in their order. The thread begins with the first job. Control loop only, but for `run`.
 */
#ifndef FRAMED_BASE_WORKER_H
#define FRAMED_BASE_WORKER_H

#include "daemon/base/loop.h"

struct worker;

/* NULL if there is no memory. */
struct worker *worker_new(uv_loop_t *loop, const char *thread_name);
/* Calls run(context) on the thread and then done(context) on the loop, which does not end before. False: there is no memory or
 * no thread for it. */
bool worker_do(struct worker *worker, loop_callback *run, loop_callback *done, void *context);
/* Takes no more jobs, and frees itself once those that were taken are done. NULL is fine; returns NULL. */
struct worker *worker_close(struct worker *worker);

#endif
