/* Who is there again after a daemon has died: nobody, another than before, or one that dies within the greeting as well. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/unit/libframed/resume_fixture.h"

static void expect_failure(int code, const char *text) {
  int events = 0;
  while (events >= 0) {
    events = framed_poll(client, FRAMED_RESULT, SECOND / 100);
  }
  ck_assert_int_eq(framed_problem(client)->code, code);
  ck_assert_msg(strstr(framed_problem(client)->text, text) != NULL, "%s", framed_problem(client)->text);
  ck_assert_ptr_null(framed_acquire(client));
}

START_TEST(nobody_comes) {
  open_for(FRAMED_BOTH, _i, SECOND / 50);
  fake_submit(client, 0);
  fake_die(&fake);
  close(fake.listener);
  fake.listener = -1;
  expect_failure(FRAMED_E_CLOSED, "closed the connection to pipeline cam0; and it did not come back: cannot connect");
}
END_TEST

START_TEST(other_formats) {
  open_for(FRAMED_BOTH, _i, 5 * SECOND);
  fake_submit(client, 0);
  fake_die(&fake);
  fake_accept(&fake, client);
  snprintf(fake.welcome.output_format, sizeof fake.welcome.output_format, "gray 10x20");
  fake_welcome(&fake);
  expect_failure(FRAMED_E_DAEMON, "pipeline cam0 is there again with other formats: gray 10x10 to gray 10x20");
}
END_TEST

START_TEST(its_seat_is_taken_for_now) {
  open_for(FRAMED_BOTH, FRAMED_STREAM, 5 * SECOND);
  fake_submit(client, 0);
  fake_die(&fake);
  for (unsigned i = 0; i < 3; i++) {
    fake_accept(&fake, client);
    fake_error(&fake, NATIVE_E_BUSY, "later");
    fake_die(&fake);
  }
  fake_return(&fake, client);
  expect_frame(0, true);
}
END_TEST

static unsigned open_files(void) {
  unsigned count = 0;
  for (int fd = 0; fd < 256; fd++) {
    count += fcntl(fd, F_GETFD) >= 0;
  }
  return count;
}

/* Once before it has read the HELLO, and then within each WELCOME; with the last whole one it is there. */
START_TEST(it_dies_within_a_greeting) {
  static const size_t cuts[] = {1, 15, 16, 17, 100, WELCOME_BYTES - 1};
  open_for(FRAMED_BOTH, _i, 5 * SECOND);
  fake_submit(client, 0);
  unsigned before = open_files();
  fake_die(&fake);
  fake_accept(&fake, client);
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    fake_die(&fake);
    fake_accept(&fake, client);
    fake.cut = cuts[i];
    fake_welcome(&fake);
    ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, 1000000), 0);
  }
  fake_die(&fake);
  fake.cut = 0;
  fake_return(&fake, client);
  ck_assert_uint_eq(open_files(), before);
  if (_i == FRAMED_STREAM) {
    expect_frame(0, true);
  } else {
    expect_submission(0, 0, true);
  }
}
END_TEST

/* The daemon has said WELCOME and is gone before the client has looked. */
START_TEST(it_dies_at_once) {
  open_for(FRAMED_BOTH, _i, 5 * SECOND);
  fake_submit(client, 0);
  fake_die(&fake);
  for (unsigned i = 0; i < 3; i++) {
    fake_accept(&fake, client);
    fake_welcome(&fake);
    fake_die(&fake);
    ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, 0), 0);
    expect_no_result();
  }
  fake_return(&fake, client);
  if (_i == FRAMED_STREAM) {
    expect_frame(0, true);
  } else {
    expect_submission(0, 0, true);
  }
}
END_TEST

START_TEST(it_may_not_come_in) {
  open_for(FRAMED_BOTH, FRAMED_STREAM, 5 * SECOND);
  fake_die(&fake);
  fake_accept(&fake, client);
  fake_error(&fake, _i == 0 ? NATIVE_E_ROLE : NATIVE_E_DENIED, "not here");
  expect_failure(_i == 0 ? FRAMED_E_ROLE : FRAMED_E_DENIED, "not here");
}
END_TEST

START_TEST(a_broken_protocol_is_no_pause) {
  open_for(FRAMED_BOTH, FRAMED_STREAM, 5 * SECOND);
  fake_error(&fake, NATIVE_E_PROTOCOL, "a FRAME must follow");
  expect_failure(FRAMED_E_PROTOCOL, "a FRAME must follow");
}
END_TEST

