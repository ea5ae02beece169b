/* What a viewer gets of a trace: hand-made frames, their spans, rows and arrows, as the JSON of the text has them. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"
#include "tests/unit/status/trace_events.h"
#include "tests/unit/status/trace_frames.h"

START_TEST(a_frame_has_every_span) {
  struct trace *trace = begin_trace(1);
  struct trace_record record = frame_at(7, 1000 * US);
  add_frame(trace, 0, &record);
  json_t *events = finish_trace(trace);
  static const struct {
    const char *name, *process, *thread;
    double begins, lasts;
    unsigned skip;
  } spans[] = {{"receive", "cam0", "receive", 1000, 10, 0},
               {"queue", "cam0", "queue", 1010, 10, 0},
               {"frame", "cam0", "stream 1", 1025, 50, 0},
               {"copy in", "cam0", "stream 1", 1035, 10, 0},
               {"copy in", "device 1", "copy engine in", 1035, 10, 1},
               {"kernel", "cam0", "stream 1", 1050, 15, 0},
               {"copy out", "cam0", "stream 1", 1065, 10, 0},
               {"copy out", "device 1", "copy engine out", 1065, 10, 1},
               {"wake", "cam0", "wake", 1075, 5, 0},
               {"emit", "cam0", "emit", 1080, 20, 0}};
  for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
    const json_t *event = event_find(events, "X", spans[i].name, spans[i].skip);
    expect_event_row(events, event, spans[i].process, spans[i].thread);
    expect_event_span(event, spans[i].begins, spans[i].lasts);
    ck_assert_double_eq(event_frame(event), 7);
  }
  json_decref(events);
}
END_TEST

START_TEST(the_first_event_sums_up) {
  struct trace *trace = begin_trace(1);
  struct trace_record record = frame_at(0, 1000 * US);
  add_frame(trace, 0, &record);
  trace->overwritten = 12;
  trace->full = true;
  json_t *events = finish_trace(trace);
  const json_t *first = json_array_get(events, 0), *sums = json_object_get(first, "args");
  ck_assert(event_is(first, "i", "trace"));
  ck_assert_double_eq(event_number(first, "ts"), 5);
  ck_assert_double_eq(event_number(sums, "frames"), 1);
  ck_assert_double_eq(event_number(sums, "overwritten"), 12);
  ck_assert_double_eq(event_number(sums, "seconds"), 2.5);
  ck_assert(json_is_true(json_object_get(sums, "full")));
  ck_assert_str_eq(event_word(sums, "backend"), "cuda");
  json_decref(events);
}
END_TEST

START_TEST(an_empty_trace_is_a_trace) {
  json_t *events = finish_trace(begin_trace(3));
  ck_assert_uint_eq(json_array_size(events), 4);
  expect_event_row(events, json_array_get(events, 0), "framed", "trace");
  json_decref(events);
}
END_TEST

/* From the first span to the last, in the order of time, and each end of it lies within a span of that frame. */
START_TEST(arrows_lead_along_the_spans) {
  struct trace *trace = begin_trace(1);
  for (unsigned i = 0; i < 4; i++) {
    struct trace_record record = frame_at(i, (1000 + 30 * i) * US);
    add_frame(trace, 0, &record);
  }
  json_t *events = finish_trace(trace);
  ck_assert_uint_eq(event_count(events, "s", "frame"), 4);
  ck_assert_uint_eq(event_count(events, "t", "frame"), 4 * 5);
  ck_assert_uint_eq(event_count(events, "f", "frame"), 4);
  double last[5] = {0};
  for (size_t i = 0; i < json_array_size(events); i++) {
    const json_t *arrow = json_array_get(events, i);
    if (!strchr("stf", event_word(arrow, "ph")[0])) {
      continue;
    }
    unsigned id = (unsigned)event_number(arrow, "id"), enclosing = 0;
    ck_assert_double_ge(event_number(arrow, "ts"), last[id]);
    last[id] = event_number(arrow, "ts");
    for (size_t k = 0; k < json_array_size(events); k++) {
      const json_t *span = json_array_get(events, k);
      enclosing += event_word(span, "ph")[0] == 'X' && event_number(span, "pid") == event_number(arrow, "pid") &&
                   event_number(span, "tid") == event_number(arrow, "tid") && event_frame(span) == id - 1 &&
                   event_number(span, "ts") <= last[id] && last[id] <= event_number(span, "ts") + event_number(span, "dur");
    }
    ck_assert_uint_ge(enclosing, 1);
  }
  json_decref(events);
}
END_TEST

