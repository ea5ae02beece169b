/* The arithmetic of overlap. tests/unit/tools/test_forecast.c compares it with timelines drawn by hand. */
#include "daemon/measure/overlap.h"

#include "tests/unit/runner.h"

#define EPSILON 1e-9

static void expect(const struct overlap_work *work, double period, double round, double ideal_speedup) {
  ck_assert_double_eq_tol(overlap_period(work), period, EPSILON);
  ck_assert_double_eq_tol(overlap_round(work), round, EPSILON);
  ck_assert_double_eq_tol(overlap_ideal_speedup(work), ideal_speedup, EPSILON);
}

START_TEST(the_longest_engine_or_the_host_sets_the_pace) {
  struct overlap_work work = {.service = {2, 2, 2}, .slots = 3};
  ck_assert_int_eq(overlap_longest(&work), OVERLAP_H2D);
  work.service[OVERLAP_KERNEL] = 5;
  ck_assert_int_eq(overlap_longest(&work), OVERLAP_KERNEL);
  expect(&work, 5, 9, 1.8);
  work.kernels = 2; /* at once */
  expect(&work, 2.5, 9, 3.6);
  work.host = 4;
  work.turnaround = 1;
  expect(&work, 4, 14, 3.6);
}
END_TEST

/* A kernel of 4 that lets the next one in after 3. */
START_TEST(an_engine_may_go_on_before_it_is_done) {
  struct overlap_work work = {.service = {1, 4, 1}, .slots = 4};
  work.succession[OVERLAP_KERNEL] = 3;
  expect(&work, 3, 6, 2);
}
END_TEST

/* Two copies that are slower beside each other, 5 instead of 4, and a host that does 2 of its 3 beside a copy in. */
START_TEST(a_single_slot_takes_what_was_measured) {
  struct overlap_work work = {.service = {5, 1, 5}, .slots = 1, .host = 3, .turnaround = -2, .alone = 10};
  ck_assert_double_eq_tol(overlap_round(&work), 10, EPSILON);
  ck_assert_double_eq_tol(overlap_sum(&work), 10, EPSILON);
  work.alone = 14; /* more than the engines and the host take: the rest is turnaround */
  ck_assert_double_eq_tol(overlap_round(&work), 14, EPSILON);
  ck_assert_double_eq_tol(overlap_sum(&work), 11, EPSILON);
  work.slots = 2;
  ck_assert_double_eq_tol(overlap_round(&work), 12, EPSILON);
}
END_TEST

START_TEST(the_ratio_is_the_hidden_share) {
  ck_assert_double_eq_tol(overlap_ratio(50, 100), 0.5, EPSILON);
  ck_assert_double_eq(overlap_ratio(100, 100), 0);
  ck_assert_double_eq(overlap_ratio(300, 100), 0);
  ck_assert_double_eq(overlap_ratio(0, 0), 0);
}
END_TEST

Suite *overlap_suite(void);
Suite *overlap_suite(void) {
  Suite *suite = suite_create("overlap");
  TCase *cases = tcase_create("overlap");
  tcase_add_test(cases, the_longest_engine_or_the_host_sets_the_pace);
  tcase_add_test(cases, an_engine_may_go_on_before_it_is_done);
  tcase_add_test(cases, a_single_slot_takes_what_was_measured);
  tcase_add_test(cases, the_ratio_is_the_hidden_share);
  suite_add_tcase(suite, cases);
  return suite;
}
