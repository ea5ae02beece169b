/* What a client with shared memory says of its frames' times, against a turn that began before it said so; and a client that
 * sleeps while one image of the process follows another. */
#include <check.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/measure/clock.h"
#include "daemon/source/channel.h"

enum { SLOTS = 2, BYTES = 6 };

static struct flow flow;
static struct account account;
static struct receive receive;
static struct channel channel;
static struct native_control control;

static void set_up(void) {
  struct frame_format format = format_image(PIXELS_GRAY, 3, 2);
  memset(&flow, 0, sizeof flow);
  memset(&account, 0, sizeof account);
  memset(&control, 0, sizeof control);
  slot_ring_init(&flow.ring, SLOTS);
  flow.account = &account;
  flow.input_bytes = flow.output_bytes = BYTES;
  receive_init(&receive, &flow, CONFIG_PROTOCOL_NATIVE, &format, NULL);
  channel_open(&channel, &control, &flow, &receive, -1, true);
}

static void submit(int64_t timestamp) {
  control.submissions[0] = (struct native_submission){.slot = 0, .frame.timestamp = timestamp};
  atomic_store(&control.client.submitted, 1);
}

START_TEST(a_frame_of_now_is_not_of_the_future) {
  int64_t turn_began = clock_now() - NS_PER_MS;
  int64_t taken = clock_now();
  submit(taken);
  ck_assert_int_eq(channel_take(&channel, turn_began), CHANNEL_MOVED);
  ck_assert_uint_eq(account.now.ledger.fates[FATE_INVALID], 0);
  const struct slot *slot = slot_oldest(&flow.ring, SLOT_READY);
  ck_assert_ptr_nonnull(slot);
  ck_assert_int_eq(slot->frame.began, taken);
  ck_assert_int_ge(slot->frame.complete, taken);
}
END_TEST

START_TEST(a_frame_of_the_future_is_invalid) {
  int64_t now = clock_now();
  submit(now + 3600 * NS_PER_S);
  ck_assert_int_eq(channel_take(&channel, now), CHANNEL_MOVED);
  ck_assert_uint_eq(account.now.ledger.fates[FATE_INVALID], 1);
}
END_TEST

/* The image before may have told it of results, and not have come through with the doorbell. */
START_TEST(a_client_that_sleeps_hears_of_the_next_image) {
  int ends[2];
  unsigned char byte = 0;
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  atomic_store(&control.client.sleeps, 1);
  channel_open_again(&channel, &control, &flow, &receive, ends[0], true);
  channel_ring(&channel);
  ck_assert_int_eq(recv(ends[1], &byte, sizeof byte, MSG_DONTWAIT), 1);
  ck_assert_uint_eq(byte, NATIVE_DOORBELL);
  close(ends[0]);
  close(ends[1]);
}
END_TEST

Suite *channel_stamps_suite(void);

Suite *channel_stamps_suite(void) {
  Suite *suite = suite_create("channel_stamps");
  TCase *stamps = tcase_create("stamps");
  tcase_add_checked_fixture(stamps, set_up, NULL);
  tcase_add_test(stamps, a_frame_of_now_is_not_of_the_future);
  tcase_add_test(stamps, a_frame_of_the_future_is_invalid);
  tcase_add_test(stamps, a_client_that_sleeps_hears_of_the_next_image);
  suite_add_tcase(suite, stamps);
  return suite;
}
