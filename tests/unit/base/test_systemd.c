/*
 * systemd's two interfaces, played by the test: a datagram socket that takes the notifications, and listening
 * sockets passed at descriptor 3. The latter happens in a child, where those numbers are free to use.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"

/* -- notifications ------------------------------------------------------------------------------------------------ */

static int notifications;

static void listen_for_notifications(void) {
  notifications = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ck_assert_int_ge(notifications, 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  ck_assert_int_eq(bind(notifications, (struct sockaddr *)&address, sizeof address.sun_family), 0); /* the kernel names it */
  socklen_t length = sizeof address;
  ck_assert_int_eq(getsockname(notifications, (struct sockaddr *)&address, &length), 0);
  char name[sizeof address.sun_path + 1];
  size_t name_length = length - offsetof(struct sockaddr_un, sun_path);
  snprintf(name, sizeof name, "@%.*s", (int)name_length - 1, address.sun_path + 1);
  setenv("NOTIFY_SOCKET", name, 1);
}

static void close_notifications(void) {
  close(notifications);
  unsetenv("NOTIFY_SOCKET");
}

static const char *notification(void) {
  static char text[512];
  ssize_t length = recv(notifications, text, sizeof text - 1, 0);
  ck_assert_int_ge(length, 0);
  text[length] = '\0';
  return text;
}

START_TEST(notifications_say_what_systemd_expects) {
  systemd_ready("2 pipelines");
  ck_assert_str_eq(notification(), "READY=1\nSTATUS=2 pipelines");
  systemd_status("60 frames/s");
  ck_assert_str_eq(notification(), "STATUS=60 frames/s");
  systemd_stopping("draining");
  ck_assert_str_eq(notification(), "STOPPING=1\nSTATUS=draining");
  systemd_watchdog();
  ck_assert_str_eq(notification(), "WATCHDOG=1");
}
END_TEST

START_TEST(reloading_carries_the_monotonic_time) {
  int64_t before = clock_now() / NS_PER_US;
  systemd_reloading();
  long long stamp = 0;
  ck_assert_int_eq(sscanf(notification(), "RELOADING=1\nMONOTONIC_USEC=%lld", &stamp), 1);
  ck_assert_int_ge(stamp, before);
  ck_assert_int_le(stamp, clock_now() / NS_PER_US);
}
END_TEST

START_TEST(a_status_cannot_add_assignments) {
  systemd_status("fine\nSTOPPING=1");
  ck_assert_str_eq(notification(), "STATUS=fine");
}
END_TEST

START_TEST(without_systemd_nothing_happens) {
  unsetenv("NOTIFY_SOCKET");
  unsetenv("WATCHDOG_USEC");
  unsetenv("JOURNAL_STREAM");
  systemd_ready("ready");
  systemd_watchdog();
  char byte;
  ck_assert_int_eq(recv(notifications, &byte, 1, 0), -1);
  ck_assert_int_eq(systemd_watchdog_interval(), 0);
  ck_assert(!systemd_has_journal());
  ck_assert_int_eq(systemd_take_listener("cam0", "/run/framed/cam0.sock"), -1);
  ck_assert_ptr_null(systemd_unclaimed());
}
END_TEST

/* LISTEN_FDNAMES would be too long for a program to be executed with it. */
START_TEST(no_more_descriptors_are_kept_than_can_be_named) {
  setenv("FDSTORE", "100", 1);
  ck_assert_uint_eq(systemd_keeps(), 100);
  setenv("FDSTORE", "100000", 1);
  ck_assert_uint_eq(systemd_keeps(), 8192);
  unsetenv("FDSTORE");
  ck_assert_uint_eq(systemd_keeps(), 0);
}
END_TEST

START_TEST(the_watchdog_interval_is_ours_only) {
  char pid[16];
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  setenv("WATCHDOG_USEC", "3000000", 1);
  setenv("WATCHDOG_PID", pid, 1);
  ck_assert_int_eq(systemd_watchdog_interval(), 3 * NS_PER_S);
  setenv("WATCHDOG_PID", "1", 1);
  ck_assert_int_eq(systemd_watchdog_interval(), 0);
}
END_TEST

START_TEST(the_journal_is_recognised_by_device_and_inode) {
  struct stat status;
  ck_assert_int_eq(fstat(STDERR_FILENO, &status), 0);
  char stream[64];
  snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
  setenv("JOURNAL_STREAM", stream, 1);
  ck_assert(systemd_has_journal());
  snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino + 1);
  setenv("JOURNAL_STREAM", stream, 1);
  ck_assert(!systemd_has_journal());
  setenv("JOURNAL_STREAM", "nonsense", 1);
  ck_assert(!systemd_has_journal());
}
END_TEST

