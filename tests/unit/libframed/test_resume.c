/* A daemon that dies and is there again: what is sent again, what comes once, and what stays where it is. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/libframed/resume_fixture.h"

/* -- over the stream --------------------------------------------------------------------------------------------------- */

static void expect_silence(void) {
  unsigned char byte;
  ck_assert_int_eq(recv(fake.fd, &byte, 1, MSG_DONTWAIT), -1);
}

START_TEST(what_has_no_result_is_sent_again) {
  uint32_t marks[3];
  open_for(FRAMED_BOTH, FRAMED_STREAM, 5 * SECOND);
  uint64_t token = fake.hello.token;
  ck_assert_uint_ne(token, 0);
  ck_assert_uint_eq(fake.hello.flags, NATIVE_HELLO_ACKS);
  for (unsigned i = 0; i < 3; i++) {
    fake_submit(client, i);
    marks[i] = expect_frame(i, false);
    ck_assert_uint_eq(marks[i], ((uint32_t)(token % (1U << 20)) << 8 | i) << 4);
  }
  say_result(0, 0, marks[0]);
  fake_die(&fake);
  fake_return(&fake, client);
  ck_assert_uint_eq(fake.hello.token, token);
  ck_assert_uint_eq(framed_info(client)->session, 78);
  expect_result(0);
  for (unsigned i = 1; i < 3; i++) {
    ck_assert_uint_eq(expect_frame(i, true), marks[i]);
    say_result(i, 0, marks[i] | NATIVE_AGAIN);
    ck_assert_int_ge(framed_poll(client, FRAMED_RESULT, -1), FRAMED_RESULT);
    expect_result(i);
  }
  expect_silence();
  fake_submit(client, 3);
  expect_frame(3, false);
}
END_TEST

/* A RESULT, an ACK and another RESULT, of which so many bytes come before the daemon is gone. */
START_TEST(it_dies_at_any_byte) {
  enum { ALL = 2 * FAKE_RESULT + ACK_BYTES };
  unsigned char bytes[ALL];
  const struct native_header header = {.magic = NATIVE_MAGIC, .type = NATIVE_ACK, .length = sizeof(struct native_ack)};
  const struct native_ack ack = {.frames = 2};
  fake_result_bytes(bytes, &(struct native_result){.sequence = 0}, 0);
  memcpy(bytes + FAKE_RESULT, &header, sizeof header);
  memcpy(bytes + FAKE_RESULT + sizeof header, &ack, sizeof ack);
  fake_result_bytes(bytes + FAKE_RESULT + ACK_BYTES, &(struct native_result){.sequence = 2, .dropped = 1}, 2);
  open_for(FRAMED_BOTH, FRAMED_STREAM, 5 * SECOND);
  for (unsigned i = 0; i < 3; i++) {
    fake_submit(client, i);
    expect_frame(i, false);
  }
  fake_send(&fake, bytes, (size_t)_i);
  ck_assert_int_ge(framed_poll(client, 0, 0), 0);
  fake_die(&fake);
  fake_return(&fake, client);
  unsigned fated = _i < FAKE_RESULT ? 0 : _i < FAKE_RESULT + ACK_BYTES ? 1 : _i < ALL ? 2 : 3;
  for (unsigned i = fated; i < 3; i++) {
    expect_frame(i, true);
    say_result(i, 0, 0);
  }
  expect_silence();
  ck_assert_int_ge(framed_poll(client, 0, 0), 0);
  for (unsigned i = 0; i < 3; i++) {
    if (i != 1 || fated <= 1) {
      expect_result(i);
    }
  }
  expect_no_result();
}
END_TEST

