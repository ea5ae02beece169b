/* The limit for the rest of a frame, on a clock of the test's own. */
#include <check.h>
#include <string.h>

#include "daemon/source/source.h"

enum { BYTES = 6 };

static struct flow flow;
static struct account account;
static struct receive receive;
static struct runner runner; /* on no lane: nothing is scheduled */
static struct source source;
static unsigned char input[BYTES];

static void begin_a_frame(int64_t timeout_ns) {
  struct frame_format format = format_image(PIXELS_GRAY, BYTES, 1);
  struct iovec vector[RECEIVE_VECTORS];
  memset(&flow, 0, sizeof flow);
  memset(&account, 0, sizeof account);
  slot_ring_init(&flow.ring, 1);
  flow.account = &account;
  flow.input_bytes = BYTES;
  flow.ring.slots[0].input = input;
  receive_init(&receive, &flow, CONFIG_PROTOCOL_RAW, &format, NULL);
  source = (struct source){.state = SOURCE_OPEN, .runner = &runner, .receive = &receive, .timeout_ns = timeout_ns};
  ck_assert_int_eq(receive_vector(&receive, vector, 1000), 1);
  ck_assert(receive_advance(&receive, 2, 1000, 1000));
}

START_TEST(test_a_frame_that_takes_too_long) {
  begin_a_frame(500);
  source_tick(&source, 1500);
  ck_assert_int_eq(source.state, SOURCE_OPEN);
  source_tick(&source, 1501);
  ck_assert_int_eq(source.state, SOURCE_ENDED);
  ck_assert_int_eq(source.reason, DETACH_TIMEOUT);
  ck_assert_ptr_nonnull(strstr(source.text, "2 of 6 bytes"));
  ck_assert_uint_eq(account.now.ledger.fates[FATE_INVALID], 1);
}
END_TEST

START_TEST(test_no_limit_between_frames) {
  begin_a_frame(500);
  ck_assert(receive_advance(&receive, 4, 1200, 1200));
  source_tick(&source, INT64_MAX);
  ck_assert_int_eq(source.state, SOURCE_OPEN);
}
END_TEST

/* As for standard input, which keeps nobody else away. */
START_TEST(test_no_limit_at_all) {
  begin_a_frame(0);
  source_tick(&source, INT64_MAX);
  ck_assert_int_eq(source.state, SOURCE_OPEN);
}
END_TEST

Suite *source_suite(void);

Suite *source_suite(void) {
  Suite *suite = suite_create("source");
  TCase *tests = tcase_create("timeout");
  tcase_add_test(tests, test_a_frame_that_takes_too_long);
  tcase_add_test(tests, test_no_limit_between_frames);
  tcase_add_test(tests, test_no_limit_at_all);
  suite_add_tcase(suite, tests);
  return suite;
}
