/*
 * Descriptors that a client passes along are closed, whatever becomes of the connection that they came by. Each test passes the
 * writing end of a pipe: once nobody has that any more, the reading end hangs up.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/rights.h"
#include "tests/unit/runner.h"

enum { PATIENCE_MS = 20000 };

static int ours, theirs; /* the daemon's end of a connection, and a client's */
static int reading;      /* end of the pipe whose other end was passed */

static void begin(void) {
  int ends[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ours = ends[0];
  theirs = ends[1];
}

static void begin_with_threads(void) {
  struct failure failure;
  ck_assert(rights_start(&failure));
  begin();
}

/* Sends one byte with the writing end of a pipe, which the sender gives up. */
static void pass_pipe(int socket) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } room = {0};
  struct iovec byte = {.iov_base = "x", .iov_len = 1};
  struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
  int ends[2];
  ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
  room.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
  memcpy(CMSG_DATA(&room.head), &ends[1], sizeof(int));
  ck_assert_int_eq(sendmsg(socket, &message, 0), 1);
  close(ends[1]);
  reading = ends[0];
}

static bool is_closed(int patience_ms) {
  struct pollfd end = {.fd = reading};
  return poll(&end, 1, patience_ms) == 1 && (end.revents & POLLHUP);
}

static ssize_t read_some(size_t size) {
  char bytes[16];
  return rights_read(ours, &(struct iovec){.iov_base = bytes, .iov_len = size}, 1);
}

START_TEST(what_is_read_is_closed_at_once_without_threads) {
  pass_pipe(theirs);
  ck_assert_int_eq(read_some(1), 1);
  ck_assert(is_closed(0));
}
END_TEST

START_TEST(what_is_read_is_closed_by_a_thread) {
  pass_pipe(theirs);
  ck_assert_int_eq(read_some(16), 1);
  ck_assert(is_closed(PATIENCE_MS));
  ck_assert_int_eq(read_some(16), -1);
  ck_assert_int_eq(errno, EAGAIN);
}
END_TEST

START_TEST(descriptors_that_wait_are_found_and_stay) {
  ck_assert_int_eq(write(theirs, "plain", 5), 5);
  ck_assert(!rights_wait_in(ours));
  pass_pipe(theirs);
  ck_assert(rights_wait_in(ours));
  ck_assert(!is_closed(0));
  ck_assert_int_eq(read_some(5), 5);
  ck_assert(rights_wait_in(ours));
}
END_TEST

START_TEST(a_connection_is_closed_with_what_is_unread_in_it) {
  struct pollfd end = {.fd = theirs};
  pass_pipe(theirs);
  rights_close(ours);
  ck_assert(is_closed(PATIENCE_MS));
  ck_assert_int_eq(poll(&end, 1, PATIENCE_MS), 1);
  ck_assert(end.revents & POLLHUP);
}
END_TEST

/* The number is closed by somebody else right after it was left. */
START_TEST(a_connection_that_is_left_is_emptied) {
  pass_pipe(theirs);
  rights_leave(ours);
  close(ours);
  ck_assert(is_closed(PATIENCE_MS));
}
END_TEST

START_TEST(a_listener_is_closed_with_connections_that_wait_at_it) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "framed-rights-%d", (int)getpid());
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, size), 0);
  ck_assert_int_eq(listen(listener, 1), 0);
  ck_assert_int_eq(connect(client, (struct sockaddr *)&address, size), 0);
  pass_pipe(client);
  rights_close(listener);
  ck_assert_int_lt(fcntl(listener, F_GETFD), 0);
  ck_assert(is_closed(PATIENCE_MS));
}
END_TEST

START_TEST(a_file_is_closed_at_once) {
  int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  rights_close(file);
  ck_assert_int_lt(fcntl(file, F_GETFD), 0);
}
END_TEST

/* Where the kernel knows no refusal, an urgent byte is read like any other. */
START_TEST(an_older_kernel_is_asked_for_urgent_bytes_in_line) {
#ifdef FRAMED_FAULTS
  int in_line = 0;
  socklen_t size = sizeof in_line;
  setenv("FRAMED_FAULT_OLDER_KERNEL", "1", 1);
  rights_refuse(ours);
  ck_assert_int_eq(getsockopt(ours, SOL_SOCKET, SO_OOBINLINE, &in_line, &size), 0);
  ck_assert_int_ne(in_line, 0);
#endif
}
END_TEST

Suite *rights_suite(void);
Suite *rights_suite(void) {
  Suite *suite = suite_create("rights");
  TCase *without = tcase_create("without threads");
  tcase_add_checked_fixture(without, begin, NULL);
  tcase_add_test(without, what_is_read_is_closed_at_once_without_threads);
  tcase_add_test(without, descriptors_that_wait_are_found_and_stay);
  tcase_add_test(without, an_older_kernel_is_asked_for_urgent_bytes_in_line);
  suite_add_tcase(suite, without);
  TCase *with = tcase_create("with threads");
  tcase_add_checked_fixture(with, begin_with_threads, NULL);
  tcase_set_timeout(with, 60);
  tcase_add_test(with, what_is_read_is_closed_by_a_thread);
  tcase_add_test(with, a_connection_is_closed_with_what_is_unread_in_it);
  tcase_add_test(with, a_connection_that_is_left_is_emptied);
  tcase_add_test(with, a_listener_is_closed_with_connections_that_wait_at_it);
  tcase_add_test(with, a_file_is_closed_at_once);
  suite_add_tcase(suite, with);
  return suite;
}
