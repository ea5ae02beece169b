/*
 * The file sink above a file that fails at will: every request is answered by the test, which sees what stands in the file
 * and what the control loop is told.
 */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "daemon/sink/results.h"

/* -- the file ----------------------------------------------------------------------------------------------------- */

enum { RESULT = 8, SLOTS = 4, MOST = 200 };

static unsigned char contents[MOST];
static size_t file_bytes;
static int refusal; /* what the next request fails with before it is even made; 0: nothing */
static struct {
  uv_fs_t *request;
  uv_fs_cb done;
  bool cuts;
  size_t at, length;
  unsigned char bytes[MOST];
} pending; /* request NULL: none */

static int begin(uv_fs_t *request, int64_t at, uv_fs_cb done) {
  ck_assert_ptr_null(pending.request);
  int status = refusal;
  refusal = 0;
  pending.request = status == 0 ? request : NULL;
  pending.done = done;
  pending.at = (size_t)at;
  pending.length = 0;
  return status;
}

static int fake_write(uv_loop_t *loop, uv_fs_t *request, uv_file fd, const uv_buf_t buffers[], unsigned count, int64_t at,
                      uv_fs_cb done) {
  (void)loop, (void)fd;
  int status = begin(request, at, done);
  pending.cuts = false;
  for (unsigned i = 0; i < count; i++) {
    memcpy(pending.bytes + pending.length, buffers[i].base, buffers[i].len);
    pending.length += buffers[i].len;
  }
  return status;
}

static int fake_truncate(uv_loop_t *loop, uv_fs_t *request, uv_file fd, int64_t at, uv_fs_cb done) {
  (void)loop, (void)fd;
  int status = begin(request, at, done);
  pending.cuts = true;
  return status;
}

/* Ends the request with so many bytes, or an error. */
static void answer(ssize_t result) {
  uv_fs_t *request = pending.request;
  ck_assert_ptr_nonnull(request);
  pending.request = NULL;
  if (!pending.cuts && result > 0) {
    memcpy(contents + pending.at, pending.bytes, (size_t)result);
    file_bytes = pending.at + (size_t)result > file_bytes ? pending.at + (size_t)result : file_bytes;
  } else if (pending.cuts && result == 0) {
    file_bytes = pending.at;
  }
  request->result = result;
  pending.done(request);
}

static void answer_whole(void) { answer((ssize_t)pending.length); }

void subject_let_go(struct sink *sink);
void subject_end_segment(struct sink *sink);
bool subject_flush_segment(struct sink *sink);

#define uv_fs_write                fake_write
#define uv_fs_ftruncate            fake_truncate
#define uv_fs_req_cleanup(request) ((void)(request))
#define lane_loop(lane)            NULL
#define lane_schedule(runner)      ((void)(runner))
#define lane_is_parking(lane)      false
#define sink_file_operations       subject
#define sink_flush_segment         subject_flush_segment
#define sink_end_segment           subject_end_segment
#define sink_detach_file           subject_let_go
#include "daemon/sink/file.c"

/* -- the sink ------------------------------------------------------------------------------------------------------ */

static uv_loop_t loop;
static struct mailbox control;
static struct sink *sink;
static struct flow flow;
static struct account account;
static unsigned char outputs[SLOTS][RESULT];
static char told[400]; /* by the sink, a letter and its text each */
static struct reader *detached;

static void on_event(void *context, const struct sink_event *event) {
  (void)context;
  size_t length = strlen(told);
  static const char letters[] = {[SINK_DETACHED] = 'd', [SINK_FAILED] = 'F', [SINK_RECOVERED] = 'R', [SINK_STOPPED] = 's'};
  snprintf(told + length, sizeof told - length, "%c%s%s", letters[event->kind], event->text, event->text[0] ? ";" : "");
  detached = event->kind == SINK_DETACHED ? event->reader : detached;
}

static void no_wake(void *session) { (void)session; }

static void set_up(void) {
  static struct config_pipeline config;
  static struct frame_format format;
  static char name[] = "test", path[] = "/nowhere/results";
  config = (struct config_pipeline){.name = name, .sink = {.endpoint = CONFIG_FILE, .path = path}};
  format = format_image(PIXELS_GRAY, RESULT, 1);
  const struct sink_setup setup = {.config = &config, .control = &control, .listener = on_event, .output = &format};
  struct failure failure;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(mailbox_open(&control, &loop), 0);
  sink = sink_new(&setup, &failure);
  ck_assert_ptr_nonnull(sink);
  sink->operations = &subject;
  slot_ring_init(&flow.ring, SLOTS);
  flow.account = &account;
  flow.wake = no_wake;
  for (unsigned i = 0; i < SLOTS; i++) {
    flow.ring.slots[i].output = outputs[i];
  }
  subject.attach(sink, reader_new(sink, -1, &failure));
}

