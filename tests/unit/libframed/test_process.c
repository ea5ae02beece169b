/* What a client is within its process: signals that it does not raise, those that end its waits, and what a fork leaves it. */
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/libframed/resume_fixture.h"

/* One of the two processes goes on with the client, and the other, which has the same connection and memory, closes it. */
START_TEST(a_fork_that_closes_its_client) {
  int status = -1;
  open_for(FRAMED_BOTH, _i, 5 * SECOND);
  fake_submit(client, 3);
  pid_t child = fork();
  if (child == 0) {
    framed_close(client);
    _exit(0);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  if (_i == FRAMED_STREAM) {
    expect_frame(3, false);
    say_result(3, 0, 0);
  } else {
    complete(submission(0)->slot, FRAMED_EMITTED, 3);
  }
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_RESULT | FRAMED_ROOM);
  expect_result(3);
  ck_assert_int_eq(framed_poll(client, FRAMED_END, 1000), 0);
}
END_TEST

static void on_signal(int number) { (void)number; }

/* The handler may come before the wait, hence again and again. */
START_TEST(a_signal_ends_a_wait) {
  const struct sigaction action = {.sa_handler = on_signal};
  const struct itimerval often = {.it_interval = {.tv_usec = 5000}, .it_value = {.tv_usec = 5000}};
  open_for(FRAMED_BOTH, _i, 5 * SECOND);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), 0);
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_OK);
}
END_TEST

/* Whoever is not asked to handle SIGPIPE ends of it. */
START_TEST(a_daemon_that_died_raises_no_signal) {
  signal(SIGPIPE, SIG_DFL);
  open_for(FRAMED_BOTH, _i, -1);
  void *frames[] = {framed_acquire(client), framed_acquire(client)};
  fake_die(&fake);
  framed_submit(client, frames[0], 0, 0, 0);
  framed_submit(client, frames[1], 1, 0, 0);
  int events = 0;
  while (events >= 0) {
    events = framed_poll(client, FRAMED_RESULT, SECOND / 100);
  }
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_E_CLOSED);
}
END_TEST

Suite *process_suite(void);

Suite *process_suite(void) {
  Suite *suite = suite_create("process");
  TCase *group = tcase_create("process");
  tcase_add_checked_fixture(group, NULL, close_both);
  tcase_set_timeout(group, 60);
  tcase_add_loop_test(group, a_fork_that_closes_its_client, FRAMED_STREAM, FRAMED_SHARED + 1);
  tcase_add_loop_test(group, a_signal_ends_a_wait, FRAMED_STREAM, FRAMED_SHARED + 1);
  tcase_add_loop_test(group, a_daemon_that_died_raises_no_signal, FRAMED_STREAM, FRAMED_SHARED + 1);
  suite_add_tcase(suite, group);
  return suite;
}
