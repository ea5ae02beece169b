/* Which lane a session goes to, and how many lanes there are. */
#include "daemon/placement.h"

#include "tests/unit/runner.h"

START_TEST(the_least_loaded_lane_is_chosen) {
  ck_assert_uint_eq(placement_choose((const size_t[]){5, 3, 4}, 3), 1);
  ck_assert_uint_eq(placement_choose((const size_t[]){0, 0, 0}, 3), 0);
  ck_assert_uint_eq(placement_choose((const size_t[]){2, 1, 1}, 3), 1);
  ck_assert_uint_eq(placement_choose((const size_t[]){9}, 1), 0);
}
END_TEST

START_TEST(sessions_spread_by_their_bytes) {
  size_t loads[3] = {0};
  const size_t sessions[] = {100, 10, 10, 10, 80, 10};
  for (unsigned i = 0; i < 6; i++) {
    loads[placement_choose(loads, 3)] += sessions[i];
  }
  ck_assert_uint_eq(loads[0], 100);
  ck_assert_uint_eq(loads[1] + loads[2], 120);
}
END_TEST

START_TEST(one_processor_is_left_for_the_control_loop) {
  ck_assert_uint_eq(placement_lanes(-1), 1); /* nobody knows */
  ck_assert_uint_eq(placement_lanes(1), 1);
  ck_assert_uint_eq(placement_lanes(2), 1);
  ck_assert_uint_eq(placement_lanes(3), 2);
  ck_assert_uint_eq(placement_lanes(5), 4);
  ck_assert_uint_eq(placement_lanes(128), 4);
}
END_TEST

Suite *placement_suite(void);
Suite *placement_suite(void) {
  Suite *suite = suite_create("placement");
  TCase *all = tcase_create("all");
  tcase_add_test(all, the_least_loaded_lane_is_chosen);
  tcase_add_test(all, sessions_spread_by_their_bytes);
  tcase_add_test(all, one_processor_is_left_for_the_control_loop);
  suite_add_tcase(suite, all);
  return suite;
}
