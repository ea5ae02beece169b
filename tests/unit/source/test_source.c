/* The limit for the rest of a frame, on a clock of the test's own; how much is read before what came goes on. */
#include <check.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/source/private.h"

enum { BYTES = 6, LARGE = 1 << 20, FRAMES = 4, MOST_A_TURN = 512 << 10 };

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

/* Four free slots, and as many frames that have come: else a frame would wait until all of those after it are read. */
START_TEST(test_a_large_frame_goes_on_before_the_next_is_read) {
  static unsigned char inputs[FRAMES][LARGE];
  struct frame_format format = format_image(PIXELS_GRAY, LARGE, 1);
  int fd = memfd_create("frames", MFD_CLOEXEC);
  ck_assert_int_eq(ftruncate(fd, FRAMES * LARGE), 0);
  memset(&flow, 0, sizeof flow);
  memset(&account, 0, sizeof account);
  slot_ring_init(&flow.ring, FRAMES);
  flow.account = &account;
  flow.input_bytes = LARGE;
  for (int i = 0; i < FRAMES; i++) {
    flow.ring.slots[i].input = inputs[i];
  }
  receive_init(&receive, &flow, CONFIG_PROTOCOL_RAW, &format, NULL);
  source = (struct source){.state = SOURCE_OPEN, .runner = &runner, .receive = &receive, .fd = fd, .readable = true};
  for (uint64_t before = 0; before < FRAMES * LARGE; before = account.now.ledger.in_bytes) {
    ck_assert(source_polled_operations.turn(&source, 1000));
    ck_assert_uint_le(account.now.ledger.in_bytes - before, MOST_A_TURN);
    ck_assert_uint_eq(slot_count(&flow.ring, SLOT_READY), account.now.ledger.in_bytes / LARGE);
  }
  ck_assert_uint_eq(slot_count(&flow.ring, SLOT_READY), FRAMES);
  close(fd);
}
END_TEST

Suite *source_suite(void);

Suite *source_suite(void) {
  Suite *suite = suite_create("source");
  TCase *tests = tcase_create("all");
  tcase_add_test(tests, test_a_frame_that_takes_too_long);
  tcase_add_test(tests, test_no_limit_between_frames);
  tcase_add_test(tests, test_no_limit_at_all);
  tcase_add_test(tests, test_a_large_frame_goes_on_before_the_next_is_read);
  suite_add_tcase(suite, tests);
  return suite;
}
