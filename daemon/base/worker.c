#include "daemon/base/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

struct job {
  struct job *next;
  loop_callback *run, *done;
  void *context;
};

struct jobs {
  struct job *first, **end;
};

struct worker {
  const char *name;
  pthread_t thread;
  bool has_thread, closing;
  unsigned taken; /* jobs whose done() has not been called */
  uv_async_t finished_some;
  pthread_mutex_t lock; /* protects the fields below */
  pthread_cond_t changed;
  struct jobs waiting, finished;
  bool ends;
};

static void push(struct jobs *jobs, struct job *job) {
  job->next = NULL;
  *jobs->end = job;
  jobs->end = &job->next;
}

static struct job *take_all(struct jobs *jobs) {
  struct job *first = jobs->first;
  *jobs = (struct jobs){.end = &jobs->first};
  return first;
}

static struct job *take_first(struct jobs *jobs) {
  struct job *first = jobs->first;
  jobs->first = first->next;
  jobs->end = jobs->first ? jobs->end : &jobs->first;
  return first;
}

/* -- on the thread ---------------------------------------------------------------------------------------------------- */

static void *work(void *context) {
  struct worker *worker = context;
  pthread_mutex_lock(&worker->lock);
  while (!worker->ends) {
    if (!worker->waiting.first) {
      pthread_cond_wait(&worker->changed, &worker->lock);
      continue;
    }
    struct job *job = take_first(&worker->waiting);
    pthread_mutex_unlock(&worker->lock);
    job->run(job->context);
    pthread_mutex_lock(&worker->lock);
    push(&worker->finished, job);
    atomic_thread_fence(memory_order_seq_cst); /* libuv before 1.53 can lose a wake-up without this fence */
    uv_async_send(&worker->finished_some);
  }
  pthread_mutex_unlock(&worker->lock);
  return NULL;
}

static bool start_thread(struct worker *worker) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  worker->has_thread = worker->has_thread || pthread_create(&worker->thread, NULL, work, worker) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (worker->has_thread) {
    pthread_setname_np(worker->thread, worker->name);
  }
  return worker->has_thread;
}

/* -- on the loop ------------------------------------------------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle) {
  struct worker *worker = handle->data;
  pthread_cond_destroy(&worker->changed);
  pthread_mutex_destroy(&worker->lock);
  free(worker);
}

static void end(struct worker *worker) {
  if (worker->has_thread) {
    pthread_mutex_lock(&worker->lock);
    worker->ends = true;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
  }
  uv_close((uv_handle_t *)&worker->finished_some, on_closed);
}

static void on_finished(uv_async_t *async) {
  struct worker *worker = async->data;
  pthread_mutex_lock(&worker->lock);
  struct job *job = take_all(&worker->finished);
  pthread_mutex_unlock(&worker->lock);
  while (job) {
    struct job *next = job->next;
    worker->taken--;
    job->done(job->context);
    free(job);
    job = next;
  }
  if (worker->taken == 0) {
    uv_unref((uv_handle_t *)async);
    if (worker->closing) {
      end(worker);
    }
  }
}

struct worker *worker_new(uv_loop_t *loop, const char *thread_name) {
  struct worker *worker = calloc(1, sizeof *worker);
  if (!worker || uv_async_init(loop, &worker->finished_some, on_finished) != 0) {
    free(worker);
    return NULL;
  }
  worker->name = thread_name;
  worker->waiting.end = &worker->waiting.first;
  worker->finished.end = &worker->finished.first;
  worker->finished_some.data = worker;
  uv_unref((uv_handle_t *)&worker->finished_some);
  pthread_mutex_init(&worker->lock, NULL);
  pthread_cond_init(&worker->changed, NULL);
  return worker;
}

bool worker_do(struct worker *worker, loop_callback *run, loop_callback *done, void *context) {
  struct job *job = worker->closing ? NULL : malloc(sizeof *job);
  if (!job || !start_thread(worker)) {
    free(job);
    return false;
  }
  *job = (struct job){.run = run, .done = done, .context = context};
  worker->taken++;
  uv_ref((uv_handle_t *)&worker->finished_some);
  pthread_mutex_lock(&worker->lock);
  push(&worker->waiting, job);
  pthread_cond_signal(&worker->changed);
  pthread_mutex_unlock(&worker->lock);
  return true;
}

struct worker *worker_close(struct worker *worker) {
  if (worker && !worker->closing) {
    worker->closing = true;
    if (worker->taken == 0) {
      end(worker);
    }
  }
  return NULL;
}