static void tear_down(void) {
  uv_run(&loop, UV_RUN_NOWAIT);
  reader_free(detached);
  sink_free(sink);
  mailbox_close(&control);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* A result of one letter. */
static void offer(char letter) {
  struct slot *slot = slot_oldest(&flow.ring, SLOT_FREE);
  ck_assert_ptr_nonnull(slot);
  account_open(&account, &slot->frame);
  memset(slot->output, letter, RESULT);
  for (enum slot_state state = SLOT_FILLING; state <= SLOT_EMITTING; state++) {
    slot_move(&flow.ring, slot, state);
  }
  *sink_result(sink, sink->tail) = (struct result){.sink = sink, .flow = &flow, .slot = slot, .state = RESULT_OPEN};
  slot->frame.open = false;
  flow.unsettled++;
  sink->tail++;
  subject.turn(sink, 0);
}

static void expect_told(const char *expected) {
  uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_str_eq(told, expected);
  told[0] = '\0';
}

static void expect_file(const char *letters) {
  ck_assert_uint_eq(file_bytes, strlen(letters) * RESULT);
  for (size_t i = 0; i < file_bytes; i++) {
    ck_assert_int_eq(contents[i], letters[i / RESULT]);
  }
}

static void expect_fates(uint64_t emitted, uint64_t lost) {
  ck_assert_uint_eq(account.now.ledger.fates[FATE_EMITTED], emitted);
  ck_assert_uint_eq(account.now.ledger.fates[FATE_SINK_ERROR], lost);
  ck_assert_uint_eq(account.now.ledger.in, emitted + lost + flow_in_flight(&flow));
}

static void end(void) {
  sink->stopping = true;
  subject.stop(sink);
}

/* -- what it holds to ---------------------------------------------------------------------------------------------- */

START_TEST(results_stand_one_behind_the_other) {
  offer('a');
  offer('b');
  answer(3);
  answer_whole();
  answer_whole();
  expect_file("ab");
  expect_fates(2, 0);
  end();
  expect_told("ds");
}
END_TEST

START_TEST(a_torn_result_is_cut_off) {
  offer('a');
  answer_whole();
  offer('b');
  answer(5);
  answer(UV_ENOSPC);
  ck_assert(pending.cuts);
  answer(0);
  expect_file("a");
  expect_told("FNo space left on device (ENOSPC);");
  offer('c');
  answer_whole();
  expect_file("ac");
  expect_fates(2, 1);
  expect_told("R");
  end();
  expect_told("ds");
}
END_TEST

/* The control loop is slow: the end of the trouble waits until its beginning was heard. */
START_TEST(both_ends_of_a_short_trouble_are_told) {
  offer('a');
  answer(UV_ENOSPC);
  offer('b');
  answer_whole();
  expect_told("FNo space left on device (ENOSPC);");
  sink->runner.tick(&sink->runner, 0);
  expect_told("R");
  sink->runner.tick(&sink->runner, 0);
  expect_told("");
  end();
  expect_told("ds");
}
END_TEST

START_TEST(what_cannot_be_cut_off_is_told_and_tried_again_at_the_end) {
  offer('a');
  answer(5);
  answer(UV_ENOSPC);
  answer(UV_EIO);
  expect_told("FNo space left on device (ENOSPC);");
  sink->runner.tick(&sink->runner, 0);
  expect_told("Fthe partly written result cannot be cut off: Input/output error (EIO);");
  end();
  ck_assert(pending.cuts);
  expect_told("");
  answer(_i == 0 ? 0 : UV_EIO);
  expect_told(_i == 0 ? "ds" : "Fthe partly written result cannot be cut off: Input/output error (EIO);ds");
  ck_assert_uint_eq(file_bytes, _i == 0 ? 0 : 5);
}
END_TEST

START_TEST(what_is_no_file_has_nothing_to_cut_off) {
  offer('a');
  answer(5);
  answer(UV_EIO);
  answer(UV_EINVAL);
  expect_told("FInput/output error (EIO);");
  end();
  ck_assert_ptr_null(pending.request);
  expect_told("ds");
}
END_TEST

START_TEST(the_next_result_is_written_over_a_torn_one) {
  offer('a');
  answer(5);
  answer(UV_EIO);
  answer(UV_EIO);
  offer('b');
  answer_whole();
  expect_file("b");
  end();
  ck_assert_ptr_null(pending.request);
}
END_TEST

/* libuv may refuse a request at once: that is a failed write like any other. */
START_TEST(a_refused_request_holds_nobody_up) {
  offer('a');
  offer('b');
  refusal = UV_ENOMEM;
  answer_whole(); /* b is refused */
  expect_file("a");
  expect_fates(1, 1);
  expect_told("FCannot allocate memory (ENOMEM);");
  offer('c');
  answer(3);
  answer(2);
  expect_fates(1, 1);
  end();
  refusal = UV_ENOMEM;
  answer(1); /* its rest is refused, what was written is cut off, and the stop goes on */
  answer(0);
  expect_file("a");
  expect_fates(1, 2);
  expect_told("ds");
}
END_TEST

START_TEST(a_refused_cut_holds_nobody_up) {
  offer('a');
  answer(3);
  end();
  refusal = UV_ENOMEM;
  answer(UV_ENOSPC);
  ck_assert_ptr_null(pending.request);
  expect_fates(0, 1);
  uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_str_eq(told + strlen(told) - 2, "ds");
}
END_TEST

Suite *file_suite(void);

Suite *file_suite(void) {
  Suite *suite = suite_create("file");
  TCase *tests = tcase_create("file");
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_test(tests, results_stand_one_behind_the_other);
  tcase_add_test(tests, a_torn_result_is_cut_off);
  tcase_add_test(tests, both_ends_of_a_short_trouble_are_told);
  tcase_add_loop_test(tests, what_cannot_be_cut_off_is_told_and_tried_again_at_the_end, 0, 2);
  tcase_add_test(tests, what_is_no_file_has_nothing_to_cut_off);
  tcase_add_test(tests, the_next_result_is_written_over_a_torn_one);
  tcase_add_test(tests, a_refused_request_holds_nobody_up);
  tcase_add_test(tests, a_refused_cut_holds_nobody_up);
  suite_add_tcase(suite, tests);
  return suite;
}