START_TEST(part_of_a_frame_was_not_sent) {
  open_for(FRAMED_BOTH, FRAMED_STREAM, 5 * SECOND);
  const int small = 1;
  ck_assert_int_eq(setsockopt(client->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  for (unsigned i = 0; i < FAKE_SLOTS + 2; i++) {
    fake_submit(client, i);
  }
  ck_assert_ptr_null(framed_acquire(client)); /* all are kept */
  expect_frame(0, false);
  fake_die(&fake);
  fake_return(&fake, client);
  uint64_t next = 0;
  for (unsigned i = 0; i < FAKE_SLOTS + 2; i++) {
    unsigned char bytes[FRAME_BYTES + FAKE_INPUT];
    struct native_frame frame;
    ck_assert_int_ge(framed_poll(client, 0, 0), 0);
    fake_read(&fake, bytes, sizeof bytes);
    memcpy(&frame, bytes + sizeof(struct native_header), sizeof frame);
    ck_assert_uint_eq(frame.sequence, next++);
  }
}
END_TEST

START_TEST(an_ack_makes_room) {
  open_for(FRAMED_PRODUCER, FRAMED_STREAM, 5 * SECOND);
  for (unsigned i = 0; i < FAKE_SLOTS + 2; i++) {
    fake_submit(client, i);
    expect_frame(i, false);
  }
  ck_assert_int_eq(framed_poll(client, FRAMED_ROOM, 0), 0);
  fake_ack(&fake, 2);
  ck_assert_int_eq(framed_poll(client, FRAMED_ROOM, -1), FRAMED_ROOM);
  fake_ack(&fake, UINT64_MAX); /* more than were sent cannot have a fate */
  ck_assert_int_ge(framed_poll(client, 0, 0), 0);
  fake_die(&fake);
  fake_return(&fake, client);
  expect_silence();
  ck_assert_int_eq(framed_finish(client), 0);
  fake_die(&fake);
  ck_assert_int_eq(framed_poll(client, 0, -1) & FRAMED_END, FRAMED_END);
}
END_TEST

/* All was sent and the client has finished; but the daemon goes before it has said what became of the last frame. */
START_TEST(an_end_is_no_answer) {
  open_for(FRAMED_PRODUCER, FRAMED_STREAM, 5 * SECOND);
  fake_submit(client, 0);
  fake_submit(client, 1);
  ck_assert_int_eq(framed_finish(client), 0);
  fake_ack(&fake, 1);
  ck_assert_int_ge(framed_poll(client, 0, 0), 0);
  expect_frame(0, false);
  expect_frame(1, false);
  fake_die(&fake);
  fake_return(&fake, client);
  expect_frame(1, true);
  unsigned char byte;
  ck_assert_int_eq(recv(fake.fd, &byte, 1, 0), 0);
  fake_ack(&fake, 1);
  fake_die(&fake);
  ck_assert_int_eq(framed_poll(client, 0, -1) & FRAMED_END, FRAMED_END);
}
END_TEST

START_TEST(frames_are_taken_during_a_pause) {
  open_for(FRAMED_BOTH, FRAMED_STREAM, 5 * SECOND);
  fake_submit(client, 0);
  expect_frame(0, false);
  fake_die(&fake);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, 1000000), 0);
  fake_submit(client, 1);
  ck_assert_int_eq(framed_finish(client), 0);
  expect_no_result();
  fake_return(&fake, client);
  expect_frame(0, true);
  expect_frame(1, false);
  unsigned char byte;
  ck_assert_int_eq(recv(fake.fd, &byte, 1, 0), 0);
}
END_TEST

/* -- a consumer -------------------------------------------------------------------------------------------------------- */

static uint32_t mark(uint32_t of, uint32_t number) { return (of << 8 | number % 256) << 4; }

START_TEST(a_consumer_leaves_out_what_it_has) {
  open_for(FRAMED_CONSUMER, FRAMED_STREAM, 5 * SECOND);
  ck_assert_uint_eq(fake.hello.flags, 0);
  say_result(1, 0, mark(7, 255));
  say_result(2, 0, mark(7, 256));
  say_result(5, 0, mark(8, 0));
  ck_assert_int_ge(framed_poll(client, FRAMED_RESULT, -1), FRAMED_RESULT);
  fake_die(&fake);
  fake_return(&fake, client);
  expect_result(1);
  expect_result(2);
  expect_result(5);
  say_result(1, 0, mark(7, 255) | NATIVE_AGAIN);
  say_result(2, 0, mark(7, 256) | NATIVE_AGAIN);
  say_result(3, 0, mark(7, 257) | NATIVE_AGAIN);
  say_result(4, 0, mark(9, 255) | NATIVE_AGAIN); /* of whom nothing came before */
  say_result(6, 0, mark(8, 0));                  /* a client of the same name, which does not send it again */
  ck_assert_int_ge(framed_poll(client, FRAMED_RESULT, -1), FRAMED_RESULT);
  expect_result(3);
  expect_result(4);
  expect_result(6);
  expect_no_result();
}
END_TEST

START_TEST(a_consumer_comes_to_the_end_of_a_sink) {
  open_for(FRAMED_CONSUMER, FRAMED_STREAM, 1);
  say_result(1, 0, 0);
  fake_die(&fake);
  close(fake.listener);
  fake.listener = -1;
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_RESULT);
  expect_result(1);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_END);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_OK);
}
END_TEST

/* -- in shared memory -------------------------------------------------------------------------------------------------- */

