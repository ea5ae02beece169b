/* What a native far_end gets for its HELLO, also where the answer cannot be sent. */
#include "daemon/client/handshake.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/runner.h"

static struct client client;
static int far_end;

static void connect_guest(void) {
  int pair[2];
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  client = (struct client){.fd = pair[0], .native = true};
  far_end = pair[1];
}

static void disconnect_guest(void) {
  close(client.fd);
  close(far_end);
}

START_TEST(a_client_is_welcomed) {
  const struct native_welcome reply = {.slots = 3};
  unsigned char bytes[NATIVE_WELCOME_BYTES + 1];
  struct native_welcome said;
  client.hello.version = 7; /* whatever the client speaks is what both speak from there on */
  client_welcome(&client, &reply, NULL, 0);
  ck_assert_int_eq(recv(far_end, bytes, sizeof bytes, MSG_DONTWAIT), NATIVE_WELCOME_BYTES);
  ck_assert(native_may_begin(bytes, NATIVE_WELCOME_BYTES));
  memcpy(&said, bytes + sizeof(struct native_header), sizeof said);
  ck_assert_uint_eq(said.version, 7);
  ck_assert_uint_eq(said.slots, 3);
}
END_TEST

/* A descriptor that is none stands for any reason for which the kernel passes none on. */
START_TEST(one_that_cannot_be_welcomed_sees_the_end) {
  const struct native_welcome reply = {.slots = 3};
  const int descriptors[] = {-1};
  unsigned char byte;
  client_welcome(&client, &reply, descriptors, 1);
  ck_assert_int_eq(recv(far_end, &byte, sizeof byte, MSG_DONTWAIT), 0);
  ck_assert_int_eq(recv(client.fd, &byte, sizeof byte, MSG_DONTWAIT), 0);
}
END_TEST

Suite *handshake_suite(void);
Suite *handshake_suite(void) {
  Suite *suite = suite_create("handshake");
  TCase *tests = tcase_create("welcome");
  tcase_add_checked_fixture(tests, connect_guest, disconnect_guest);
  tcase_add_test(tests, a_client_is_welcomed);
  tcase_add_test(tests, one_that_cannot_be_welcomed_sees_the_end);
  suite_add_tcase(suite, tests);
  return suite;
}