START_TEST(an_untimed_frame_keeps_its_host_rows) {
  struct trace *trace = begin_trace(1);
  struct trace_record record = frame_at(0, 1000 * US);
  record.begin = record.copied_in = record.computed = record.copied_out = record.h2d = record.kernel = record.d2h = 0;
  add_frame(trace, 0, &record);
  json_t *events = finish_trace(trace);
  ck_assert_uint_eq(event_count(events, "X", "receive"), 1);
  ck_assert_uint_eq(event_count(events, "X", "queue"), 1);
  expect_event_span(event_find(events, "X", "emit", 0), 1080, 20);
  ck_assert_ptr_null(event_find(events, "X", "kernel", 0));
  ck_assert_ptr_null(event_find(events, "X", "wake", 0));
  ck_assert_uint_eq(event_count(events, "s", "frame") + event_count(events, "t", "frame") + event_count(events, "f", "frame"),
                    3);
  json_decref(events);
}
END_TEST

START_TEST(dropped_frames_say_their_fate) {
  struct trace *trace = begin_trace(1);
  const struct trace_record newest = {.sequence = 1, .first_byte = 900 * US, .settled = 900 * US, .fate = FATE_NEWEST};
  const struct trace_record late = {
      .sequence = 2, .first_byte = 910 * US, .complete = 920 * US, .settled = 990 * US, .fate = FATE_LATE};
  struct trace_record unread = frame_at(3, 1000 * US);
  unread.fate = FATE_UNREAD;
  add_frame(trace, 0, &newest);
  add_frame(trace, 0, &late);
  add_frame(trace, 0, &unread);
  json_t *events = finish_trace(trace);
  ck_assert_double_eq(event_number(event_find(events, "i", "newest", 0), "ts"), 900);
  ck_assert_double_eq(event_number(event_find(events, "i", "late", 0), "ts"), 990);
  ck_assert_double_eq(event_frame(event_find(events, "i", "unread", 0)), 3);
  expect_event_row(events, event_find(events, "i", "late", 0), "cam0", "dropped");
  ck_assert_uint_eq(event_count(events, "X", "receive"), 2);
  ck_assert_uint_eq(event_count(events, "X", "queue"), 1);
  ck_assert_uint_eq(event_count(events, "X", "emit"), 0);
  json_decref(events);
}
END_TEST

/* Some viewers sort rows by name unless they are told an order; others take that of the numbers. */
START_TEST(rows_stand_in_the_order_of_the_road) {
  static const char *const flow[] = {"receive", "queue", "stream 0", "stream 1", "wake", "emit", "dropped"};
  struct trace *trace = begin_trace(1);
  for (unsigned i = 0; i < 4; i++) {
    struct trace_record record = frame_at(i, (1000 + 200 * i) * US);
    record.fate = i == 3 ? FATE_UNREAD : FATE_EMITTED;
    add_frame(trace, 0, &record);
  }
  json_t *events = finish_trace(trace);
  double process = event_number(event_find(events, "X", "receive", 0), "pid"), last = 0;
  for (size_t i = 0; i < sizeof flow / sizeof flow[0]; i++) {
    double least = 0;
    const char *name = "(none)";
    for (unsigned k = 0; event_find(events, "M", "thread_sort_index", k); k++) {
      const json_t *event = event_find(events, "M", "thread_sort_index", k);
      double index = event_number(json_object_get(event, "args"), "sort_index");
      ck_assert_double_eq(index, event_number(event, "tid"));
      if (event_number(event, "pid") == process && index > last && (least == 0 || index < least)) {
        least = index;
        name = event_name_of(events, "thread_name", process, index);
      }
    }
    ck_assert_str_eq(name, flow[i]);
    last = least;
  }
  json_decref(events);
}
END_TEST

