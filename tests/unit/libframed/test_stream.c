/* Frames and results through the connection: pieces of any size, both ways at once, and what may not come. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/libframed/fake.h"
#include "tests/unit/runner.h"

static struct fake fake;
static struct framed *client;

static void open_as(int role) { client = fake_client(&fake, role, FRAMED_STREAM); }

static void make(void) { open_as(FRAMED_BOTH); }

static void clear(void) {
  client = framed_close(client);
  fake_close(&fake);
}

static void expect_frame(uint64_t sequence) {
  unsigned char bytes[FRAME_BYTES + FAKE_INPUT];
  struct native_header header;
  struct native_frame frame;
  fake_read(&fake, bytes, sizeof bytes);
  memcpy(&header, bytes, sizeof header);
  memcpy(&frame, bytes + sizeof header, sizeof frame);
  ck_assert_uint_eq(header.magic, NATIVE_MAGIC);
  ck_assert_uint_eq(header.type, NATIVE_FRAME);
  ck_assert_uint_eq(header.length, sizeof frame + FAKE_INPUT);
  ck_assert_uint_eq(frame.sequence, sequence);
  ck_assert_int_eq(frame.timestamp, 11);
  ck_assert_int_eq(frame.deadline, 22);
  ck_assert_uint_eq(bytes[FRAME_BYTES], (unsigned char)sequence);
  ck_assert_uint_eq(bytes[sizeof bytes - 1], (unsigned char)sequence);
}

static void expect_result(uint64_t sequence, unsigned char byte) {
  struct framed_result result;
  ck_assert_int_eq(framed_receive(client, &result), 1);
  ck_assert_uint_eq(result.sequence, sequence);
  ck_assert_uint_eq(result.dropped, 3);
  ck_assert_int_eq(result.timestamp, 5);
  ck_assert_uint_eq(result.session, 1);
  ck_assert_uint_eq(result.steps[FRAMED_TOTAL], 9);
  ck_assert_uint_eq(result.size, FAKE_OUTPUT);
  ck_assert_uint_eq(((const unsigned char *)result.data)[0], byte);
  ck_assert_uint_eq(((const unsigned char *)result.data)[FAKE_OUTPUT - 1], byte);
  framed_release(client, &result);
}

START_TEST(frames_and_results) {
  for (unsigned i = 0; i < 100; i++) {
    fake_submit(client, i);
    expect_frame(i);
    fake_result(&fake, i, (unsigned char)(255 - i));
    ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_RESULT | FRAMED_ROOM);
    expect_result(i, (unsigned char)(255 - i));
  }
}
END_TEST

/* More results than there are places for: they wait in the connection. */
START_TEST(results_at_once) {
  struct framed_result held[FAKE_SLOTS], result;
  for (unsigned i = 0; i < 3 * FAKE_SLOTS; i++) {
    fake_result(&fake, i, (unsigned char)i);
  }
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    ck_assert_int_eq(framed_receive(client, &held[i]), 1);
    ck_assert_uint_eq(held[i].sequence, i);
  }
  ck_assert_int_eq(framed_receive(client, &result), 0);
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    ck_assert_uint_eq(((const unsigned char *)held[i].data)[0], i);
    framed_release(client, &held[i]);
  }
  for (unsigned i = FAKE_SLOTS; i < 3 * FAKE_SLOTS; i++) {
    expect_result(i, (unsigned char)i);
  }
}
END_TEST

START_TEST(results_in_pieces) {
  struct {
    struct native_header header;
    struct native_result result;
    unsigned char payload[FAKE_OUTPUT];
  } said = {.header = {.magic = NATIVE_MAGIC, .type = NATIVE_RESULT, .length = sizeof said.result + FAKE_OUTPUT},
            .result = {.sequence = 1, .dropped = 3, .timestamp = 5, .session = 1, .steps = {[NATIVE_TOTAL] = 9}}};
  unsigned char stream[3 * sizeof said];
  memset(said.payload, 'p', sizeof said.payload);
  for (int i = 0; i < 3; i++) {
    memcpy(stream + (size_t)i * sizeof said, &said, sizeof said);
  }
  unsigned got = 0;
  for (size_t at = 0; at < sizeof stream;) {
    size_t piece = (size_t)_i < sizeof stream - at ? (size_t)_i : sizeof stream - at;
    fake_send(&fake, stream + at, piece);
    at += piece;
    while (framed_poll(client, FRAMED_RESULT, 0) > 0) {
      expect_result(1, 'p');
      got++;
    }
  }
  ck_assert_uint_eq(got, 3);
}
END_TEST

