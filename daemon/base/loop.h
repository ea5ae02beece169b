/*
 * The part of libuv that the control loop uses: timers, watched descriptors and jobs on pool threads.
 *
 * Each object owns its handle and frees itself once libuv has closed it, so its owner may be freed right after closing it.
 * After close() the callback is never called again. Control loop only.
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
/* NULL without memory. */
struct loop_timer *loop_timer_new(uv_loop_t *loop, loop_callback *callback, void *context);
/* First after `first` milliseconds, then every `repeat` (0: once). Replaces an earlier start. */
void loop_timer_start(struct loop_timer *timer, uint64_t first, uint64_t repeat);
void loop_timer_stop(struct loop_timer *timer);
struct loop_timer *loop_timer_close(struct loop_timer *timer); /* accepts NULL; returns NULL */

struct loop_hook;
/* Called each time before the loop waits. NULL without memory. */
struct loop_hook *loop_hook_new(uv_loop_t *loop, loop_callback *callback, void *context);
struct loop_hook *loop_hook_close(struct loop_hook *hook); /* accepts NULL; returns NULL */

struct loop_watch;
/* Watches a descriptor for input; initially stopped. The caller keeps the descriptor and closes it after the watch. NULL if it
 * cannot be watched. */
struct loop_watch *loop_watch_new(uv_loop_t *loop, int fd, loop_callback *callback, void *context);
void loop_watch_start(struct loop_watch *watch);
void loop_watch_stop(struct loop_watch *watch);
struct loop_watch *loop_watch_close(struct loop_watch *watch); /* accepts NULL; returns NULL */

/* Call before all else: enlarges the pool by one thread for each file that may hang. */
void loop_expect_files(unsigned files);
/* Checks that the threads of libuv's pool can be started. libuv starts them with the first job and aborts if it cannot, so call
 * this just before. */
bool loop_can_work(struct failure *failure);
/* Calls run(context) on a pool thread and then done(context) on the loop. Returns false without memory. */
bool loop_job(uv_loop_t *loop, loop_callback *run, loop_callback *done, void *context);

#endif
