/* Which lane and device a session goes to, and how many lanes there are. */
#include "daemon/pipeline/placement.h"

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

START_TEST(a_sink_goes_to_the_least_loaded_other_lane) {
  ck_assert_uint_eq(placement_choose_other((const size_t[]){1, 3, 2}, 3, 0), 2);
  ck_assert_uint_eq(placement_choose_other((const size_t[]){1, 3, 2}, 3, 1), 0);
  ck_assert_uint_eq(placement_choose_other((const size_t[]){9, 0, 9}, 3, 1), 0);
  ck_assert_uint_eq(placement_choose_other((const size_t[]){0, 9}, 2, 0), 1);
  ck_assert_uint_eq(placement_choose_other((const size_t[]){0, 9}, 2, 1), 0);
}
END_TEST

START_TEST(only_large_results_are_worth_another_lane) {
  ck_assert(placement_parts(4 * 1024 * 1024, 2));
  ck_assert(!placement_parts(4 * 1024 * 1024, 1));
  ck_assert(!placement_parts(4 * 1024, 4));
}
END_TEST

START_TEST(one_processor_is_left_for_the_control_loop) {
  ck_assert_uint_eq(placement_lanes(-1), 1); /* nobody knows */
  ck_assert_uint_eq(placement_lanes(1), 1);
  ck_assert_uint_eq(placement_lanes(2), 2);
  ck_assert_uint_eq(placement_lanes(3), 2);
  ck_assert_uint_eq(placement_lanes(5), 4);
  ck_assert_uint_eq(placement_lanes(128), 4);
}
END_TEST

START_TEST(a_session_goes_to_the_least_loaded_device_that_it_may_have) {
  struct placement_device devices[] = {
      {.is_open = true, .load = 20, .room = 100}, {.load = 0, .room = 100}, {.is_open = true, .load = 10, .room = 100}};
  ck_assert_uint_eq(placement_device(devices, 3, 50), 2);
  devices[2].room = 49; /* it is full */
  ck_assert_uint_eq(placement_device(devices, 3, 50), 0);
  devices[0].room = 0;
  ck_assert_uint_eq(placement_device(devices, 3, 50), 3);
  ck_assert_uint_eq(placement_device(devices, 3, 0), 2);
  ck_assert_uint_eq(placement_device(devices, 0, 0), 0);
}
END_TEST

START_TEST(a_pipeline_fans_out_whatever_others_have) {
  struct placement_device devices[4] = {{.is_open = true, .load = 900, .room = 1000},
                                        {.is_open = true, .load = 500, .room = 1000},
                                        {.is_open = true, .room = 1000}};
  for (unsigned i = 0; i < 7; i++) {
    unsigned at = placement_device(devices, 4, 10);
    devices[at].load += 7;
    devices[at].sessions++;
  }
  ck_assert_uint_eq(devices[0].sessions, 2);
  ck_assert_uint_eq(devices[1].sessions, 2);
  ck_assert_uint_eq(devices[2].sessions, 3); /* the least loaded has what is over */
}
END_TEST

START_TEST(sessions_fill_devices_evenly_and_then_where_there_is_room) {
  struct placement_device devices[4] = {
      {.is_open = true, .room = 1000}, {.is_open = true, .room = 30}, {.is_open = true, .room = 1000}, {.room = 1000}};
  unsigned placed[4] = {0};
  for (unsigned i = 0; i < 21; i++) {
    unsigned at = placement_device(devices, 4, 10);
    devices[at].load += 7;
    devices[at].room -= 10;
    placed[at]++;
  }
  ck_assert_uint_eq(placed[0], 9);
  ck_assert_uint_eq(placed[1], 3);
  ck_assert_uint_eq(placed[2], 9);
  ck_assert_uint_eq(placed[3], 0);
}
END_TEST

Suite *placement_suite(void);
Suite *placement_suite(void) {
  Suite *suite = suite_create("placement");
  TCase *all = tcase_create("all");
  tcase_add_test(all, the_least_loaded_lane_is_chosen);
  tcase_add_test(all, sessions_spread_by_their_bytes);
  tcase_add_test(all, a_sink_goes_to_the_least_loaded_other_lane);
  tcase_add_test(all, only_large_results_are_worth_another_lane);
  tcase_add_test(all, one_processor_is_left_for_the_control_loop);
  tcase_add_test(all, a_session_goes_to_the_least_loaded_device_that_it_may_have);
  tcase_add_test(all, a_pipeline_fans_out_whatever_others_have);
  tcase_add_test(all, sessions_fill_devices_evenly_and_then_where_there_is_room);
  suite_add_tcase(suite, all);
  return suite;
}