/* The daemon takes nothing until its results are read; frames wait, and go out then. */
START_TEST(a_full_connection) {
  const int small = 1;
  setsockopt(framed_descriptor(client), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  unsigned sent = 0;
  short conditions = 0;
  while (framed_poll(client, FRAMED_ROOM, 0) & FRAMED_ROOM) {
    fake_submit(client, sent++);
  }
  ck_assert_int_eq(framed_arm(client, FRAMED_ROOM, &conditions), 0);
  ck_assert_int_eq(conditions, POLLIN | POLLOUT);
  ck_assert_int_eq(framed_finish(client), 0);
  for (unsigned i = 0; i < sent; i++) {
    expect_frame(i);
    ck_assert_int_eq(framed_poll(client, FRAMED_ROOM, 0), 0);
  }
  char byte;
  ck_assert_int_eq(recv(fake.fd, &byte, 1, 0), 0); /* and that was the last */
  fake_result(&fake, 1, 1);
  shutdown(fake.fd, SHUT_RDWR);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_RESULT);
  expect_result(1, 1);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_END);
}
END_TEST

START_TEST(a_sink_ends) {
  clear();
  open_as(FRAMED_CONSUMER);
  fake_result(&fake, 4, 4);
  shutdown(fake.fd, SHUT_RDWR);
  expect_result(4, 4);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_END);
}
END_TEST

/* -- what may not be ---------------------------------------------------------------------------------------------------- */

static const struct native_header wrong[] = {
    {.magic = 1, .type = NATIVE_RESULT, .length = sizeof(struct native_result) + FAKE_OUTPUT},
    {.magic = NATIVE_MAGIC, .type = NATIVE_RESULT, .length = sizeof(struct native_result) + FAKE_OUTPUT + 1},
    {.magic = NATIVE_MAGIC, .type = NATIVE_RESULT, .length = UINT64_MAX},
    {.magic = NATIVE_MAGIC, .type = NATIVE_RESULT, .flags = 1, .length = sizeof(struct native_result) + FAKE_OUTPUT},
    {.magic = NATIVE_MAGIC, .type = NATIVE_FRAME, .length = sizeof(struct native_frame)},
    {.magic = NATIVE_MAGIC, .type = NATIVE_ERROR_SAID, .length = 7},
    {.magic = NATIVE_MAGIC, .type = NATIVE_ERROR_SAID, .length = sizeof(struct native_error) + NATIVE_ERROR + 1},
    {.magic = 0}};

START_TEST(lies_break_the_client) {
  struct framed_result result;
  fake_result(&fake, 0, 0);
  fake_send(&fake, &wrong[_i], sizeof wrong[_i]);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1) & FRAMED_RESULT, FRAMED_RESULT);
  expect_result(0, 0);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_DAEMON);
  ck_assert_int_eq(framed_receive(client, &result), FRAMED_FAILED);
  ck_assert_ptr_null(framed_acquire(client));
}
END_TEST

/* A result to a producer; it gets none. */
START_TEST(a_producer_gets_no_results) {
  clear();
  open_as(FRAMED_PRODUCER);
  struct framed_result result;
  ck_assert_int_eq(framed_receive(client, &result), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_USAGE);
  fake_result(&fake, 0, 0);
  ck_assert_int_eq(framed_poll(client, 0, -1), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_DAEMON);
}
END_TEST

START_TEST(an_error_is_read_where_sending_fails) {
  fake_error(&fake, NATIVE_E_PROTOCOL, "no such thing");
  close(fake.fd);
  fake.fd = -1;
  framed_submit(client, framed_acquire(client), 0, 0, 0);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_PROTOCOL);
  ck_assert_str_eq(framed_problem(client)->text, "no such thing");
}
END_TEST

/* The daemon is gone, and whoever holds every place cannot read what it said last. */
START_TEST(an_end_is_noticed_without_a_place) {
  struct framed_result result;
  for (unsigned i = 0; i < 2 * FAKE_SLOTS; i++) {
    fake_result(&fake, i, 0);
  }
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    ck_assert_int_eq(framed_receive(client, &result), 1);
  }
  close(fake.fd);
  fake.fd = -1;
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_CLOSED);
}
END_TEST

START_TEST(an_end_within_a_result) {
  const struct native_header header = {
      .magic = NATIVE_MAGIC, .type = NATIVE_RESULT, .length = sizeof(struct native_result) + FAKE_OUTPUT};
  fake_send(&fake, &header, _i == 0 ? 3 : sizeof header);
  shutdown(fake.fd, SHUT_RDWR);
  ck_assert_int_eq(framed_finish(client), 0);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_CLOSED);
}
END_TEST

Suite *stream_suite(void);

Suite *stream_suite(void) {
  Suite *suite = suite_create("stream");
  TCase *group = tcase_create("connection");
  tcase_set_timeout(group, 60);
  tcase_add_checked_fixture(group, make, clear);
  tcase_add_test(group, frames_and_results);
  tcase_add_test(group, results_at_once);
  tcase_add_loop_test(group, results_in_pieces, 1, 300);
  tcase_add_test(group, a_full_connection);
  tcase_add_test(group, a_sink_ends);
  tcase_add_loop_test(group, lies_break_the_client, 0, (int)(sizeof wrong / sizeof wrong[0]));
  tcase_add_test(group, a_producer_gets_no_results);
  tcase_add_test(group, an_error_is_read_where_sending_fails);
  tcase_add_test(group, an_end_is_noticed_without_a_place);
  tcase_add_loop_test(group, an_end_within_a_result, 0, 2);
  suite_add_tcase(suite, group);
  return suite;
}
