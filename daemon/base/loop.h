/*
 * What the control loop's code uses of libuv: timers, watched descriptors and jobs for a worker thread.
 *
 * Each owns its handle and frees itself once libuv has let go of it, so that whoever holds one may be freed right after
 * closing it. After close() the callback is never called again. Control loop only.
 */
#ifndef FRAMED_BASE_LOOP_H
#define FRAMED_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/failure.h"

typedef void loop_callback(void *context);

/* uv_loop_init() without io_uring. The first call must come before the process has threads. */
int loop_init(uv_loop_t *loop);

struct loop_timer;
/* NULL if there is no memory. */
struct loop_timer *loop_timer_new(uv_loop_t *loop, loop_callback *callback, void *context);
/* Milliseconds from now, then every `repeat` (0: once). Starting anew replaces what was started. */
void loop_timer_start(struct loop_timer *timer, uint64_t first, uint64_t repeat);
void loop_timer_stop(struct loop_timer *timer);
struct loop_timer *loop_timer_close(struct loop_timer *timer); /* NULL is fine; returns NULL */

struct loop_hook;
/* Called each time before the loop waits. NULL if there is no memory. */
struct loop_hook *loop_hook_new(uv_loop_t *loop, loop_callback *callback, void *context);
struct loop_hook *loop_hook_close(struct loop_hook *hook); /* NULL is fine; returns NULL */

struct loop_watch;
/* Watches a descriptor for input, stopped at first. The descriptor is the caller's, and must be closed after the watch.
 * NULL if it cannot be watched. */
struct loop_watch *loop_watch_new(uv_loop_t *loop, int fd, loop_callback *callback, void *context);
void loop_watch_start(struct loop_watch *watch);
void loop_watch_stop(struct loop_watch *watch);
struct loop_watch *loop_watch_close(struct loop_watch *watch); /* NULL is fine; returns NULL */

/* Before anything else runs: so many files may hang at a time, and each keeps a thread from the others. */
void loop_expect_files(unsigned files);
/* Whether the threads that run jobs and read files can be had. libuv starts them with the first job and aborts where it cannot,
 * so this must be called just before that. */
bool loop_can_work(struct failure *failure);
/* Calls run(context) on a worker thread and then done(context) on the loop. False if there is no memory. */
bool loop_job(uv_loop_t *loop, loop_callback *run, loop_callback *done, void *context);

#endif
