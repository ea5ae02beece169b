/*
 * A separate thread for long jobs of one kind. On libuv's few pool threads they would delay opening sessions and files.
 *
 * Jobs run one after the other. The first job starts the thread. Control loop only, except `run`.
 */
#ifndef FRAMED_BASE_WORKER_H
#define FRAMED_BASE_WORKER_H

#include "daemon/base/loop.h"

struct worker;

/* NULL without memory. */
struct worker *worker_new(uv_loop_t *loop, const char *thread_name);
/* Calls run(context) on the thread and then done(context) on the loop, which stays alive until then. Returns false without
 * memory or a thread. */
bool worker_do(struct worker *worker, loop_callback *run, loop_callback *done, void *context);
/* Accepts no more jobs, and frees itself once the accepted ones are done. Accepts NULL; returns NULL. */
struct worker *worker_close(struct worker *worker);

#endif
