/* What a client with shared memory says of its frames' times, against a turn that began before it said so; and a client that
 * sleeps while one image of the process follows another. */
#include <sys/socket.h>

#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"
#include "tests/unit/session/channel_rig.h"

static void begin(void) { set_up(true, 0); }

static void submit_at(int64_t timestamp) { submit(0, &(struct native_frame){.timestamp = timestamp}); }

START_TEST(a_frame_of_now_is_not_of_the_future) {
  int64_t turn_began = clock_now() - NS_PER_MS;
  int64_t taken = clock_now();
  submit_at(taken);
  rig.now = turn_began;
  ck_assert(take());
  ck_assert_uint_eq(rig.account.now.ledger.fates[FATE_INVALID], 0);
  const struct slot *slot = slot_oldest(&rig.flow.ring, SLOT_READY);
  ck_assert_ptr_nonnull(slot);
  ck_assert_int_eq(slot->frame.began, taken);
  ck_assert_int_ge(slot->frame.complete, taken);
}
END_TEST

START_TEST(a_frame_of_the_future_is_invalid) {
  int64_t now = clock_now();
  submit_at(now + 3600 * NS_PER_S);
  rig.now = now;
  ck_assert(take());
  ck_assert_uint_eq(rig.account.now.ledger.fates[FATE_INVALID], 1);
}
END_TEST

/* The image before may have told it of results, and not have come through with the doorbell. */
START_TEST(a_client_that_sleeps_hears_of_the_next_image) {
  unsigned char byte = 0;
  atomic_store(&rig.control.client.sleeps, 1);
  channel_open(&rig.channel, &rig.control, &rig.flow, &rig.source.mark, rig.ends[0], true, true);
  completions_ring(&rig.channel);
  ck_assert_int_eq(recv(rig.ends[1], &byte, sizeof byte, MSG_DONTWAIT), 1);
  ck_assert_uint_eq(byte, NATIVE_DOORBELL);
}
END_TEST

Suite *channel_stamps_suite(void);

Suite *channel_stamps_suite(void) {
  Suite *suite = suite_create("channel_stamps");
  TCase *stamps = tcase_create("stamps");
  tcase_add_checked_fixture(stamps, begin, tear_down);
  tcase_add_test(stamps, a_frame_of_now_is_not_of_the_future);
  tcase_add_test(stamps, a_frame_of_the_future_is_invalid);
  tcase_add_test(stamps, a_client_that_sleeps_hears_of_the_next_image);
  suite_add_tcase(suite, stamps);
  return suite;
}
