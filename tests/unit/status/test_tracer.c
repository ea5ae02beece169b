/* Taking traces: from when to when, of whom, how many at once, and every way to end one. */
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/status/trace.h"
#include "daemon/status/tracer.h"
#include "tests/unit/runner.h"
#include "tests/unit/status/fake_server.h"

enum { SHORT_MS = 30, LONGER_MS = 3000 /* than anybody has no processor */, LONG_MS = 60000 };

/* What became of an order. */
struct outcome {
  struct trace *trace;
  int failed; /* its HTTP status */
  char error[128];
  bool unwanted;
};

static struct server *server;
static struct tracer *tracer;

static void set_up(void) {
  server = fake_server_new();
  tracer = tracer_new(&server->ops);
}

static void tear_down(void) {
  tracer_stop(tracer);
  uv_run(&server->loop, UV_RUN_DEFAULT);
  tracer_free(tracer);
  ck_assert(fake_server_free(server));
}

static bool is_wanted(void *context) { return !((struct outcome *)context)->unwanted; }

static void on_ready(void *context, struct trace *trace) { ((struct outcome *)context)->trace = trace; }

static void on_failed(void *context, int http_status, json_t *body) {
  struct outcome *outcome = context;
  outcome->failed = http_status;
  snprintf(outcome->error, sizeof outcome->error, "%s", json_string_value(json_object_get(body, "error")));
  json_decref(body);
}

static void take(struct outcome *outcome, int64_t ms) {
  const struct trace_order order = {
      .duration_ns = ms * NS_PER_MS, .wanted = is_wanted, .ready = on_ready, .failed = on_failed, .context = outcome};
  *outcome = (struct outcome){0};
  tracer_take(tracer, &order);
}

static void await(const struct outcome *outcome) {
  while (!outcome->trace && !outcome->failed) {
    uv_run(&server->loop, UV_RUN_ONCE);
  }
}

/* One of a pipeline's frames gets its fate. */
static void settle(unsigned pipeline, uint64_t sequence) {
  const struct frame frame = {.sequence = sequence, .first_byte = 1, .complete = 2};
  if (server->pipelines[pipeline].traced) {
    trace_ring_append(server->pipelines[pipeline].ring, &frame, FATE_LATE, 3);
  }
}

START_TEST(takes_what_happens_from_its_begin_to_its_end) {
  struct outcome outcome;
  settle(0, 1);
  take(&outcome, SHORT_MS);
  ck_assert(server->pipelines[0].traced && server->pipelines[1].traced);
  settle(0, 2);
  settle(1, 3);
  await(&outcome);
  ck_assert(!server->pipelines[0].traced && !server->pipelines[1].traced);
  ck_assert_uint_eq(outcome.trace->frame_count, 2);
  ck_assert_uint_eq(outcome.trace->frames[0].record.sequence, 2);
  ck_assert_str_eq(outcome.trace->subjects[outcome.trace->frames[0].subject].pipeline, "cam0");
  ck_assert_uint_eq(outcome.trace->frames[1].record.sequence, 3);
  ck_assert_str_eq(outcome.trace->subjects[outcome.trace->frames[1].subject].pipeline, "idle");
  ck_assert_int_ge(outcome.trace->ended - outcome.trace->began, SHORT_MS * NS_PER_MS);
  ck_assert(trace_has(&outcome.trace->frames[0], TRACE_RECEIVE));
  ck_assert(!outcome.trace->full);
  trace_free(outcome.trace);
}
END_TEST

START_TEST(the_next_trace_does_not_see_the_last_ones_frames) {
  struct outcome first, second;
  take(&first, SHORT_MS);
  settle(0, 1);
  await(&first);
  take(&second, SHORT_MS);
  settle(0, 2);
  await(&second);
  ck_assert_uint_eq(second.trace->frame_count, 1);
  ck_assert_uint_eq(second.trace->frames[0].record.sequence, 2);
  ck_assert_uint_eq(second.trace->overwritten, 0);
  trace_free(first.trace);
  trace_free(second.trace);
}
END_TEST

START_TEST(traces_at_once_have_each_its_own_time) {
  struct outcome one, other;
  take(&one, SHORT_MS);
  settle(0, 1);
  take(&other, LONGER_MS);
  settle(0, 2);
  await(&one);
  ck_assert(server->pipelines[0].traced);
  settle(0, 3);
  await(&other);
  ck_assert(!server->pipelines[0].traced);
  ck_assert_uint_eq(one.trace->frame_count, 2);
  ck_assert_uint_eq(other.trace->frame_count, 2);
  ck_assert_uint_eq(other.trace->frames[0].record.sequence, 2);
  ck_assert_uint_eq(other.trace->frames[1].record.sequence, 3);
  trace_free(one.trace);
  trace_free(other.trace);
}
END_TEST

START_TEST(only_so_many_at_once_until_they_are_sent) {
  struct outcome outcomes[TRACER_MOST], more;
  for (int i = 0; i < TRACER_MOST; i++) {
    take(&outcomes[i], SHORT_MS);
  }
  take(&more, SHORT_MS);
  ck_assert_int_eq(more.failed, 503);
  for (int i = 0; i < TRACER_MOST; i++) {
    await(&outcomes[i]);
  }
  take(&more, SHORT_MS);
  ck_assert_int_eq(more.failed, 503); /* they are taken, and still in memory */
  trace_free(outcomes[0].trace);
  take(&more, SHORT_MS);
  await(&more);
  ck_assert_ptr_nonnull(more.trace);
  trace_free(more.trace);
  for (int i = 1; i < TRACER_MOST; i++) {
    trace_free(outcomes[i].trace);
  }
}
END_TEST

