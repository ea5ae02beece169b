/*
 * The worker pool; see pool.h.
 *
 * Waking a sleeping thread costs more than a small frame, so a worker that runs out of jobs looks for the next one before it
 * sleeps, for as long as its last job says; at most as many workers do so as the pool's owner wants. What makes skipping the
 * wake-up safe: `spinning` changes under the lock, and a worker that stops spinning looks at the queue under the same lock
 * before it sleeps; so while there are no more jobs than workers that spin, each job has one that will find it.
 *
 * Workers sleep at a semaphore: condition variables of glibc before 2.41 can lose a wake-up (its bug 25847), and a lost one
 * here is a frame that hangs, or an end that never comes.
 */
#include "gpu/cpu/pool.h"

#include "gpu/backend.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

enum { TRIES = 400 };

struct pool {
  pthread_mutex_t lock;
  sem_t woken; /* one for each worker that is to wake up */
  struct queue {
    struct pool_job *first, **last;
  } queues[PRIORITIES]; /* by rank */
  struct priority_turns turns;
  _Atomic unsigned length;               /* changes under the lock; read without it by workers that spin */
  unsigned sleeping, spinning, spinners; /* of the workers: how many do and are not woken yet, and how many may spin */
  bool stopping;
  unsigned count;
  pthread_t threads[];
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

void pool_take_lock(pthread_mutex_t *lock) {
  for (int i = 0; i < TRIES; i++) {
    if (pthread_mutex_trylock(lock) == 0) {
      return;
    }
    relax();
  }
  pthread_mutex_lock(lock);
}

static void spin(struct pool *pool, int64_t until) {
  while (atomic_load_explicit(&pool->length, memory_order_relaxed) == 0 && gpu_now() < until) {
    relax();
  }
}

/* Waits until there may be something to do. Called and left with the lock held. Another may be quicker, and then what is
 * left of the time is for the job after it. */
static void wait_for_work(struct pool *pool, int64_t until) {
  if (pool->spinning < pool->spinners && gpu_now() < until) {
    pool->spinning++;
    pthread_mutex_unlock(&pool->lock);
    spin(pool, until);
    pool_take_lock(&pool->lock);
    pool->spinning--;
    return;
  }
  pool->sleeping++;
  pthread_mutex_unlock(&pool->lock);
  while (sem_wait(&pool->woken) != 0) {
  }
  pool_take_lock(&pool->lock);
}

/* The oldest job of those whose turn it is. */
static struct pool_job *take_first(struct pool *pool) {
  unsigned waiting = 0;
  for (unsigned rank = 0; rank < PRIORITIES; rank++) {
    waiting |= pool->queues[rank].first ? 1U << rank : 0;
  }
  struct queue *queue = &pool->queues[priority_next(&pool->turns, waiting)];
  struct pool_job *job = queue->first;
  if (job) {
    queue->first = job->next;
    queue->last = queue->first ? queue->last : &queue->first;
    atomic_fetch_sub_explicit(&pool->length, 1, memory_order_relaxed);
  }
  return job;
}

/* A job, or NULL when the pool stops and none is left. */
static struct pool_job *take(struct pool *pool, int64_t patience_ns) {
  int64_t until = patience_ns > 0 ? gpu_now() + patience_ns : 0;
  pool_take_lock(&pool->lock);
  while (atomic_load_explicit(&pool->length, memory_order_relaxed) == 0 && !pool->stopping) {
    wait_for_work(pool, until);
  }
  struct pool_job *job = atomic_load_explicit(&pool->length, memory_order_relaxed) > 0 ? take_first(pool) : NULL;
  pthread_mutex_unlock(&pool->lock);
  return job;
}

static void *work(void *argument) {
  struct pool *pool = argument;
  struct pool_job *job;
  int64_t patience_ns = 0;
  while ((job = take(pool, patience_ns))) {
    patience_ns = job->patience_ns; /* afterwards it may be in the queue again */
    job->run(job);
  }
  return NULL;
}

void pool_push(struct pool *pool, struct pool_job *job, enum pool_end end) {
  struct queue *queue = &pool->queues[priority_rank(job->priority)];
  pool_take_lock(&pool->lock);
  if (end == POOL_FRONT) {
    job->next = queue->first;
    queue->last = queue->first ? queue->last : &job->next;
    queue->first = job;
  } else {
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
  }
  unsigned before = atomic_fetch_add_explicit(&pool->length, 1, memory_order_relaxed);
  bool wake = pool->sleeping > 0 && before >= pool->spinning;
  pool->sleeping -= wake;
  pthread_mutex_unlock(&pool->lock);
  if (wake) {
    sem_post(&pool->woken);
  }
}

static int start_worker(struct pool *pool) {
  int code = gpu_thread_new(&pool->threads[pool->count], "framed-pool", work, pool);
  if (code == 0) {
    gpu_tell_of_thread(pool->threads[pool->count++]);
  }
  return code;
}

struct pool *pool_new(unsigned workers, unsigned spinners, int *code) {
  struct pool *pool = calloc(1, sizeof *pool + workers * sizeof pool->threads[0]);
  if (!pool) {
    *code = ENOMEM;
    return NULL;
  }
  pthread_mutex_init(&pool->lock, NULL);
  sem_init(&pool->woken, 0, 0);
  for (unsigned rank = 0; rank < PRIORITIES; rank++) {
    pool->queues[rank].last = &pool->queues[rank].first;
  }
  pool->spinners = spinners;
  for (unsigned i = 0; i < workers; i++) {
    *code = start_worker(pool);
    if (*code != 0) {
      return pool_free(pool);
    }
  }
  return pool;
}

struct pool *pool_free(struct pool *pool) {
  if (!pool) {
    return NULL;
  }
  pool_take_lock(&pool->lock);
  pool->stopping = true;
  pthread_mutex_unlock(&pool->lock);
  for (unsigned i = 0; i < pool->count; i++) {
    sem_post(&pool->woken);
  }
  for (unsigned i = 0; i < pool->count; i++) {
    pthread_join(pool->threads[i], NULL);
  }
  sem_destroy(&pool->woken);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
  return NULL;
}
