/* The past ten minutes: which readings become samples, in what order, and what a minute of them holds. */
#include <check.h>

#include "daemon/measure/past.h"

static struct past past;

static void start(void) { past = (struct past){0}; }

/* A reading at that second, with so many frames of which every tenth was late. */
static void read_at(unsigned second, uint64_t frames) {
  static struct reading now, before;
  now.at = (int64_t)second * NS_PER_S;
  now.ledger.in = frames;
  now.ledger.fates[FATE_LATE] = frames / 10;
  now.ledger.fates[FATE_EMITTED] = frames - frames / 10;
  past_add(&past, &now, &before);
}

START_TEST(every_third_reading_is_a_sample) {
  for (unsigned i = 0; i < 7; i++) {
    read_at(2 * i, i);
  }
  ck_assert_uint_eq(past.count, 3);
  ck_assert_uint_eq(past_at(&past, 0)->in, 0);
  ck_assert_uint_eq(past_at(&past, 1)->in, 3);
  ck_assert_uint_eq(past_at(&past, 2)->in, 6);
}
END_TEST

START_TEST(the_oldest_samples_give_way) {
  for (unsigned i = 0; i < PAST_EVERY * (PAST_SAMPLES + 10); i++) {
    read_at(2 * i, i);
  }
  ck_assert_uint_eq(past.count, PAST_SAMPLES);
  ck_assert_uint_eq(past_at(&past, 0)->in, 30);
  ck_assert_uint_eq(past_at(&past, PAST_SAMPLES - 1)->in, PAST_EVERY * (PAST_SAMPLES + 9));
}
END_TEST

START_TEST(a_minute_is_the_difference_to_the_sample_before_it) {
  uint64_t fates[FATE_COUNT];
  struct ledger now = {.fates = {[FATE_LATE] = 1005}};
  past_minute(&past, &now, 0, fates);
  ck_assert_uint_eq(fates[FATE_LATE], 0);
  for (unsigned i = 0; i <= 99; i++) {
    read_at(2 * i, 100 * (uint64_t)i);
  }
  past_minute(&past, &now, 198 * NS_PER_S, fates);
  ck_assert_int_eq(past_at(&past, 23)->at, 138 * NS_PER_S);
  ck_assert_uint_eq(fates[FATE_LATE], 1005 - 690);
}
END_TEST

Suite *past_suite(void);

Suite *past_suite(void) {
  Suite *suite = suite_create("past");
  TCase *samples = tcase_create("samples");
  tcase_add_checked_fixture(samples, start, NULL);
  tcase_add_test(samples, every_third_reading_is_a_sample);
  tcase_add_test(samples, the_oldest_samples_give_way);
  tcase_add_test(samples, a_minute_is_the_difference_to_the_sample_before_it);
  suite_add_tcase(suite, samples);
  return suite;
}