START_TEST(what_comes_too_fast_is_counted) {
  struct outcome outcome;
  take(&outcome, SHORT_MS);
  for (uint64_t i = 0; i < 20000; i++) {
    settle(0, i);
  }
  await(&outcome);
  ck_assert_uint_gt(outcome.trace->overwritten, 0);
  ck_assert_uint_eq(outcome.trace->frame_count + outcome.trace->overwritten, 20000);
  ck_assert_uint_eq(outcome.trace->frames[outcome.trace->frame_count - 1].record.sequence, 19999);
  trace_free(outcome.trace);
}
END_TEST

START_TEST(a_full_trace_ends_early) {
  struct outcome outcome;
  take(&outcome, LONG_MS);
  while (!outcome.trace && !outcome.failed) {
    for (uint64_t i = 0; i < 5000; i++) {
      settle(0, i);
    }
    uv_run(&server->loop, UV_RUN_ONCE);
  }
  ck_assert(outcome.trace->full);
  ck_assert_uint_eq(outcome.trace->frame_count, TRACE_MOST_FRAMES);
  trace_free(outcome.trace);
}
END_TEST

START_TEST(nobody_waits_any_more) {
  struct outcome outcome, other;
  take(&outcome, LONG_MS);
  take(&other, LONG_MS);
  outcome.unwanted = true;
  await(&outcome);
  ck_assert_int_eq(outcome.failed, 503);
  ck_assert(server->pipelines[0].traced);
  other.unwanted = true;
  await(&other);
  ck_assert(!server->pipelines[0].traced);
}
END_TEST

START_TEST(a_new_session_joins) {
  struct outcome outcome;
  server->view.pipeline_count = 1;
  take(&outcome, LONGER_MS);
  server->view.pipeline_count = FAKE_PIPELINES;
  while (!server->pipelines[1].traced) {
    uv_run(&server->loop, UV_RUN_ONCE);
  }
  settle(1, 5);
  await(&outcome);
  ck_assert_uint_eq(outcome.trace->subject_count, 2);
  ck_assert_uint_eq(outcome.trace->frame_count, 1);
  ck_assert_uint_eq(outcome.trace->frames[0].subject, 1);
  trace_free(outcome.trace);
}
END_TEST

/* The session's pipeline is removed and frees it; what its ring holds is still read. */
START_TEST(a_session_may_go) {
  struct outcome outcome;
  take(&outcome, SHORT_MS);
  settle(1, 5);
  server->view.pipeline_count = 1;
  server->pipelines[1].ring = trace_ring_drop(server->pipelines[1].ring);
  await(&outcome);
  ck_assert_uint_eq(outcome.trace->frame_count, 1);
  ck_assert_uint_eq(outcome.trace->frames[0].record.sequence, 5);
  trace_free(outcome.trace);
}
END_TEST

START_TEST(the_end_of_the_daemon_answers_all) {
  struct outcome running, next;
  take(&running, LONG_MS);
  tracer_stop(tracer);
  ck_assert_int_eq(running.failed, 503);
  ck_assert(!server->pipelines[0].traced);
  take(&next, SHORT_MS);
  ck_assert_int_eq(next.failed, 503);
  ck_assert_str_eq(next.error, "the daemon is stopping");
  tracer_stop(tracer);
  tracer_stop(NULL);
}
END_TEST

/* Stopped between the last reading and the answer: that trace is still given. */
START_TEST(the_end_finds_a_trace_being_laid_out) {
  struct outcome outcome;
  take(&outcome, SHORT_MS);
  while (server->pipelines[0].traced) {
    uv_run(&server->loop, UV_RUN_ONCE);
  }
  tracer_stop(tracer);
  await(&outcome);
  ck_assert_ptr_nonnull(outcome.trace);
  trace_free(outcome.trace);
}
END_TEST

Suite *tracer_suite(void);
Suite *tracer_suite(void) {
  Suite *suite = suite_create("tracer");
  TCase *cases = tcase_create("tracer");
  tcase_set_timeout(cases, 60);
  tcase_add_checked_fixture(cases, set_up, tear_down);
  tcase_add_test(cases, takes_what_happens_from_its_begin_to_its_end);
  tcase_add_test(cases, the_next_trace_does_not_see_the_last_ones_frames);
  tcase_add_test(cases, traces_at_once_have_each_its_own_time);
  tcase_add_test(cases, only_so_many_at_once_until_they_are_sent);
  tcase_add_test(cases, what_comes_too_fast_is_counted);
  tcase_add_test(cases, a_full_trace_ends_early);
  tcase_add_test(cases, nobody_waits_any_more);
  tcase_add_test(cases, a_new_session_joins);
  tcase_add_test(cases, a_session_may_go);
  tcase_add_test(cases, the_end_of_the_daemon_answers_all);
  tcase_add_test(cases, the_end_finds_a_trace_being_laid_out);
  suite_add_tcase(suite, cases);
  return suite;
}
