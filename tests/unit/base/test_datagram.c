/* A reader that does not read, and what is too long for a message. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/datagram.h"
#include "tests/unit/runner.h"

static int reader;
static char name[64];
static struct datagram datagram;

static void begin(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length = snprintf(name, sizeof name, "@framed-datagram-%d", (int)getpid());
  memcpy(address.sun_path + 1, name + 1, (size_t)length - 1);
  reader = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length);
  ck_assert_int_eq(bind(reader, (struct sockaddr *)&address, size), 0);
  ck_assert(datagram_open(&datagram, name));
}

static void end(void) {
  datagram_close(&datagram);
  close(reader);
}

START_TEST(parts_are_one_message) {
  char text[16] = "";
  const struct iovec parts[] = {{.iov_base = "one ", .iov_len = 4}, {.iov_base = "two", .iov_len = 3}};
  ck_assert(datagram_send(&datagram, parts, 2, -1, false));
  ck_assert_int_eq(recv(reader, text, sizeof text, 0), 7);
  ck_assert_str_eq(text, "one two");
}
END_TEST

START_TEST(nobody_is_waited_for) {
  const struct iovec part = {.iov_base = "x", .iov_len = 1};
  int sent = 0, taken = 0;
  char byte;
  while (datagram_send(&datagram, &part, 1, -1, false)) {
    sent++;
  }
  ck_assert_int_eq(errno, EAGAIN);
  ck_assert(!datagram_send_large(&datagram, &part, 1));
  while (recv(reader, &byte, 1, 0) == 1) {
    taken++;
  }
  ck_assert(sent > 0 && taken == sent);
  ck_assert(datagram_send_large(&datagram, &part, 1));
}
END_TEST

START_TEST(a_reader_may_be_gone) {
  const struct iovec part = {.iov_base = "x", .iov_len = 1};
  close(reader);
  ck_assert(!datagram_send(&datagram, &part, 1, -1, true));
  begin();
  ck_assert(datagram_send(&datagram, &part, 1, -1, true));
}
END_TEST

/* The descriptor that comes with the next message. */
static int receive_descriptor(void) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } room;
  char text[8];
  int fd = -1;
  struct iovec part = {.iov_base = text, .iov_len = sizeof text};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
  ck_assert_int_eq(recvmsg(reader, &message, MSG_CMSG_CLOEXEC), 0);
  memcpy(&fd, CMSG_DATA(&room.head), sizeof fd);
  return fd;
}

START_TEST(what_is_too_long_goes_as_sealed_memory) {
  size_t size = 64 << 20;
  char *text = malloc(size);
  ck_assert_ptr_nonnull(text);
  memset(text, 'x', size);
  const struct iovec parts[] = {{.iov_base = "KEY=", .iov_len = 4}, {.iov_base = text, .iov_len = size}};
  struct stat status;
  char first[6] = "";
  ck_assert(!datagram_send(&datagram, parts, 2, -1, false));
  ck_assert(datagram_send_large(&datagram, parts, 2));
  int fd = receive_descriptor();
  ck_assert_int_eq(fstat(fd, &status), 0);
  ck_assert_int_eq(status.st_size, (off_t)size + 4);
  ck_assert_int_eq(pread(fd, first, 5, 0), 5);
  ck_assert_str_eq(first, "KEY=x");
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  ck_assert_int_eq(fcntl(fd, F_GET_SEALS) & seals, seals);
  close(fd);
  free(text);
}
END_TEST

START_TEST(addresses_are_checked) {
  struct datagram other;
  char text[200];
  memset(text, 'x', sizeof text);
  text[0] = '/';
  text[sizeof text - 1] = '\0';
  ck_assert(!datagram_open(&other, text));
  ck_assert(!datagram_open(&other, ""));
  ck_assert(!datagram_open(&other, "@"));
  ck_assert(!datagram_open(&other, "vsock:2:3"));
  ck_assert_int_eq(other.fd, -1);
  datagram_close(&other);
}
END_TEST

Suite *datagram_suite(void);

Suite *datagram_suite(void) {
  Suite *suite = suite_create("datagram");
  TCase *all = tcase_create("all");
  tcase_add_checked_fixture(all, begin, end);
  tcase_add_test(all, parts_are_one_message);
  tcase_add_test(all, nobody_is_waited_for);
  tcase_add_test(all, a_reader_may_be_gone);
  tcase_add_test(all, what_is_too_long_goes_as_sealed_memory);
  tcase_add_test(all, addresses_are_checked);
  suite_add_tcase(suite, all);
  return suite;
}