/* A loop of the caller's own that put the descriptor into its epoll set once. */
START_TEST(the_descriptor_stays) {
  open_for(FRAMED_BOTH, _i, 5 * SECOND);
  int set = epoll_create1(EPOLL_CLOEXEC);
  int fd = framed_descriptor(client);
  short conditions;
  struct epoll_event event = {.events = EPOLLIN};
  ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
  ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), 0);
  ck_assert_int_eq(conditions, POLLIN);
  ck_assert_int_eq(epoll_wait(set, &event, 1, 0), 0);
  fake_die(&fake);
  struct pollfd ready = {.fd = fake.listener, .events = POLLIN};
  while (poll(&ready, 1, 0) == 0) {
    ck_assert_int_eq(epoll_wait(set, &event, 1, 5000), 1);
    ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), 0);
  }
  fake_accept(&fake, client);
  fake_welcome(&fake);
  ck_assert_int_eq(epoll_wait(set, &event, 1, 5000), 1);
  ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), 0);
  while (epoll_wait(set, &event, 1, 0) == 1) { /* a timer may have run out */
    ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), 0);
  }
  ck_assert_int_eq(framed_descriptor(client), fd);
  fake_submit(client, 4);
  if (_i == FRAMED_STREAM) {
    say_result(4, 0, 0);
  } else {
    ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), 0);
    complete(submission(0)->slot, FRAMED_EMITTED, 4);
  }
  ck_assert_int_eq(epoll_wait(set, &event, 1, 5000), 1);
  ck_assert_int_ge(framed_arm(client, FRAMED_RESULT, &conditions), FRAMED_RESULT);
  expect_result(4);
  close(set);
}
END_TEST

static void hold_all(int fd, struct framed_result held[FAKE_SLOTS]) {
  short conditions;
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  for (unsigned i = 0; i < FAKE_SLOTS; i++) {
    say_result(i, 0, 0);
    ck_assert_int_eq(framed_receive(client, &held[i]), 1);
  }
  ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), 0);
  ck_assert_int_eq(poll(&ready, 1, 0), 0);
}

static const int receivers[] = {FRAMED_CONSUMER, FRAMED_BOTH};

/* There is nothing to do about it until the caller gives results back: a loop of its own sleeps until then. */
START_TEST(an_end_while_all_results_are_held) {
  struct framed_result held[FAKE_SLOTS];
  open_for(receivers[_i], FRAMED_STREAM, 5 * SECOND);
  short conditions;
  int fd = framed_descriptor(client);
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  hold_all(fd, held);
  fake_die(&fake);
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), 0);
    ck_assert_int_eq(poll(&ready, 1, 0), 0);
  }
  framed_release(client, &held[0]);
  fake_return(&fake, client);
  say_result(FAKE_SLOTS, 0, 0);
  ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), FRAMED_RESULT | (_i > 0 ? FRAMED_ROOM : 0));
  expect_result(FAKE_SLOTS);
}
END_TEST

/* Whoever does not connect again is told. */
START_TEST(an_end_for_good_while_all_results_are_held) {
  struct framed_result held[FAKE_SLOTS];
  open_for(receivers[_i], FRAMED_STREAM, -1);
  short conditions;
  hold_all(framed_descriptor(client), held);
  fake_die(&fake);
  ck_assert_int_eq(framed_arm(client, FRAMED_RESULT, &conditions), FRAMED_FAILED);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_CLOSED);
}
END_TEST

Suite *return_suite(void);
Suite *return_suite(void) {
  Suite *suite = suite_create("return");
  TCase *tests = tcase_create("all");
  tcase_add_checked_fixture(tests, NULL, close_both);
  tcase_add_loop_test(tests, nobody_comes, FRAMED_STREAM, FRAMED_SHARED + 1);
  tcase_add_loop_test(tests, other_formats, FRAMED_STREAM, FRAMED_SHARED + 1);
  tcase_add_test(tests, its_seat_is_taken_for_now);
  tcase_add_loop_test(tests, it_dies_within_a_greeting, FRAMED_STREAM, FRAMED_SHARED + 1);
  tcase_add_loop_test(tests, it_dies_at_once, FRAMED_STREAM, FRAMED_SHARED + 1);
  tcase_add_loop_test(tests, it_may_not_come_in, 0, 2);
  tcase_add_test(tests, a_broken_protocol_is_no_pause);
  tcase_add_loop_test(tests, the_descriptor_stays, FRAMED_STREAM, FRAMED_SHARED + 1);
  tcase_add_loop_test(tests, an_end_while_all_results_are_held, 0, 2);
  tcase_add_loop_test(tests, an_end_for_good_while_all_results_are_held, 0, 2);
  suite_add_tcase(suite, tests);
  return suite;
}
