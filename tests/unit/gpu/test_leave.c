/* A child has the descriptors of devices until this process has gone; what plays the device is a socket, whose peer hears of
 * its end. */
#include <poll.h>
#include <sys/socket.h>

#define gpu_leave      tested_leave
#define gpu_stay       tested_stay
#define gpu_await_left tested_await_left
#include "gpu/leave.c"

#include "tests/unit/runner.h"

#ifdef __SANITIZE_THREAD__ /* which does not know of a process with the memory of another one */
enum { HAS_CHILDREN = 0 };
#else
enum { HAS_CHILDREN = 1 };
#endif

static bool has_ended(int fd, int ms) {
  struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
  return poll(&poll_fd, 1, ms) == 1 && (poll_fd.revents & POLLHUP) != 0;
}

static int devices[2], others[2];

static void open_all(void) {
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, devices), 0);
  ck_assert_int_eq(pipe2(others, O_CLOEXEC), 0);
}

START_TEST(a_child_has_the_devices_until_this_process_has_gone) {
  open_all();
  leave("socket:[");
  ck_assert(leaving.begun);
  close(devices[1]);
  close(others[1]);
  ck_assert(has_ended(others[0], -1)); /* for nobody else has it */
  ck_assert(!has_ended(devices[0], 0));
  close(leaving.hold); /* as execution does, which leaves the child to the image that follows */
  gpu_await_left();
  ck_assert(has_ended(devices[0], 0));
  ck_assert_int_eq(waitpid(-1, NULL, (int)__WALL), -1);
}
END_TEST

START_TEST(a_process_that_stays_has_all_that_it_had) {
  for (int i = 0; i < 2; i++) {
    open_all();
    leave("socket:[");
    ck_assert(leaving.begun);
    gpu_stay();
    ck_assert(!leaving.begun);
    ck_assert_int_eq(waitpid(-1, NULL, (int)__WALL), -1);
    ck_assert_int_eq(write(devices[1], "a", 1), 1);
    ck_assert_int_eq(write(others[1], "a", 1), 1);
    ck_assert(!has_ended(devices[0], 0));
  }
}
END_TEST

START_TEST(without_devices_there_is_no_child) {
  open_all();
  gpu_leave();
  ck_assert(!leaving.begun);
  ck_assert_int_eq(waitpid(-1, NULL, (int)__WALL), -1);
  gpu_stay();
  ck_assert_int_eq(write(others[1], "a", 1), 1);
}
END_TEST

Suite *leave_suite(void);
Suite *leave_suite(void) {
  Suite *suite = suite_create("leave");
  TCase *cases = tcase_create("leave");
  tcase_add_loop_test(cases, a_child_has_the_devices_until_this_process_has_gone, 0, HAS_CHILDREN);
  tcase_add_loop_test(cases, a_process_that_stays_has_all_that_it_had, 0, HAS_CHILDREN);
  tcase_add_test(cases, without_devices_there_is_no_child);
  suite_add_tcase(suite, cases);
  return suite;
}