/* -- passed sockets ----------------------------------------------------------------------------------------------- */

enum { FIRST_PASSED = 3 };

static char directory[] = "/tmp/framed-systemd-test-XXXXXX";

static void make_directory(void) { ck_assert_ptr_nonnull(mkdtemp(directory)); }

static void path_of(char path[108], const char *name) { snprintf(path, 108, "%s/%s", directory, name); }

static void remove_directory(void) {
  char path[108];
  path_of(path, "a");
  unlink(path);
  path_of(path, "b");
  unlink(path);
  rmdir(directory);
}

/* A listening Unix socket at `number`. */
static void pass_unix(int number, const char *name, int type) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  path_of(address.sun_path, name);
  int fd = socket(AF_UNIX, type, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || (type == SOCK_STREAM && listen(fd, 1) != 0) ||
      dup2(fd, number) != number) {
    _exit(100);
  }
  if (fd != number) {
    close(fd);
  }
}

static void pass_tcp(int number) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1) != 0 ||
      dup2(fd, number) != number) {
    _exit(101);
  }
  if (fd != number) {
    close(fd);
  }
}

static void announce(const char *count, const char *names) {
  char pid[16];
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  setenv("LISTEN_PID", pid, 1);
  setenv("LISTEN_FDS", count, 1);
  setenv("LISTEN_FDNAMES", names, 1);
}

/* Runs `scenario` in a child; it returns 0, or the number of the expectation that failed. */
static void run_in_child(int (*scenario)(void)) {
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    _exit(scenario());
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  ck_assert_msg(WEXITSTATUS(status) == 0, "expectation %d failed", WEXITSTATUS(status));
}

static int listeners_are_taken_once(void) {
  pass_unix(FIRST_PASSED, "a", SOCK_STREAM);
  pass_unix(FIRST_PASSED + 1, "b", SOCK_STREAM);
  pass_tcp(FIRST_PASSED + 2);
  announce("3", "cam0:framed.socket:status-http");
  char path[108];
  path_of(path, "b");
  if (systemd_take_listener("cam0", "/elsewhere") != FIRST_PASSED) {
    return 1; /* by name, whatever its address */
  }
  if (systemd_take_listener("cam0", "/elsewhere") != -1) {
    return 2;
  }
  const char *unclaimed = systemd_unclaimed();
  if (!unclaimed || strcmp(unclaimed, "framed.socket") != 0) {
    return 3;
  }
  if (systemd_take_listener("cam1", path) != FIRST_PASSED + 1) {
    return 4; /* by address */
  }
  if (systemd_take_listener("status-http", NULL) != FIRST_PASSED + 2) {
    return 5;
  }
  if (systemd_unclaimed() != NULL || getenv("LISTEN_FDS") != NULL) {
    return 6;
  }
  for (int fd = FIRST_PASSED; fd < FIRST_PASSED + 3; fd++) {
    if (!(fcntl(fd, F_GETFL) & O_NONBLOCK) || !(fcntl(fd, F_GETFD) & FD_CLOEXEC)) {
      return 7;
    }
  }
  return 0;
}

static int other_sockets_are_left_alone(void) {
  pass_unix(FIRST_PASSED, "a", SOCK_DGRAM);
  announce("1", "cam0");
  char path[108];
  path_of(path, "a");
  if (systemd_take_listener("cam0", path) != -1) {
    return 1;
  }
  const char *unclaimed = systemd_unclaimed();
  return unclaimed && strcmp(unclaimed, "cam0") == 0 ? 0 : 2;
}

static int sockets_of_another_process_are_not_ours(void) {
  pass_unix(FIRST_PASSED, "a", SOCK_STREAM);
  announce("1", "cam0");
  setenv("LISTEN_PID", "1", 1);
  return systemd_take_listener("cam0", NULL) == -1 && systemd_unclaimed() == NULL ? 0 : 1;
}

