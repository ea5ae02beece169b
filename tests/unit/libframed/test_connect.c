/* The greeting: what a client says and believes, and what it does not believe. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/libframed/fake.h"
#include "tests/unit/runner.h"

static unsigned open_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  unsigned count = 0;
  while (readdir(folder)) {
    count++;
  }
  closedir(folder);
  return count;
}

START_TEST(a_welcome_is_told) {
  struct fake fake;
  fake_open(&fake, FRAMED_BOTH, _i);
  struct framed *client = fake_connect(&fake);
  ck_assert_msg(client != NULL, "%s", fake.problem.text);
  ck_assert_uint_eq(fake.hello.version, NATIVE_VERSION);
  ck_assert_uint_eq(fake.hello.role, NATIVE_BOTH);
  ck_assert_uint_eq(fake.hello.transport, (unsigned)_i);
  const struct framed_info *info = framed_info(client);
  ck_assert_int_eq(info->transport, _i);
  ck_assert_uint_eq(info->slots, FAKE_SLOTS);
  ck_assert_uint_eq(info->input_bytes, FAKE_INPUT);
  ck_assert_uint_eq(info->session, 77);
  ck_assert_str_eq(info->pipeline, "cam0");
  ck_assert_str_eq(info->output_format, "gray 20x10");
  ck_assert_int_eq(framed_problem(client)->code, FRAMED_OK);
  framed_close(client);
  fake_close(&fake);
}
END_TEST

/* Shared memory was asked for, and the daemon has none to lend. */
START_TEST(a_client_falls_back_to_the_stream) {
  struct fake fake;
  fake_open(&fake, FRAMED_BOTH, FRAMED_STREAM);
  fake.options.stream_only = 0;
  struct framed *client = fake_connect(&fake);
  ck_assert_ptr_nonnull(client);
  ck_assert_uint_eq(fake.hello.transport, NATIVE_SHARED);
  ck_assert_int_eq(framed_info(client)->transport, FRAMED_STREAM);
  framed_close(client);
  fake_close(&fake);
}
END_TEST

static void lie_version(struct fake *fake) { fake->welcome.version = 2; }
static void lie_role(struct fake *fake) { fake->welcome.role = NATIVE_CONSUMER; }
static void lie_transport(struct fake *fake) { fake->welcome.transport = 2; }
static void lie_no_slots(struct fake *fake) { fake->welcome.slots = 0; }
static void lie_many_slots(struct fake *fake) { fake->welcome.slots = 17; }
static void lie_no_input(struct fake *fake) { fake->welcome.input_bytes = 0; }
static void lie_huge_output(struct fake *fake) { fake->welcome.output_bytes = UINT64_MAX - 1; }
static void lie_stride(struct fake *fake) { fake->welcome.input_stride = 64; }
static void lie_huge_stride(struct fake *fake) { fake->welcome.output_stride = UINT64_MAX & ~UINT64_C(4095); }
static void lie_overflowing_stride(struct fake *fake) { fake->welcome.output_stride = UINT64_C(1) << 62; }
static void lie_control(struct fake *fake) { fake->welcome.control_bytes = 4096; }
static void lie_short_input(struct fake *fake) { fake->shorter[SHARED_INPUT] = 1; }
static void lie_short_output(struct fake *fake) { fake->shorter[SHARED_OUTPUT] = FAKE_STRIDE; }
static void lie_short_control(struct fake *fake) { fake->shorter[SHARED_CONTROL] = 1; }
static void lie_unsealed(struct fake *fake) { fake->unsealed = true; }
static void lie_no_descriptors(struct fake *fake) { fake->descriptors = 0; }
static void lie_two_descriptors(struct fake *fake) { fake->descriptors = 2; }
static void lie_four_descriptors(struct fake *fake) { fake->descriptors = 4; }
static void lie_many_descriptors(struct fake *fake) { fake->descriptors = 12; }
static void lie_type(struct fake *fake) { fake->type = NATIVE_RESULT; }
static void lie_stream(struct fake *fake) { fake->welcome.transport = NATIVE_STREAM; } /* with descriptors */

static void (*const lies[])(struct fake *) = {
    lie_version,          lie_role,          lie_transport,   lie_no_slots,           lie_many_slots,      lie_no_input,
    lie_huge_output,      lie_stride,        lie_huge_stride, lie_overflowing_stride, lie_control,         lie_short_input,
    lie_short_output,     lie_short_control, lie_unsealed,    lie_no_descriptors,     lie_two_descriptors, lie_four_descriptors,
    lie_many_descriptors, lie_type,          lie_stream};

START_TEST(a_daemon_that_lies_is_not_believed) {
  struct fake fake;
  fake_open(&fake, FRAMED_BOTH, FRAMED_SHARED);
  lies[_i](&fake);
  unsigned before = open_descriptors();
  ck_assert_ptr_null(fake_connect(&fake));
  ck_assert_int_eq(fake.problem.code, FRAMED_E_DAEMON);
  ck_assert_uint_gt(strlen(fake.problem.text), 20);
  ck_assert_uint_eq(open_descriptors(), before + 1 + SHARED_DESCRIPTORS); /* the fake's own */
  fake_close(&fake);
}
END_TEST

