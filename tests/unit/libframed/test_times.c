/* Time limits of every length, "without end" among them, and what signals do to them. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/libframed/resume_fixture.h"

enum { CROWD = 8 };

/* Completes a frame once the client sleeps; nothing, if it came back without. */
static atomic_bool came_back;

static void *complete_in_sleep(void *argument) {
  (void)argument;
  while (!atomic_load(&came_back)) {
    if (atomic_load(&fake.control->client.sleeps) != 0) {
      complete(0, FRAMED_EMITTED, 5);
      return NULL;
    }
    usleep(100);
  }
  return NULL;
}

START_TEST(a_wait_without_end) {
  static const int64_t ends[] = {-1, INT64_MAX, INT64_MAX / 2};
  pthread_t thread;
  open_for(FRAMED_BOTH, FRAMED_SHARED, -1);
  fake_submit(client, 5);
  atomic_store(&came_back, false);
  ck_assert_int_eq(pthread_create(&thread, NULL, complete_in_sleep, NULL), 0);
  int events = framed_poll(client, FRAMED_RESULT, ends[_i]);
  atomic_store(&came_back, true);
  pthread_join(thread, NULL);
  ck_assert_int_eq(events, FRAMED_RESULT | FRAMED_ROOM);
  expect_result(5);
}
END_TEST

START_TEST(a_spin_without_end) {
  fake_open(&fake, FRAMED_BOTH, FRAMED_SHARED);
  fake.options.spin_ns = INT64_MAX;
  fake.options.connect_timeout_ns = INT64_MAX;
  client = fake_connect(&fake);
  ck_assert_msg(client != NULL, "%s", fake.problem.text);
  fake_submit(client, 5);
  complete(0, FRAMED_EMITTED, 5);
  ck_assert_int_eq(framed_poll(client, FRAMED_RESULT, -1), FRAMED_RESULT | FRAMED_ROOM);
  ck_assert_int_eq(framed_poll(client, FRAMED_END, 1000), 0);
}
END_TEST

START_TEST(hope_without_end) {
  open_for(FRAMED_BOTH, _i, INT64_MAX);
  fake_submit(client, 5);
  fake_die(&fake);
  fake_return(&fake, client);
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_OK);
}
END_TEST

/* So many wait to be accepted that one more has to wait for that itself. */
static void crowd(const char *path, int fds[CROWD]) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  bool full = false;
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  for (int i = 0; i < CROWD; i++) {
    fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    full = connect(fds[i], (const struct sockaddr *)&address, sizeof address) != 0 && errno == EAGAIN;
  }
  ck_assert(full);
}

static void on_signal(int number) { (void)number; }

static void open_crowded(int fds[CROWD]) {
  fake_open(&fake, FRAMED_PRODUCER, FRAMED_STREAM);
  crowd(fake.path, fds);
}

static void expect_no_turn(int fds[CROWD]) {
  ck_assert_ptr_null(framed_connect(fake.path, &fake.options, &fake.problem));
  ck_assert_int_eq(fake.problem.code, FRAMED_E_TIMEOUT);
  for (int i = 0; i < CROWD; i++) {
    close(fds[i]);
  }
}

/* A part of a second that rounds up to a whole one is no less a limit. */
START_TEST(a_turn_that_does_not_come) {
  int fds[CROWD];
  open_crowded(fds);
  fake.options.connect_timeout_ns = SECOND - 1;
  expect_no_turn(fds);
}
END_TEST

START_TEST(a_turn_waited_for_through_signals) {
  int fds[CROWD];
  const struct sigaction action = {.sa_handler = on_signal};
  const struct itimerval often = {.it_interval = {.tv_usec = 5000}, .it_value = {.tv_usec = 5000}};
  open_crowded(fds);
  fake.options.connect_timeout_ns = SECOND / 10;
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  expect_no_turn(fds);
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}
END_TEST

Suite *times_suite(void);

Suite *times_suite(void) {
  Suite *suite = suite_create("times");
  TCase *group = tcase_create("times");
  tcase_add_checked_fixture(group, NULL, close_both);
  tcase_set_timeout(group, 60);
  tcase_add_loop_test(group, a_wait_without_end, 0, 3);
  tcase_add_test(group, a_spin_without_end);
  tcase_add_loop_test(group, hope_without_end, FRAMED_STREAM, FRAMED_SHARED + 1);
  tcase_add_test(group, a_turn_that_does_not_come);
  tcase_add_test(group, a_turn_waited_for_through_signals);
  suite_add_tcase(suite, group);
  return suite;
}
