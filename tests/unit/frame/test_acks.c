/* Which frames of a producer have their fate, as one number. */
#include "daemon/frame/account.h"

#include <check.h>
#include <string.h>

#include "tests/unit/runner.h"

static struct acks acks;

static void begin(void) { acks = (struct acks){0}; }

static struct frame frame_of(unsigned producer, uint64_t sequence) {
  return (struct frame){.producer = producer, .sequence = sequence};
}

static void come(unsigned producer, uint64_t sequence) {
  const struct frame frame = frame_of(producer, sequence);
  acks_open(&acks, &frame);
}

static void settle(unsigned producer, uint64_t sequence, enum fate fate) {
  const struct frame frame = frame_of(producer, sequence);
  acks_close(&acks, &frame, fate);
}

START_TEST(the_first_without_a_fate_counts) {
  ck_assert_uint_eq(acks_count(&acks, 1), 0);
  for (unsigned i = 0; i < 4; i++) {
    come(1, i);
  }
  ck_assert_uint_eq(acks_count(&acks, 1), 0);
  settle(1, 1, FATE_NEWEST);
  ck_assert_uint_eq(acks_count(&acks, 1), 0);
  settle(1, 0, FATE_EMITTED);
  ck_assert_uint_eq(acks_count(&acks, 1), 2);
  settle(1, 3, FATE_LATE);
  ck_assert_uint_eq(acks_count(&acks, 1), 2);
  settle(1, 2, FATE_GPU_FAULT);
  ck_assert_uint_eq(acks_count(&acks, 1), 4);
}
END_TEST

START_TEST(what_was_cut_off_never_counts) {
  come(1, 0);
  come(1, 1);
  come(1, 2);
  settle(1, 0, FATE_EMITTED);
  settle(1, 1, _i == 0 ? FATE_SHUTDOWN : FATE_CLIENT_GONE);
  settle(1, 2, FATE_INVALID);
  ck_assert_uint_eq(acks_count(&acks, 1), 1);
}
END_TEST

START_TEST(another_producer_begins_anew) {
  come(1, 0);
  come(1, 1);
  settle(1, 0, FATE_EMITTED);
  ck_assert_uint_eq(acks_count(&acks, 2), 0);
  come(2, 0);
  settle(1, 1, FATE_EMITTED); /* a reader had it longer than its producer was there */
  ck_assert_uint_eq(acks_count(&acks, 2), 0);
  settle(2, 0, FATE_EMITTED);
  ck_assert_uint_eq(acks_count(&acks, 2), 1);
  ck_assert_uint_eq(acks_count(&acks, 1), 0);
}
END_TEST

START_TEST(more_than_there_is_room_for) {
  for (uint64_t i = 0; i < 3 * ACKS_OPEN; i++) {
    come(1, i);
  }
  ck_assert_uint_eq(acks_count(&acks, 1), 2 * ACKS_OPEN);
  for (uint64_t i = 0; i < 3 * ACKS_OPEN; i++) {
    settle(1, i, FATE_UNREAD);
  }
  ck_assert_uint_eq(acks_count(&acks, 1), 3 * ACKS_OPEN);
}
END_TEST

/* A process was killed somewhere between the end of a frame and that of its entry. */
START_TEST(what_is_open_nowhere_is_forgotten) {
  struct slot_ring ring;
  slot_ring_init(&ring, 3);
  for (unsigned i = 0; i < 3; i++) {
    come(7, i);
    ring.slots[i].frame = (struct frame){.producer = 7, .sequence = i, .open = i > 0};
  }
  acks_repair(&acks, &ring);
  ck_assert_uint_eq(acks_count(&acks, 7), 1);
  acks.open[acks.count++] = 2; /* twice */
  acks_repair(&acks, &ring);
  settle(7, 1, FATE_EMITTED);
  settle(7, 2, FATE_EMITTED);
  ck_assert_uint_eq(acks_count(&acks, 7), 3);
}
END_TEST

Suite *acks_suite(void);
Suite *acks_suite(void) {
  Suite *suite = suite_create("acks");
  TCase *tests = tcase_create("all");
  tcase_add_checked_fixture(tests, begin, NULL);
  tcase_add_test(tests, the_first_without_a_fate_counts);
  tcase_add_loop_test(tests, what_was_cut_off_never_counts, 0, 2);
  tcase_add_test(tests, another_producer_begins_anew);
  tcase_add_test(tests, more_than_there_is_room_for);
  tcase_add_test(tests, what_is_open_nowhere_is_forgotten);
  suite_add_tcase(suite, tests);
  return suite;
}
