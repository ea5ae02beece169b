/* Times in a trace that lie across one another, of one frame or of several: who has an engine, a stream or a row when. */
#include <jansson.h>

#include "tests/unit/runner.h"
#include "tests/unit/status/trace_events.h"
#include "tests/unit/status/trace_frames.h"

enum { MANY = 100 };

/* The clock's anchor changed between two frames, and the device's times seem to go back. */
START_TEST(copies_follow_one_another) {
  struct trace *trace = begin_trace(2);
  struct trace_record one = frame_at(0, 1000 * US), other = frame_at(0, 1007 * US), behind = frame_at(2, 1040 * US);
  add_frame(trace, 1, &other);
  add_frame(trace, 0, &one);
  add_frame(trace, 0, &behind);
  json_t *events = finish_trace(trace);
  /* Of the engine's spans, which are every other one: 1035 to 1045, then what is left to 1052, then 1075 to 1085. */
  expect_event_span(event_find(events, "X", "copy in", 3), 1035, 10);
  expect_event_span(event_find(events, "X", "copy in", 1), 1045, 7);
  expect_event_span(event_find(events, "X", "copy in", 5), 1075, 10);
  /* Frames 0 and 2 of the first session share a stream. */
  expect_event_span(event_find(events, "X", "frame", 1), 1025, 50);
  expect_event_span(event_find(events, "X", "frame", 2), 1075, 40);
  json_decref(events);
}
END_TEST

/* The times of frame 0 were read first, and it got all the service while another session's frame had a part of it. */
START_TEST(an_engine_is_at_what_ends_first) {
  struct trace *trace = begin_trace(2);
  struct trace_record one = frame_at(0, 1000 * US), other = frame_at(1, 996 * US);
  other.h2d = other.kernel = other.d2h = 0;
  add_frame(trace, 0, &one);
  add_frame(trace, 1, &other);
  json_t *events = finish_trace(trace);
  expect_event_span(event_find(events, "X", "copy in", 3), 1021, 20);
  expect_event_span(event_find(events, "X", "copy in", 1), 1041, 4);
  expect_event_span(event_find(events, "X", "kernel", 1), 1041, 20);
  expect_event_span(event_find(events, "X", "kernel", 0), 1050, 15);
  expect_event_span(event_find(events, "X", "copy out", 3), 1061, 10);
  expect_event_span(event_find(events, "X", "copy out", 1), 1071, 4);
  json_decref(events);
}
END_TEST

START_TEST(what_the_host_saw_before_the_device_ended_is_no_wait) {
  struct trace *trace = begin_trace(1);
  struct trace_record record = frame_at(0, 1000 * US);
  record.seen = record.copied_out - 3 * US;
  add_frame(trace, 0, &record);
  json_t *events = finish_trace(trace);
  expect_event_span(event_find(events, "X", "wake", 0), 1071.999, 0.001); /* none at all would look like an event */
  expect_event_span(event_find(events, "X", "emit", 0), 1072, 28);
  json_decref(events);
}
END_TEST

/* Kernels copy small frames side by side, and beside a copy that an engine makes of a large one: none takes time from another.
 */
START_TEST(copies_by_kernels_are_on_their_streams_alone) {
  struct trace *trace = begin_trace(2);
  trace->subjects[0].copies_by_kernel = true;
  struct trace_record small[2] = {frame_at(0, 1000 * US), frame_at(1, 1000 * US)}, large = frame_at(2, 1000 * US);
  small[1].copied_in += US; /* both from 1035 us on */
  small[1].h2d += US;
  large.copied_in += 2 * US;
  large.h2d += 2 * US;
  add_frame(trace, 0, &small[0]);
  add_frame(trace, 0, &small[1]);
  add_frame(trace, 1, &large);
  json_t *events = finish_trace(trace);
  ck_assert_uint_eq(event_count(events, "X", "copy in"), 2 + 2);
  for (unsigned i = 0; i < 2; i++) {
    const json_t *copy = event_find(events, "X", "copy in", i);
    expect_event_row(events, copy, "cam0 session 0", i == 0 ? "stream 0" : "stream 1");
    expect_event_span(copy, 1035, 10 + i);
  }
  expect_event_row(events, event_find(events, "X", "copy in", 2), "cam0 session 1", "stream 0");
  expect_event_row(events, event_find(events, "X", "copy in", 3), "device 1", "copy engine in");
  expect_event_span(event_find(events, "X", "copy in", 3), 1035, 12);
  json_decref(events);
}
END_TEST

