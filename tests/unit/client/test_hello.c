/* What a native client gets for its HELLO, also where the answer cannot be sent. */
#include "daemon/client/hello.h"

#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/runner.h"

static struct guest guest;
static int client;

static void connect_guest(void) {
  int pair[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  guest = (struct guest){.fd = pair[0], .native = true};
  client = pair[1];
}

static void disconnect_guest(void) {
  close(guest.fd);
  close(client);
}

START_TEST(a_client_is_welcomed) {
  const struct native_welcome welcome = {.version = NATIVE_VERSION, .slots = 3};
  unsigned char bytes[NATIVE_WELCOME_BYTES + 1];
  guest_welcome(&guest, &welcome, NULL, 0);
  ck_assert_int_eq(recv(client, bytes, sizeof bytes, MSG_DONTWAIT), NATIVE_WELCOME_BYTES);
  ck_assert(native_may_begin(bytes, NATIVE_WELCOME_BYTES));
}
END_TEST

/* A descriptor that is none stands for any reason for which the kernel passes none on. */
START_TEST(one_that_cannot_be_welcomed_sees_the_end) {
  const struct native_welcome welcome = {.version = NATIVE_VERSION};
  const int descriptors[] = {-1};
  unsigned char byte;
  guest_welcome(&guest, &welcome, descriptors, 1);
  ck_assert_int_eq(recv(client, &byte, sizeof byte, MSG_DONTWAIT), 0);
  ck_assert_int_eq(recv(guest.fd, &byte, sizeof byte, MSG_DONTWAIT), 0);
}
END_TEST

Suite *hello_suite(void);
Suite *hello_suite(void) {
  Suite *suite = suite_create("hello");
  TCase *tests = tcase_create("welcome");
  tcase_add_checked_fixture(tests, connect_guest, disconnect_guest);
  tcase_add_test(tests, a_client_is_welcomed);
  tcase_add_test(tests, one_that_cannot_be_welcomed_sees_the_end);
  suite_add_tcase(suite, tests);
  return suite;
}
