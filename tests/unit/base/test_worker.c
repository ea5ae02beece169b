/* A thread for long jobs: their order, what keeps the loop, and its end. */
#include "daemon/base/worker.h"

#include "tests/unit/runner.h"

enum { JOBS = 20 };

static uv_loop_t loop;
static struct worker *worker;
static unsigned order[JOBS], ran, done;

static void set_up(void) {
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  worker = worker_new(&loop, "framed-test");
  ck_assert_ptr_nonnull(worker);
  ran = done = 0;
}

/* A loop that closes without a handle has had everything given back. */
static void tear_down(void) {
  worker = worker_close(worker);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void run(void *context) { order[ran++] = *(unsigned *)context; }

static void count(void *context) {
  (void)context;
  done++;
}

START_TEST(jobs_run_in_their_order_and_keep_the_loop) {
  static unsigned numbers[JOBS];
  for (unsigned i = 0; i < JOBS; i++) {
    numbers[i] = i;
    ck_assert(worker_do(worker, run, count, &numbers[i]));
  }
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(done, JOBS);
  for (unsigned i = 0; i < JOBS; i++) {
    ck_assert_uint_eq(order[i], i);
  }
}
END_TEST

START_TEST(a_worker_that_closes_ends_what_it_has_taken) {
  static unsigned number;
  ck_assert(worker_do(worker, run, count, &number));
  ck_assert(worker_do(worker, run, count, &number));
  struct worker *closed = worker;
  worker = worker_close(worker);
  ck_assert(!worker_do(closed, run, count, &number));
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(done, 2);
}
END_TEST

START_TEST(a_worker_without_a_job_has_no_thread_and_keeps_nothing) { ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0); }
END_TEST

Suite *worker_suite(void);

Suite *worker_suite(void) {
  Suite *suite = suite_create("worker");
  TCase *cases = tcase_create("worker");
  tcase_add_checked_fixture(cases, set_up, tear_down);
  tcase_add_test(cases, jobs_run_in_their_order_and_keep_the_loop);
  tcase_add_test(cases, a_worker_that_closes_ends_what_it_has_taken);
  tcase_add_test(cases, a_worker_without_a_job_has_no_thread_and_keeps_nothing);
  suite_add_tcase(suite, cases);
  return suite;
}
