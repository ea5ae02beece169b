#include "daemon/base/loop.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENOUGH_DESCRIPTORS = 12 };

struct loop_timer {
  uv_timer_t handle; /* first: its close callback frees the structure */
  loop_callback *callback;
  void *context;
};

struct loop_watch {
  uv_poll_t handle; /* first, for the same reason */
  loop_callback *callback;
  void *context;
};

struct loop_hook {
  uv_prepare_t handle; /* first, for the same reason */
  loop_callback *callback;
  void *context;
};

struct job {
  uv_work_t request;
  loop_callback *run, *done;
  void *context;
};

static void on_closed(uv_handle_t *handle) { free(handle); }

/* libuv aborts if it gets no descriptors for objects that it creates once. */
static bool has_descriptors(void) {
  int spare[ENOUGH_DESCRIPTORS];
  int count = 0;
  while (count < ENOUGH_DESCRIPTORS && (spare[count] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0) {
    count++;
  }
  for (int i = 0; i < count; i++) {
    close(spare[i]);
  }
  return count == ENOUGH_DESCRIPTORS;
}

/* libuv 1.45 to 1.48 (Ubuntu 24.04) use io_uring for files. A request then uses no thread of the pool, so counting those
 * threads would not find a stuck disk. The kernel would also start a polling thread for each loop. */
int loop_init(uv_loop_t *loop) {
  static char without_rings[] = "UV_USE_IO_URING=0";
  const char *set = getenv("UV_USE_IO_URING");
  if (!set || strcmp(set, "0") != 0) {
    putenv(without_rings); /* without memory libuv keeps its default */
  }
  return has_descriptors() ? uv_loop_init(loop) : UV_EMFILE;
}

/* -- timers -------------------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *handle) {
  struct loop_timer *timer = (struct loop_timer *)handle;
  timer->callback(timer->context);
}

struct loop_timer *loop_timer_new(uv_loop_t *loop, loop_callback *callback, void *context) {
  struct loop_timer *timer = calloc(1, sizeof *timer);
  if (!timer) {
    return NULL;
  }
  uv_timer_init(loop, &timer->handle); /* cannot fail */
  timer->callback = callback;
  timer->context = context;
  return timer;
}

void loop_timer_start(struct loop_timer *timer, uint64_t first, uint64_t repeat) {
  uv_update_time(timer->handle.loop); /* so that a long callback does not shorten the wait */
  uv_timer_start(&timer->handle, on_timer, first, repeat);
}

void loop_timer_stop(struct loop_timer *timer) { uv_timer_stop(&timer->handle); }

struct loop_timer *loop_timer_close(struct loop_timer *timer) {
  if (timer) {
    uv_close((uv_handle_t *)&timer->handle, on_closed);
  }
  return NULL;
}

/* -- hooks ---------------------------------------------------------------------------------------------------- */

static void on_prepare(uv_prepare_t *handle) {
  struct loop_hook *hook = (struct loop_hook *)handle;
  hook->callback(hook->context);
}

struct loop_hook *loop_hook_new(uv_loop_t *loop, loop_callback *callback, void *context) {
  struct loop_hook *hook = calloc(1, sizeof *hook);
  if (!hook) {
    return NULL;
  }
  uv_prepare_init(loop, &hook->handle); /* cannot fail, and neither can the start */
  hook->callback = callback;
  hook->context = context;
  uv_prepare_start(&hook->handle, on_prepare);
  return hook;
}

struct loop_hook *loop_hook_close(struct loop_hook *hook) {
  if (hook) {
    uv_close((uv_handle_t *)&hook->handle, on_closed);
  }
  return NULL;
}

/* -- watches ------------------------------------------------------------------------------------------------- */

static void on_readable(uv_poll_t *handle, int status, int events) {
  struct loop_watch *watch = (struct loop_watch *)handle;
  (void)status; /* an error shows in the call that the callback makes */
  (void)events;
  watch->callback(watch->context);
}

struct loop_watch *loop_watch_new(uv_loop_t *loop, int fd, loop_callback *callback, void *context) {
  struct loop_watch *watch = calloc(1, sizeof *watch);
  if (!watch) {
    return NULL;
  }
  if (uv_poll_init(loop, &watch->handle, fd) != 0) {
    free(watch);
    return NULL;
  }
  watch->callback = callback;
  watch->context = context;
  return watch;
}

void loop_watch_start(struct loop_watch *watch) { uv_poll_start(&watch->handle, UV_READABLE, on_readable); }

void loop_watch_stop(struct loop_watch *watch) { uv_poll_stop(&watch->handle); }

struct loop_watch *loop_watch_close(struct loop_watch *watch) {
  if (watch) {
    uv_close((uv_handle_t *)&watch->handle, on_closed);
  }
  return NULL;
}

/* -- jobs ---------------------------------------------------------------------------------------------------- */

#define POOL "UV_THREADPOOL_SIZE"

enum { USUAL = 4, MOST = 1024 }; /* threads in libuv's pool */

/* The number of threads in libuv's pool, computed as libuv does. */
static unsigned pool_size(void) {
  const char *wanted = getenv(POOL);
  long size = wanted ? strtol(wanted, NULL, 10) : USUAL;
  return size < 1 ? 1 : size > MOST ? MOST : (unsigned)size;
}

void loop_expect_files(unsigned files) {
  char size[16];
  snprintf(size, sizeof size, "%u", USUAL + files);
  if (files > 0 && pool_size() < USUAL + files) {
    setenv(POOL, size, 1); /* without memory the pool keeps its default size */
  }
}

static void wait_at(void *gate) {
  uv_mutex_lock(gate);
  uv_mutex_unlock(gate);
}

/* Starts all threads at the same time; otherwise one after the other would fit where all do not. */
static int try_threads(uv_thread_t *threads, unsigned count) {
  uv_mutex_t gate;
  unsigned started = 0;
  int status = uv_mutex_init(&gate);
  if (status != 0) {
    return status;
  }
  uv_mutex_lock(&gate);
  while (status == 0 && started < count) {
    status = uv_thread_create(&threads[started], wait_at, &gate);
    started += status == 0;
  }
  uv_mutex_unlock(&gate);
  while (started > 0) {
    uv_thread_join(&threads[--started]);
  }
  uv_mutex_destroy(&gate);
  return status;
}

bool loop_can_work(struct failure *failure) {
  unsigned count = pool_size();
  uv_thread_t *threads = calloc(count, sizeof *threads);
  int status = threads ? try_threads(threads, count) : UV_ENOMEM;
  free(threads);
  return status == 0 || failure_set(failure, EXIT_STATUS_INTERNAL, "raise the limit on threads (ulimit -u, TasksMax=)",
                                    "cannot start %u threads for files: %s", count, uv_strerror(status));
}

static void run_job(uv_work_t *request) {
  struct job *job = request->data;
  job->run(job->context);
}

static void end_job(uv_work_t *request, int status) {
  (void)status; /* jobs are never cancelled */
  struct job *job = request->data;
  loop_callback *done = job->done;
  void *context = job->context;
  free(job);
  done(context);
}

bool loop_job(uv_loop_t *loop, loop_callback *run, loop_callback *done, void *context) {
  struct job *job = calloc(1, sizeof *job);
  if (!job) {
    return false;
  }
  *job = (struct job){.run = run, .done = done, .context = context};
  job->request.data = job;
  uv_queue_work(loop, &job->request, run_job, end_job);
  return true;
}
