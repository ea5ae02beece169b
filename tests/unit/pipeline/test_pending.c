/* Requests that wait: each is answered once, by whatever comes first. Also the loop's own tools. */
#include "daemon/pipeline/private.h"

#include "daemon/base/loop.h"
#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"

static uv_loop_t loop;
static struct pending_requests pending;
static int answered[3];

static void on_answer(void *context, int http_status, json_t *body) {
  *(int *)context += http_status;
  json_decref(body);
}

static void on_expired(void *owner, server_answer *answer, void *context) {
  ck_assert_ptr_eq(owner, &pending);
  answer_error(answer, context, 504, "ask again", "still busy");
}

static void make(void) {
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  pending = (struct pending_requests){.loop = &loop, .expired = on_expired, .owner = &pending};
  answered[0] = answered[1] = answered[2] = 0;
}

/* Whatever is still open would keep the loop running or busy. */
static void close_loop(void) {
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static unsigned take_all(void) {
  unsigned taken = 0;
  server_answer *answer;
  void *context;
  while (pending_take(&pending, &answer, &context)) {
    answer(context, 200, json_object());
    taken++;
  }
  return taken;
}

START_TEST(every_request_is_answered_once) {
  for (int i = 0; i < 3; i++) {
    pending_add(&pending, 60 * NS_PER_S, on_answer, &answered[i]);
  }
  ck_assert_uint_eq(take_all(), 3);
  ck_assert_uint_eq(take_all(), 0);
  ck_assert_int_eq(answered[0] + answered[1] + answered[2], 600);
}
END_TEST

START_TEST(a_request_expires_by_itself) {
  pending_add(&pending, 60 * NS_PER_S, on_answer, &answered[0]);
  pending_add(&pending, NS_PER_MS, on_answer, &answered[1]);
  pending_add(&pending, 60 * NS_PER_S, on_answer, &answered[2]);
  while (answered[1] == 0) {
    uv_run(&loop, UV_RUN_ONCE);
  }
  ck_assert_int_eq(answered[1], 504);
  ck_assert_uint_eq(take_all(), 2);
  ck_assert_int_eq(answered[0], 200);
  ck_assert_int_eq(answered[2], 200);
}
END_TEST

/* -- timers and jobs --------------------------------------------------------------------------------------------- */

static void count(void *context) { (*(int *)context)++; }

START_TEST(a_closed_timer_never_calls) {
  int calls = 0;
  struct loop_timer *timer = loop_timer_new(&loop, count, &calls);
  loop_timer_start(timer, 0, 0);
  ck_assert_ptr_null(loop_timer_close(timer));
  ck_assert_ptr_null(loop_timer_close(NULL));
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(calls, 0);
}
END_TEST

START_TEST(a_job_is_done_after_it_ran) {
  int calls = 0;
  ck_assert(loop_job(&loop, count, count, &calls));
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(calls, 2);
}
END_TEST

START_TEST(a_regular_file_cannot_be_watched) {
  int calls = 0;
  FILE *file = tmpfile();
  ck_assert_ptr_null(loop_watch_new(&loop, fileno(file), count, &calls));
  fclose(file);
}
END_TEST

Suite *pending_suite(void);
Suite *pending_suite(void) {
  Suite *suite = suite_create("pending");
  TCase *all = tcase_create("all");
  tcase_add_checked_fixture(all, make, close_loop);
  tcase_add_test(all, every_request_is_answered_once);
  tcase_add_test(all, a_request_expires_by_itself);
  tcase_add_test(all, a_closed_timer_never_calls);
  tcase_add_test(all, a_job_is_done_after_it_ran);
  tcase_add_test(all, a_regular_file_cannot_be_watched);
  suite_add_tcase(suite, all);
  return suite;
}
