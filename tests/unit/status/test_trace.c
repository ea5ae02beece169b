/* What a viewer gets of a trace: hand-made frames, their spans, rows and arrows, as the JSON of the text has them. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/trace_text.h"
#include "tests/unit/runner.h"
#include "tests/unit/status/trace_events.h"

#define US INT64_C(1000)

enum { MANY = 100 };

static struct trace *begin(unsigned subjects) {
  struct trace *trace = trace_new(NULL);
  trace->backend = "cuda";
  trace->began = 5 * US;
  trace->ended = trace->began + 2500000 * US;
  for (unsigned i = 0; i < subjects; i++) {
    const struct trace_subject subject = {.pipeline = "cam0", .session = i, .sessions = subjects, .device = 1};
    ck_assert(trace_add_subject(trace, &subject));
  }
  return trace;
}

static void add(struct trace *trace, unsigned subject, const struct trace_record *record) {
  ck_assert(trace_add_records(trace, subject, record, 1));
}

/* Takes the trace; in pieces of a size that no line has. */
static json_t *finish(struct trace *trace) {
  ck_assert(trace_lay_out(trace));
  struct trace_text *text = trace_text_new(trace);
  size_t length = 0, room = 1 << 22, count;
  char *whole = malloc(room);
  while ((count = trace_text_read(text, whole + length, 97)) > 0) {
    length += count;
    ck_assert_uint_lt(length + 97, room);
  }
  json_error_t error;
  json_t *events = json_loadb(whole, length, 0, &error);
  ck_assert_msg(json_is_array(events), "line %d: %s", error.line, error.text);
  trace_text_free(text);
  free(whole);
  return events;
}

/* A frame that took 100 us: 10 each for receive and queue, 20 waiting on the device, 10 each for its steps there... */
static struct trace_record frame_at(uint64_t sequence, int64_t first) {
  return (struct trace_record){.sequence = sequence,
                               .first_byte = first,
                               .complete = first + 10 * US,
                               .dispatched = first + 20 * US,
                               .begin = first + 25 * US,
                               .copied_in = first + 45 * US,
                               .computed = first + 65 * US,
                               .copied_out = first + 75 * US,
                               .h2d = 10 * US,
                               .kernel = 15 * US,
                               .d2h = 10 * US,
                               .seen = first + 80 * US,
                               .settled = first + 100 * US,
                               .fate = FATE_EMITTED,
                               .stream = (uint32_t)(sequence % 2)};
}

START_TEST(a_frame_has_every_span) {
  struct trace *trace = begin(1);
  struct trace_record record = frame_at(7, 1000 * US);
  add(trace, 0, &record);
  json_t *events = finish(trace);
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
  struct trace *trace = begin(1);
  struct trace_record record = frame_at(0, 1000 * US);
  add(trace, 0, &record);
  trace->overwritten = 12;
  trace->full = true;
  json_t *events = finish(trace);
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
  json_t *events = finish(begin(3));
  ck_assert_uint_eq(json_array_size(events), 4);
  expect_event_row(events, json_array_get(events, 0), "framed", "trace");
  json_decref(events);
}
END_TEST