START_TEST(a_daemon_of_another_version_is_named) {
  struct fake fake;
  fake_open(&fake, FRAMED_CONSUMER, FRAMED_STREAM);
  fake.welcome.version = 9;
  ck_assert_ptr_null(fake_connect(&fake));
  ck_assert_ptr_nonnull(strstr(fake.problem.text, "speaks version 9 of the protocol, this libframed version 1: use"));
  fake_close(&fake);
}
END_TEST

START_TEST(an_error_is_passed_on) {
  struct fake fake;
  fake_open(&fake, FRAMED_PRODUCER, FRAMED_STREAM);
  fake.error = NATIVE_E_BUSY;
  fake.text = "no seat is free";
  ck_assert_ptr_null(fake_connect(&fake));
  ck_assert_int_eq(fake.problem.code, FRAMED_E_BUSY);
  ck_assert_str_eq(fake.problem.text, "no seat is free");
  fake_close(&fake);
}
END_TEST

static const struct {
  const char *said;
  int code;
  const char *text;
} strangers[] = {{"framed: no seat is free\n", FRAMED_E_DAEMON, "this is no native socket: no seat is free"},
                 {"HTTP/1.1 400 Bad Request\r\n", FRAMED_E_DAEMON, "does not speak the native protocol"},
                 {"", FRAMED_E_CLOSED, "closed the connection"},
                 {"FRMD", FRAMED_E_CLOSED, "closed the connection"}};

START_TEST(a_stranger_is_known) {
  struct fake fake;
  fake_open(&fake, FRAMED_PRODUCER, FRAMED_STREAM);
  fake.text = strangers[_i].said;
  ck_assert_ptr_null(fake_connect(&fake));
  ck_assert_int_eq(fake.problem.code, strangers[_i].code);
  ck_assert_ptr_nonnull(strstr(fake.problem.text, strangers[_i].text));
  fake_close(&fake);
}
END_TEST

START_TEST(silence_has_an_end) {
  struct fake fake;
  fake_open(&fake, FRAMED_PRODUCER, FRAMED_STREAM);
  fake.silent = true;
  fake.options.connect_timeout_ns = 1000000;
  ck_assert_ptr_null(fake_connect(&fake));
  ck_assert_int_eq(fake.problem.code, FRAMED_E_TIMEOUT);
  fake_close(&fake);
}
END_TEST

START_TEST(mistakes_of_the_caller) {
  struct framed_error error;
  char path[200];
  memset(path, 'x', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  const struct framed_options unknown = {.reserved = {1}};
  const struct framed_options no_role = {.role = 4};
  ck_assert_ptr_null(framed_connect(path, NULL, &error));
  ck_assert_int_eq(error.code, FRAMED_E_USAGE);
  ck_assert_ptr_null(framed_connect("/nowhere", &unknown, &error));
  ck_assert_int_eq(error.code, FRAMED_E_USAGE);
  ck_assert_ptr_null(framed_connect("/nowhere", &no_role, &error));
  ck_assert_int_eq(error.code, FRAMED_E_USAGE);
  ck_assert_ptr_null(framed_connect("/nowhere", NULL, &error));
  ck_assert_int_eq(error.code, FRAMED_E_SYSTEM);
  ck_assert_int_eq(error.system, ENOENT);
  ck_assert_ptr_null(framed_connect("/nowhere", NULL, NULL));
  ck_assert_ptr_null(framed_close(NULL));
  ck_assert_str_eq(framed_fate_name(FRAMED_SHUTDOWN), "shutdown");
  ck_assert_str_eq(framed_fate_name(FRAMED_SHUTDOWN + 1), "?");
  ck_assert_str_eq(framed_fate_name(-1), "?");
}
END_TEST

Suite *connect_suite(void);

Suite *connect_suite(void) {
  Suite *suite = suite_create("connect");
  TCase *group = tcase_create("greeting");
  tcase_set_timeout(group, 60);
  tcase_add_loop_test(group, a_welcome_is_told, FRAMED_STREAM, FRAMED_SHARED + 1);
  tcase_add_test(group, a_client_falls_back_to_the_stream);
  tcase_add_loop_test(group, a_daemon_that_lies_is_not_believed, 0, (int)(sizeof lies / sizeof lies[0]));
  tcase_add_test(group, a_daemon_of_another_version_is_named);
  tcase_add_test(group, an_error_is_passed_on);
  tcase_add_loop_test(group, a_stranger_is_known, 0, (int)(sizeof strangers / sizeof strangers[0]));
  tcase_add_test(group, silence_has_an_end);
  tcase_add_test(group, mistakes_of_the_caller);
  suite_add_tcase(suite, group);
  return suite;
}
