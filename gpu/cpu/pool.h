/*
 * A pool of worker threads that run jobs: those of the highest priority first, as priority.h says, and of those the oldest.
 *
 * A job is embedded in what it belongs to, so pushing never allocates; it is in the queue at most once, and may be
 * pushed again as soon as its run() has begun. Workers hold no lock while they run a job and take no signals.
 */
#ifndef FRAMED_GPU_CPU_POOL_H
#define FRAMED_GPU_CPU_POOL_H

#include "gpu/priority.h"

#include <pthread.h>

#include <stdint.h>

struct pool_job {
  struct pool_job *next;
  enum gpu_priority priority; /* stays while it is in the queue */
  int64_t patience_ns;        /* how long a worker that spins looks for the next job after this one */
  void (*run)(struct pool_job *job);
};

struct pool;

/* Starts `workers` threads, at least 1. NULL with an errno in `code`. Up to `spinners` workers
 * without a job look for the next one for a while before they sleep. */
struct pool *pool_new(unsigned workers, unsigned spinners, int *code);
/* Lets all jobs run that are queued, then ends the workers. NULL is fine; returns NULL. */
struct pool *pool_free(struct pool *pool);

enum pool_end { POOL_BACK, POOL_FRONT };

/* Any thread; takes about a microsecond, most of it waking a worker that sleeps. The ends are those of its priority. */
void pool_push(struct pool *pool, struct pool_job *job, enum pool_end end);

/* Takes a lock that is held for a few instructions only: a thread that finds it taken tries again for some microseconds before
 * it asks the system to wait, which costs more. */
void pool_take_lock(pthread_mutex_t *lock);

#endif