START_TEST(memory_is_left_behind) {
  struct framed_result held;
  open_for(FRAMED_BOTH, FRAMED_SHARED, 5 * SECOND);
  for (unsigned i = 0; i < 3; i++) {
    fake_submit(client, i);
  }
  void *frame = framed_acquire(client);
  memset(frame, 3, FAKE_INPUT);
  complete(0, FRAMED_EMITTED, 0);
  complete(1, FRAMED_EMITTED, 1);
  ck_assert_int_eq(framed_receive(client, &held), 1);
  fake_die(&fake);
  fake_return(&fake, client);
  ck_assert_uint_eq(atomic_load(&fake.control->client.submitted), 1);
  expect_submission(0, 2, true);
  expect_result(1);
  ck_assert_uint_eq(held.sequence, 0);
  ck_assert_uint_eq(((const unsigned char *)held.data)[FAKE_OUTPUT - 1], 0);
  ck_assert_int_eq(framed_submit(client, frame, 3, 11, 22), 0);
  expect_submission(1, 3, false);
  framed_release(client, &held);
  framed_release(client, &held);
  ck_assert_ptr_null(client->lot->older); /* nothing is left of it */
  complete(submission(0)->slot, FRAMED_EMITTED, 2);
  complete(submission(1)->slot, FRAMED_LATE, 3);
  expect_result(2);
  ck_assert_int_eq(framed_receive(client, &held), 1);
  ck_assert_int_eq(held.fate, FRAMED_LATE);
}
END_TEST

/* The client's look for its welcome before which that comes; 0: it comes when the test says. */
static int welcome_at;

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  if (welcome_at > 0 && --welcome_at == 0) {
    fake_welcome(&fake);
  }
  return syscall(SYS_recvmsg, fd, message, flags);
}

/* Who sleeps has the new daemon wake him, whichever look it was that found it. */
START_TEST(the_last_look_finds_the_daemon) {
  short conditions = 0;
  open_for(FRAMED_BOTH, FRAMED_SHARED, 5 * SECOND);
  fake_submit(client, 0);
  fake_die(&fake);
  fake_accept(&fake, client);
  welcome_at = _i;
  ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), 0);
  ck_assert_int_eq(welcome_at, 0);
  ck_assert_int_eq(conditions, POLLIN);
  expect_submission(0, 0, true);
  ck_assert(fake_complete(&fake, submission(0)->slot, FRAMED_EMITTED, 0));
}
END_TEST

/* Given up by a daemon that ends, some before it is gone and some at that moment. */
START_TEST(what_a_stop_left_undone) {
  open_for(FRAMED_BOTH, FRAMED_SHARED, 5 * SECOND);
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    fake_submit(client, i);
  }
  complete(0, FRAMED_SHUTDOWN, 0);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT | FRAMED_ROOM, 0), 0);
  complete(1, FRAMED_CLIENT_GONE, 1);
  complete(2, FRAMED_INVALID, 2);
  fake_error(&fake, NATIVE_E_STOPPING, "the pipeline ends");
  fake_die(&fake);
  fake_return(&fake, client);
  struct framed_result result;
  ck_assert_int_eq(framed_receive(client, &result), 1);
  ck_assert_int_eq(result.fate, FRAMED_INVALID);
  expect_no_result();
  expect_submission(0, 0, true);
  expect_submission(1, 1, true);
  expect_submission(2, 3, true);
  ck_assert_uint_eq(atomic_load(&fake.control->client.submitted), 3);
}
END_TEST

START_TEST(again_and_again) {
  void *frames[FAKE_SLOTS];
  open_for(FRAMED_PRODUCER, FRAMED_SHARED, 5 * SECOND);
  for (unsigned life = 0; life < FAKE_SLOTS; life++) {
    frames[life] = framed_acquire(client); /* one in the memory of each */
    memset(frames[life], (int)life, FAKE_INPUT);
    fake_die(&fake);
    fake_return(&fake, client);
  }
  ck_assert_ptr_null(framed_acquire(client));
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    ck_assert_int_eq(framed_submit(client, frames[i], i, 11, 22), 0);
    expect_submission(i, i, false);
  }
  ck_assert_ptr_null(client->lot->older);
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    complete(submission(i)->slot, FRAMED_EMITTED, i);
  }
  ck_assert_int_eq(framed_poll(client, FRAMED_ROOM, -1), FRAMED_ROOM);
}
END_TEST

Suite *resume_suite(void);
Suite *resume_suite(void) {
  Suite *suite = suite_create("resume");
  TCase *tests = tcase_create("all");
  tcase_add_checked_fixture(tests, NULL, close_both);
  tcase_add_test(tests, what_has_no_result_is_sent_again);
  tcase_add_loop_test(tests, it_dies_at_any_byte, 0, 2 * FAKE_RESULT + ACK_BYTES + 1);
  tcase_add_test(tests, part_of_a_frame_was_not_sent);
  tcase_add_test(tests, an_ack_makes_room);
  tcase_add_test(tests, an_end_is_no_answer);
  tcase_add_test(tests, frames_are_taken_during_a_pause);
  tcase_add_test(tests, a_consumer_leaves_out_what_it_has);
  tcase_add_test(tests, a_consumer_comes_to_the_end_of_a_sink);
  tcase_add_test(tests, memory_is_left_behind);
  tcase_add_loop_test(tests, the_last_look_finds_the_daemon, 1, 3);
  tcase_add_test(tests, what_a_stop_left_undone);
  tcase_add_test(tests, again_and_again);
  suite_add_tcase(suite, tests);
  return suite;
}
