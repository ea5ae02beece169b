/* When frames are due, and how many: as counting them one by one says, and where nobody could. */
#include "tools/framebench/load/pace.h"

#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"

static const double rates[] = {1e-300, 1e-10, 0.4, 1, 3, 29.97, 999.9, 1e4, 123456.789};

static uint64_t count_one_by_one(const struct load_pace *pace) {
  uint64_t count = 0;
  int64_t at;
  for (uint64_t number = 0; (at = load_pace_due(pace, number)) < pace->to; number++) {
    count += load_pace_measures(pace, at);
  }
  return count;
}

START_TEST(frames_of_any_span_are_counted) {
  static const int64_t spans[][2] = {
      {0, NS_PER_S}, {NS_PER_S / 3, 2 * NS_PER_S}, {-NS_PER_S, NS_PER_S / 7}, {NS_PER_S, NS_PER_S}, {7, 8},
      {0, 1},        {-2 * NS_PER_S, -NS_PER_S},   {100, 5 * NS_PER_S + 1}};
  for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
    struct load_pace pace = {.rate = rates[_i], .start = 1234567890123};
    pace.from = pace.start + spans[i][0];
    pace.to = pace.start + spans[i][1];
    ck_assert_uint_eq(load_pace_offered(&pace), count_one_by_one(&pace));
  }
}
END_TEST

START_TEST(so_many_that_nobody_could_count_them) {
  struct load_pace pace = {.rate = 1e9, .start = 1000, .from = 1000 + 3600 * NS_PER_S, .to = 1000 + 86400 * NS_PER_S};
  ck_assert_uint_eq(load_pace_offered(&pace), (86400 - 3600) * UINT64_C(1000000000));
}
END_TEST

Suite *load_pace_suite(void);

Suite *load_pace_suite(void) {
  Suite *suite = suite_create("load_pace");
  TCase *cases = tcase_create("offered");
  tcase_set_timeout(cases, 20);
  tcase_add_loop_test(cases, frames_of_any_span_are_counted, 0, sizeof rates / sizeof rates[0]);
  tcase_add_test(cases, so_many_that_nobody_could_count_them);
  suite_add_tcase(suite, cases);
  return suite;
}