/* From the first span to the last, in the order of time, and each end of it lies within a span of that frame. */
START_TEST(arrows_lead_along_the_spans) {
  struct trace *trace = begin(1);
  for (unsigned i = 0; i < 4; i++) {
    struct trace_record record = frame_at(i, (1000 + 30 * i) * US);
    add(trace, 0, &record);
  }
  json_t *events = finish(trace);
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
  struct trace *trace = begin(1);
  struct trace_record record = frame_at(0, 1000 * US);
  record.begin = record.copied_in = record.computed = record.copied_out = record.h2d = record.kernel = record.d2h = 0;
  add(trace, 0, &record);
  json_t *events = finish(trace);
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
  struct trace *trace = begin(1);
  const struct trace_record newest = {.sequence = 1, .first_byte = 900 * US, .settled = 900 * US, .fate = FATE_NEWEST};
  const struct trace_record late = {
      .sequence = 2, .first_byte = 910 * US, .complete = 920 * US, .settled = 990 * US, .fate = FATE_LATE};
  struct trace_record unread = frame_at(3, 1000 * US);
  unread.fate = FATE_UNREAD;
  add(trace, 0, &newest);
  add(trace, 0, &late);
  add(trace, 0, &unread);
  json_t *events = finish(trace);
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

/* The clock's anchor changed between two frames, and the device's times seem to go back. */
START_TEST(copies_follow_one_another) {
  struct trace *trace = begin(2);
  struct trace_record one = frame_at(0, 1000 * US), other = frame_at(0, 1007 * US), behind = frame_at(2, 1040 * US);
  add(trace, 1, &other);
  add(trace, 0, &one);
  add(trace, 0, &behind);
  json_t *events = finish(trace);
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
  struct trace *trace = begin(2);
  struct trace_record one = frame_at(0, 1000 * US), other = frame_at(1, 996 * US);
  other.h2d = other.kernel = other.d2h = 0;
  add(trace, 0, &one);
  add(trace, 1, &other);
  json_t *events = finish(trace);
  expect_event_span(event_find(events, "X", "copy in", 3), 1021, 20);
  expect_event_span(event_find(events, "X", "copy in", 1), 1041, 4);
  expect_event_span(event_find(events, "X", "kernel", 1), 1041, 20);
  expect_event_span(event_find(events, "X", "kernel", 0), 1050, 15);
  expect_event_span(event_find(events, "X", "copy out", 3), 1061, 10);
  expect_event_span(event_find(events, "X", "copy out", 1), 1071, 4);
  json_decref(events);
}
END_TEST

/* Some viewers sort rows by name unless they are told an order; others take that of the numbers. */
START_TEST(rows_stand_in_the_order_of_the_road) {
  static const char *const road[] = {"receive", "queue", "stream 0", "stream 1", "wake", "emit", "dropped"};
  struct trace *trace = begin(1);
  for (unsigned i = 0; i < 4; i++) {
    struct trace_record record = frame_at(i, (1000 + 200 * i) * US);
    record.fate = i == 3 ? FATE_UNREAD : FATE_EMITTED;
    add(trace, 0, &record);
  }
  json_t *events = finish(trace);
  double process = event_number(event_find(events, "X", "receive", 0), "pid"), last = 0;
  for (size_t i = 0; i < sizeof road / sizeof road[0]; i++) {
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
    ck_assert_str_eq(name, road[i]);
    last = least;
  }
  json_decref(events);
}
END_TEST

START_TEST(what_the_host_saw_before_the_device_ended_is_no_wait) {
  struct trace *trace = begin(1);
  struct trace_record record = frame_at(0, 1000 * US);
  record.seen = record.copied_out - 3 * US;
  add(trace, 0, &record);
  json_t *events = finish(trace);
  expect_event_span(event_find(events, "X", "wake", 0), 1071.999, 0.001); /* none at all would look like an event */
  expect_event_span(event_find(events, "X", "emit", 0), 1072, 28);
  json_decref(events);
}
END_TEST

/* Kernels copy small frames side by side, and beside a copy that an engine makes of a large one: none takes time from another.
 */
START_TEST(copies_by_kernels_are_on_their_streams_alone) {
  struct trace *trace = begin(2);
  trace->subjects[0].copies_by_kernel = true;
  struct trace_record small[2] = {frame_at(0, 1000 * US), frame_at(1, 1000 * US)}, large = frame_at(2, 1000 * US);
  small[1].copied_in += US; /* both from 1035 us on */
  small[1].h2d += US;
  large.copied_in += 2 * US;
  large.h2d += 2 * US;
  add(trace, 0, &small[0]);
  add(trace, 0, &small[1]);
  add(trace, 1, &large);
  json_t *events = finish(trace);
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
  struct trace *trace = begin(1);
  trace->subjects[0].copies_by_kernel = true;
  struct trace_record record = frame_at(7, 1000 * US);
  add(trace, 0, &record);
  json_t *events = finish(trace);
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
  struct trace *trace = begin(3);
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
    add(trace, subject, &record);
  }
  json_t *events = finish(trace);
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

START_TEST(a_trace_is_bounded) {
  struct trace *trace = begin(1);
  struct trace_record *records = calloc(TRACE_MOST_FRAMES, sizeof *records);
  ck_assert(trace_add_records(trace, 0, records, TRACE_MOST_FRAMES - 1));
  ck_assert(trace_add_records(trace, 0, records, 1));
  ck_assert(!trace_add_records(trace, 0, records, 1));
  ck_assert_uint_eq(trace->frame_count, TRACE_MOST_FRAMES);
  trace_free(trace);
  trace = begin(1);
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
  struct trace_subject subject = {.session = 1023, .sessions = 1024, .device = 63};
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
    add(trace, 0, &record);
  }
  json_t *events = finish(trace);
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
  tcase_add_test(cases, copies_follow_one_another);
  tcase_add_test(cases, an_engine_is_at_what_ends_first);
  tcase_add_test(cases, rows_stand_in_the_order_of_the_road);
  tcase_add_test(cases, what_the_host_saw_before_the_device_ended_is_no_wait);
  tcase_add_test(cases, copies_by_kernels_are_on_their_streams_alone);
  tcase_add_test(cases, without_copy_engines_there_are_no_rows_of_them);
  tcase_add_loop_test(cases, no_row_has_spans_across_one_another, 0, 8);
  tcase_add_test(cases, a_trace_is_bounded);
  tcase_add_test(cases, the_most_rows_fit);
  suite_add_tcase(suite, cases);
  return suite;
}