START_TEST(without_copy_engines_there_are_no_rows_of_them) {
  struct trace *trace = begin_trace(1);
  trace->subjects[0].copies_by_kernel = true;
  struct trace_record record = frame_at(7, 1000 * US);
  add_frame(trace, 0, &record);
  json_t *events = finish_trace(trace);
  ck_assert_uint_eq(event_count(events, "X", "copy in"), 1);
  ck_assert_uint_eq(event_count(events, "M", "process_name"), 2); /* framed and cam0 */
  static const char *const way[] = {"receive", "queue", "stream 1", "stream 1", "stream 1", "wake", "emit"};
  for (unsigned i = 0; i < sizeof way / sizeof way[0]; i++) {
    const char *phase = i == 0 ? "s" : i == 6 ? "f" : "t";
    expect_event_row(events, event_find(events, phase, "frame", phase[0] == 't' ? i - 1 : 0), "cam0", way[i]);
  }
  json_decref(events);
}
END_TEST

static uint64_t chance_state;

static int64_t chance(int64_t below) {
  chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int64_t)(chance_state >> 33) % below;
}

START_TEST(no_row_has_spans_across_one_another) {
  chance_state = (uint64_t)_i;
  struct trace *trace = begin_trace(3);
  trace->subjects[2].copies_by_kernel = true;
  int64_t now[3] = {1000 * US, 1000 * US, 1000 * US};
  for (unsigned i = 0; i < MANY; i++) {
    unsigned subject = (unsigned)chance(3);
    struct trace_record record = {.sequence = i, .first_byte = now[subject] += chance(20 * US), .stream = i % 4};
    record.complete = record.first_byte + chance(30 * US);
    record.dispatched = record.complete + chance(60 * US);
    record.begin = record.dispatched + 1;
    record.copied_in = record.begin + chance(20 * US);
    record.computed = record.copied_in + chance(20 * US);
    record.copied_out = record.computed + chance(20 * US);
    record.h2d = chance(record.copied_in - record.begin + 1);
    record.kernel = chance(record.computed - record.copied_in + 1);
    record.d2h = chance(record.copied_out - record.computed + 1);
    record.seen = record.copied_out + chance(5 * US);
    record.settled = record.seen + chance(90 * US);
    add_frame(trace, subject, &record);
  }
  json_t *events = finish_trace(trace);
  for (size_t i = 0; i < json_array_size(events); i++) {
    const json_t *one = json_array_get(events, i);
    for (size_t k = event_word(one, "ph")[0] == 'X' ? i + 1 : SIZE_MAX; k < json_array_size(events); k++) {
      const json_t *other = json_array_get(events, k);
      if (event_word(other, "ph")[0] == 'X' && event_number(one, "pid") == event_number(other, "pid") &&
          event_number(one, "tid") == event_number(other, "tid") && !events_nest(one, other)) {
        ck_abort_msg("%s of %g and %s of %g lie across", event_word(one, "name"), event_frame(one), event_word(other, "name"),
                     event_frame(other));
      }
    }
  }
  ck_assert_uint_eq(event_count(events, "X", "emit"), MANY);
  ck_assert_uint_eq(event_count(events, "X", "queue"), MANY);
  json_decref(events);
}
END_TEST

Suite *trace_rows_suite(void);
Suite *trace_rows_suite(void) {
  Suite *suite = suite_create("trace_rows");
  TCase *cases = tcase_create("trace_rows");
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, copies_follow_one_another);
  tcase_add_test(cases, an_engine_is_at_what_ends_first);
  tcase_add_test(cases, what_the_host_saw_before_the_device_ended_is_no_wait);
  tcase_add_test(cases, copies_by_kernels_are_on_their_streams_alone);
  tcase_add_test(cases, without_copy_engines_there_are_no_rows_of_them);
  tcase_add_loop_test(cases, no_row_has_spans_across_one_another, 0, 8);
  suite_add_tcase(suite, cases);
  return suite;
}
