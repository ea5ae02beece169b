/* The worker pool, with workers that spin and without: every job runs, in order, whoever pushes it. */
#include "gpu/cpu/pool.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum { JOBS = 200, PUSHERS = 3 };

struct job {
  struct pool_job base; /* first */
  struct pool *pool;
  atomic_int runs;
  int order; /* when it ran, among the jobs of a pool of one */
  int again; /* how often it still pushes itself */
};

static atomic_int finished, ran;
static struct job jobs[PUSHERS][JOBS];

static void run(struct pool_job *base) {
  struct job *job = (struct job *)base;
  atomic_fetch_add(&job->runs, 1);
  job->order = atomic_fetch_add(&ran, 1);
  if (job->again > 0) {
    job->again--;
    pool_push(job->pool, &job->base, POOL_BACK);
  } else {
    atomic_fetch_add(&finished, 1);
  }
}

static struct pool *make(unsigned workers, unsigned spinners) {
  int code;
  struct pool *pool = pool_new(workers, spinners, &code);
  ck_assert_ptr_nonnull(pool);
  for (int i = 0; i < PUSHERS * JOBS; i++) {
    struct job *job = &jobs[i / JOBS][i % JOBS];
    job->base.run = run;
    job->base.patience_ns = i % 3 * 15000;
    job->pool = pool;
    job->again = i % 5;
  }
  return pool;
}

static void nap(long ns) { nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); }

/* Now and then slowly, so that workers fall asleep, spin, or are just about to do either. */
static void *push_all(void *argument) {
  struct job *mine = argument;
  for (int i = 0; i < JOBS; i++) {
    pool_push(mine[i].pool, &mine[i].base, i % 7 == 0 ? POOL_FRONT : POOL_BACK);
    if (i % 4 == 0) {
      nap(i % 3 * 12000);
    }
  }
  return NULL;
}

START_TEST(every_job_runs) {
  pthread_t pushers[PUSHERS];
  struct pool *pool = make(1 + (unsigned)_i / 3, (unsigned)_i % 3);
  for (int i = 0; i < PUSHERS; i++) {
    ck_assert_int_eq(pthread_create(&pushers[i], NULL, push_all, jobs[i]), 0);
  }
  for (int i = 0; i < PUSHERS; i++) {
    pthread_join(pushers[i], NULL);
  }
  while (atomic_load(&finished) < PUSHERS * JOBS) { /* the test's own limit says "never" */
    nap(100000);
  }
  pool_free(pool);
  for (int i = 0; i < PUSHERS * JOBS; i++) {
    ck_assert_int_eq(atomic_load(&jobs[i / JOBS][i % JOBS].runs), 1 + i % 5);
  }
}
END_TEST

static atomic_bool entered, opened;

static void wait_for_opening(struct pool_job *base) {
  (void)base;
  atomic_store(&entered, true);
  while (!atomic_load(&opened)) {
    nap(100000);
  }
}

/* While its one worker is kept, jobs queue up: those pushed to the front run before the others, the last one first. */
START_TEST(jobs_run_in_order) {
  int code;
  struct pool *pool = pool_new(1, _i == 1, &code);
  struct pool_job gate = {.run = wait_for_opening};
  struct job queued[4] = {0};
  pool_push(pool, &gate, POOL_BACK);
  while (!atomic_load(&entered)) {
    nap(100000);
  }
  for (int i = 0; i < 4; i++) {
    queued[i].base.run = run;
    pool_push(pool, &queued[i].base, i < 2 ? POOL_BACK : POOL_FRONT);
  }
  atomic_store(&opened, true);
  pool_free(pool); /* runs what is queued */
  ck_assert_int_eq(atomic_load(&finished), 4);
  ck_assert_int_lt(queued[0].order, queued[1].order);
  ck_assert_int_lt(queued[3].order, queued[2].order);
  ck_assert_int_lt(queued[2].order, queued[0].order);
}
END_TEST

/* While its one worker is kept, jobs of all priorities queue up, the lowest first. The highest run first and in order, and each
 * lower one that was passed over often enough goes in between. */
START_TEST(higher_jobs_run_first_and_lower_ones_too) {
  enum { HIGH = 2 * PRIORITY_PATIENCE, LOWER = 2 };
  int code;
  struct pool *pool = pool_new(1, 0, &code);
  struct pool_job gate = {.run = wait_for_opening};
  struct job low[LOWER] = {0}, normal[LOWER] = {0}, high[HIGH] = {0};
  pool_push(pool, &gate, POOL_BACK);
  while (!atomic_load(&entered)) {
    nap(100000);
  }
  for (int i = 0; i < LOWER; i++) {
    low[i].base = (struct pool_job){.run = run, .priority = GPU_PRIORITY_LOW};
    normal[i].base = (struct pool_job){.run = run};
    pool_push(pool, &low[i].base, POOL_FRONT);
    pool_push(pool, &normal[i].base, POOL_BACK);
  }
  for (int i = 0; i < HIGH; i++) {
    high[i].base = (struct pool_job){.run = run, .priority = GPU_PRIORITY_HIGH};
    pool_push(pool, &high[i].base, POOL_BACK);
  }
  atomic_store(&opened, true);
  pool_free(pool);
  for (int i = 0; i < PRIORITY_PATIENCE; i++) {
    ck_assert_int_eq(high[i].order, i);
  }
  ck_assert_int_eq(low[1].order, PRIORITY_PATIENCE); /* it was in front of the other */
  ck_assert_int_eq(normal[0].order, PRIORITY_PATIENCE + 1);
  ck_assert_int_eq(high[PRIORITY_PATIENCE].order, PRIORITY_PATIENCE + 2);
  ck_assert_int_lt(low[0].order, high[HIGH - 1].order);
  ck_assert_int_lt(normal[1].order, high[HIGH - 1].order);
}
END_TEST

/* A pool of sleeping workers ends at once, and so does none at all. */
START_TEST(idle_pools_end) {
  int code;
  struct pool *pool = pool_new(4, _i == 1, &code);
  ck_assert_ptr_nonnull(pool);
  ck_assert_ptr_null(pool_free(pool));
  ck_assert_ptr_null(pool_free(NULL));
}
END_TEST

Suite *pool_suite(void);

Suite *pool_suite(void) {
  Suite *suite = suite_create("pool");
  TCase *group = tcase_create("jobs");
  tcase_set_timeout(group, 120);
  tcase_add_loop_test(group, every_job_runs, 0, 12);
  tcase_add_loop_test(group, jobs_run_in_order, 0, 2);
  tcase_add_test(group, higher_jobs_run_first_and_lower_ones_too);
  tcase_add_loop_test(group, idle_pools_end, 0, 2);
  suite_add_tcase(suite, group);
  return suite;
}