/* What was taken is there again. */
static int the_next_program_is_passed_the_same(void) {
  uint64_t number;
  pass_unix(FIRST_PASSED, "a", SOCK_STREAM);
  announce("3", "cam0:framed-d7:framed-d8");
  if (dup2(STDERR_FILENO, FIRST_PASSED + 1) < 0 || dup2(STDERR_FILENO, FIRST_PASSED + 2) < 0 ||
      systemd_take_kept("d", &number) != FIRST_PASSED + 1 || number != 7 ||
      systemd_take_kept("d", &number) != FIRST_PASSED + 2 || number != 8 ||
      systemd_take_listener("cam0", NULL) != FIRST_PASSED) {
    return 1;
  }
  if (getenv("LISTEN_FDS") || fcntl(FIRST_PASSED, F_SETFD, 0) != 0 || !systemd_pass_again()) {
    return 2;
  }
  char own[16];
  snprintf(own, sizeof own, "%d", getpid());
  if (strcmp(getenv("LISTEN_PID"), own) != 0 || strcmp(getenv("LISTEN_FDS"), "3") != 0 ||
      strcmp(getenv("LISTEN_FDNAMES"), "cam0:framed-d7:framed-d8") != 0) {
    return 4;
  }
  systemd_pass_nothing();
  return getenv("LISTEN_PID") || getenv("LISTEN_FDS") || getenv("LISTEN_FDNAMES") ? 5 : 0;
}

/* What looks like a unit's is left to be taken as such. */
static int what_was_kept_is_told_from_what_a_unit_passes(void) {
  uint64_t number;
  pass_unix(FIRST_PASSED, "a", SOCK_STREAM);
  announce("4", "framed-d12.socket:framed-d12:framed-d:framed-deep1");
  for (int i = 1; i < 4; i++) {
    if (dup2(STDERR_FILENO, FIRST_PASSED + i) < 0) {
      return 3;
    }
  }
  if (systemd_take_kept("d", &number) != FIRST_PASSED + 1 || number != 12 || systemd_take_kept("d", &number) != -1) {
    return 1;
  }
  char path[108];
  path_of(path, "a");
  return systemd_take_listener("cam0", path) == FIRST_PASSED ? 0 : 2;
}

/* The numbers of the descriptors are looked at one after the other there. */
static int the_next_program_finds_every_number(void) {
  uint64_t number;
  announce("3", "framed-d1:framed-d2:framed-d3");
  for (int i = 0; i < 3; i++) {
    if (dup2(STDERR_FILENO, FIRST_PASSED + i) < 0) {
      return 1;
    }
  }
  while (systemd_take_kept("d", &number) >= 0) {
  }
  close(FIRST_PASSED);
  if (!systemd_pass_again()) {
    return 2;
  }
  for (int i = 0; i < 3; i++) {
    int flags = fcntl(FIRST_PASSED + i, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC)) {
      return 3;
    }
  }
  systemd_pass_nothing();
  return 0;
}

static int (*const scenarios[])(void) = {listeners_are_taken_once,
                                         other_sockets_are_left_alone,
                                         sockets_of_another_process_are_not_ours,
                                         the_next_program_is_passed_the_same,
                                         what_was_kept_is_told_from_what_a_unit_passes,
                                         the_next_program_finds_every_number};

START_TEST(passed_sockets) { run_in_child(scenarios[_i]); }
END_TEST

Suite *systemd_suite(void);
Suite *systemd_suite(void) {
  Suite *suite = suite_create("systemd");
  TCase *notify = tcase_create("notifications");
  tcase_add_checked_fixture(notify, listen_for_notifications, close_notifications);
  tcase_add_test(notify, notifications_say_what_systemd_expects);
  tcase_add_test(notify, reloading_carries_the_monotonic_time);
  tcase_add_test(notify, a_status_cannot_add_assignments);
  tcase_add_test(notify, without_systemd_nothing_happens);
  tcase_add_test(notify, no_more_descriptors_are_kept_than_can_be_named);
  tcase_add_test(notify, the_watchdog_interval_is_ours_only);
  tcase_add_test(notify, the_journal_is_recognised_by_device_and_inode);
  suite_add_tcase(suite, notify);
  TCase *sockets = tcase_create("sockets");
  tcase_add_checked_fixture(sockets, make_directory, remove_directory);
  tcase_add_loop_test(sockets, passed_sockets, 0, (int)(sizeof scenarios / sizeof *scenarios));
  suite_add_tcase(suite, sockets);
  return suite;
}
