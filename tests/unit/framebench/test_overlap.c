/* The ideal of a row and the choice of rounds. */
#include "tools/framebench/common/engine.h"
#include "tools/framebench/overlap/workload.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

/* -- the ideal -------------------------------------------------------------------------------------------------------- */

/* Ten frames whose copies and kernels took so long each. */
static double ideal(double h2d, double kernel, double d2h, unsigned slots, unsigned kernels) {
  const struct engine_figures figures = {
      .frames = 1000, .wall = 1e6, .service = {10 * h2d, 10 * kernel, 10 * d2h}, .timed = 10};
  return engine_ideal(&figures, slots, kernels, 0);
}

START_TEST(test_ideal_of_slots) {
  /* Of many frames the first one's start hardly counts: within 1 %. */
  ck_assert_double_eq_tol(ideal(10, 10, 10, 1, 1), 30, 0.01); /* one after the other */
  ck_assert_double_eq_tol(ideal(10, 10, 10, 2, 1), 15, 0.15); /* two frames in three steps */
  ck_assert_double_eq_tol(ideal(10, 10, 10, 3, 1), 10, 0.1);  /* every engine is busy */
  ck_assert_double_eq_tol(ideal(10, 10, 10, 8, 1), 10, 0.1);  /* and cannot be busier */
  ck_assert_double_eq_tol(ideal(10, 40, 10, 4, 1), 40, 0.4);  /* the longest engine decides */
  ck_assert_double_eq_tol(ideal(0, 40, 0, 4, 2), 20, 0.2);    /* or two of them, where there are two */
  ck_assert_double_eq_tol(ideal(0, 40, 0, 1, 2), 40, 0.01);   /* which one slot cannot use */
}
END_TEST

/* Copies that ran while the other direction was idle are not what the link gives when both are busy. */
START_TEST(test_ideal_has_the_link_busy_both_ways) {
  const struct engine_figures figures = {.frames = 1000, .wall = 1e6, .service = {100, 50, 110}, .timed = 10};
  ck_assert_double_eq_tol(engine_ideal(&figures, 3, 1, 12), 12, 0.15);
  ck_assert_double_eq_tol(engine_ideal(&figures, 3, 1, 10.5), 11, 0.15);
  ck_assert_double_eq_tol(engine_ideal(&figures, 1, 1, 12), 26, 0.01); /* one slot never has both busy */
}
END_TEST

/* Kernels that copy need no engine, so slots are all that is short. */
START_TEST(test_ideal_of_frames_side_by_side) {
  const struct engine_figures figures = {.timed = 2, .service = {20, 12, 20}, .side_by_side = true};
  ck_assert_double_eq_tol(engine_ideal(&figures, 1, 1, 12), 26, 0.01);
  ck_assert_double_eq_tol(engine_ideal(&figures, 4, 1, 12), 6.5, 0.1);
}
END_TEST

START_TEST(test_no_times_give_no_ideal) {
  const struct engine_figures figures = {.frames = 10, .wall = 100};
  ck_assert_double_eq(engine_ideal(&figures, 3, 1, 10), 0);
}
END_TEST

/* -- rounds ------------------------------------------------------------------------------------------------------------ */

START_TEST(test_rounds_meet_a_time) {
  const struct workload_costs costs = {.copy = 80, .base = 3, .round = 0.5};
  ck_assert_uint_eq(workload_rounds(&costs, 43), 80);
  ck_assert_uint_eq(workload_rounds(&costs, 43.2), 80);
  ck_assert_uint_eq(workload_rounds(&costs, 43.3), 81);
  ck_assert_uint_eq(workload_rounds(&costs, 1), 1);        /* under what the kernel takes in any case */
  ck_assert_uint_eq(workload_rounds(&costs, 1e9), 100000); /* over what the stage takes */
  const struct workload_costs none = {.copy = 80, .base = 3, .round = 0};
  ck_assert_uint_eq(workload_rounds(&none, 43), 1);
}
END_TEST

Suite *overlap_suite(void);
Suite *overlap_suite(void) {
  Suite *suite = suite_create("overlap");
  TCase *cases = tcase_create("overlap");
  tcase_add_test(cases, test_ideal_of_slots);
  tcase_add_test(cases, test_ideal_has_the_link_busy_both_ways);
  tcase_add_test(cases, test_ideal_of_frames_side_by_side);
  tcase_add_test(cases, test_no_times_give_no_ideal);
  tcase_add_test(cases, test_rounds_meet_a_time);
  suite_add_tcase(suite, cases);
  return suite;
}