START_TEST(a_trace_is_bounded) {
  struct trace *trace = begin_trace(1);
  struct trace_record *records = calloc(TRACE_MOST_FRAMES, sizeof *records);
  ck_assert(trace_add_records(trace, 0, records, TRACE_MOST_FRAMES - 1));
  ck_assert(trace_add_records(trace, 0, records, 1));
  ck_assert(!trace_add_records(trace, 0, records, 1));
  ck_assert_uint_eq(trace->frame_count, TRACE_MOST_FRAMES);
  trace_free(trace);
  trace = begin_trace(1);
  ck_assert(trace_add_records(trace, 0, records, TRACE_MOST_FRAMES - 1));
  ck_assert(!trace_add_records(trace, 0, records, 2));
  ck_assert_uint_eq(trace->frame_count, TRACE_MOST_FRAMES);
  trace_free(trace);
  free(records);
}
END_TEST

/* Every row of every step, and the longest name. */
START_TEST(the_most_rows_fit) {
  struct trace *trace = trace_new(NULL);
  struct trace_subject subject = {.session = 1023, .sessions = 1024, .device_count = 1, .devices = {63}};
  trace->backend = "cpu";
  memset(subject.pipeline, 'n', sizeof subject.pipeline - 1);
  ck_assert(trace_add_subject(trace, &subject));
  for (unsigned i = 0; i < 2 * TRACE_ROWS; i++) {
    struct trace_record record = {.sequence = INT64_MAX,
                                  .first_byte = INT64_MAX / 2,
                                  .complete = INT64_MAX / 2 + 9,
                                  .dispatched = INT64_MAX / 2 + 90,
                                  .begin = INT64_MAX / 2 + 90,
                                  .copied_in = INT64_MAX / 2 + 90 + 9 * i + 3,
                                  .computed = INT64_MAX / 2 + 90 + 9 * i + 6,
                                  .copied_out = INT64_MAX / 2 + 90 + 9 * i + 9,
                                  .h2d = 2,
                                  .kernel = 2,
                                  .d2h = 2,
                                  .seen = INT64_MAX / 2 + 10000,
                                  .settled = INT64_MAX / 2 + 20000,
                                  .fate = i % 4 == 0 ? FATE_CLIENT_GONE : FATE_EMITTED,
                                  .stream = i % GPU_MAX_SLOTS};
    add_frame(trace, 0, &record);
  }
  json_t *events = finish_trace(trace);
  ck_assert_uint_eq(event_count(events, "X", "receive"), TRACE_ROWS);
  ck_assert_uint_eq(event_count(events, "X", "emit"), TRACE_ROWS);
  ck_assert_uint_eq(event_count(events, "X", "kernel"), 2 * TRACE_ROWS);
  ck_assert_uint_eq(event_count(events, "i", "client_gone"), TRACE_ROWS / 2);
  expect_event_row(events, event_find(events, "X", "copy in", 1), "device 63", "copy engine in");
  ck_assert_double_lt(event_number(event_find(events, "X", "copy in", 1), "pid"),
                      event_number(event_find(events, "X", "kernel", 0), "pid"));
  json_decref(events);
}
END_TEST

Suite *trace_suite(void);
Suite *trace_suite(void) {
  Suite *suite = suite_create("trace");
  TCase *cases = tcase_create("trace");
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, a_frame_has_every_span);
  tcase_add_test(cases, the_first_event_sums_up);
  tcase_add_test(cases, an_empty_trace_is_a_trace);
  tcase_add_test(cases, arrows_lead_along_the_spans);
  tcase_add_test(cases, an_untimed_frame_keeps_its_host_rows);
  tcase_add_test(cases, dropped_frames_say_their_fate);
  tcase_add_test(cases, rows_stand_in_the_order_of_the_road);
  tcase_add_test(cases, a_trace_is_bounded);
  tcase_add_test(cases, the_most_rows_fit);
  suite_add_tcase(suite, cases);
  return suite;
}
