/* Forecasts against timelines drawn by hand. */
#include "tools/framectl/common/forecast.h"

#include "tests/unit/runner.h"

#define EPSILON 1e-9

static struct overlap_work work_of(double h2d, double kernel, double d2h, unsigned slots) {
  return (struct overlap_work){.service = {h2d, kernel, d2h}, .slots = slots};
}

static void expect_span(struct overlap_span span, double begin, double end) {
  ck_assert_double_eq_tol(span.begin, begin, EPSILON);
  ck_assert_double_eq_tol(span.end, end, EPSILON);
}

static void expect_frame(struct forecast_timeline *timeline, unsigned slot, const double times[2 * OVERLAP_ENGINES]) {
  struct overlap_frame frame = forecast_next(timeline);
  ck_assert_uint_eq(frame.slot, slot);
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    expect_span(frame.spans[engine], times[2 * engine], times[2 * engine + 1]);
  }
}

/* 30, 20 and 30 ms in four chunks: the third copy in waits for the first copy out. */
START_TEST(a_slot_is_free_after_its_copy_out) {
  const struct overlap_work work = work_of(7.5, 5, 7.5, 2);
  struct forecast_timeline timeline;
  forecast_start(&timeline, &work);
  expect_frame(&timeline, 0, (double[]){0, 7.5, 7.5, 12.5, 12.5, 20});
  expect_frame(&timeline, 1, (double[]){7.5, 15, 15, 20, 20, 27.5});
  expect_frame(&timeline, 0, (double[]){20, 27.5, 27.5, 32.5, 32.5, 40});
  expect_frame(&timeline, 1, (double[]){27.5, 35, 35, 40, 40, 47.5});
}
END_TEST

START_TEST(four_chunks_take_47_and_a_half_of_80) {
  const struct overlap_work work = work_of(7.5, 5, 7.5, 2);
  struct forecast_plan plan = forecast_plan(&work, 4);
  ck_assert_double_eq_tol(plan.serial, 80, EPSILON);
  ck_assert_double_eq_tol(plan.wall, 47.5, EPSILON);
  ck_assert_double_eq_tol(plan.speedup, 80 / 47.5, EPSILON);
  ck_assert_double_eq_tol(plan.ratio, 1 - 47.5 / 80, EPSILON);
  ck_assert_double_eq_tol(plan.bound, 42.5, EPSILON);
  ck_assert_double_eq_tol(plan.bound_speedup, 80 / 42.5, EPSILON);
  ck_assert_double_eq_tol(plan.ideal_speedup, 20 / 7.5, EPSILON);
  ck_assert_uint_eq(plan.slots_for_bound, 3);
}
END_TEST

START_TEST(two_frames_of_one_unit_a_stage_take_4_of_6) {
  const struct overlap_work work = work_of(1, 1, 1, 2);
  struct forecast_plan plan = forecast_plan(&work, 2);
  ck_assert_double_eq_tol(plan.serial, 6, EPSILON);
  ck_assert_double_eq_tol(plan.wall, 4, EPSILON);
  ck_assert_double_eq_tol(plan.speedup, 1.5, EPSILON);
  ck_assert_double_eq_tol(plan.bound, 4, EPSILON);
  ck_assert_uint_eq(plan.slots_for_bound, 2);
}
END_TEST

START_TEST(one_frame_cannot_overlap) {
  const struct overlap_work work = work_of(3, 2, 1, 8);
  struct forecast_plan plan = forecast_plan(&work, 1);
  ck_assert_double_eq_tol(plan.wall, 6, EPSILON);
  ck_assert_double_eq_tol(plan.speedup, 1, EPSILON);
  ck_assert_double_eq(plan.ratio, 0);
  ck_assert_uint_eq(plan.slots_for_bound, 1);
}
END_TEST

/* Kernels of two units with two at once: one frame a unit leaves in the end, as the copies allow. */
START_TEST(kernels_may_run_at_once) {
  struct overlap_work work = work_of(1, 2, 1, 4);
  work.kernels = 2;
  struct forecast_timeline timeline;
  forecast_start(&timeline, &work);
  expect_frame(&timeline, 0, (double[]){0, 1, 1, 3, 3, 4});
  expect_frame(&timeline, 1, (double[]){1, 2, 2, 4, 4, 5});
  expect_frame(&timeline, 2, (double[]){2, 3, 3, 5, 5, 6});
  work.kernels = 1;
  ck_assert_double_eq_tol(forecast_wall(&work, 3), 8, EPSILON);
}
END_TEST

/* The host takes one unit to take notice: a slot's cycle is 4, and two slots give a frame every 2. */
START_TEST(the_turnaround_is_part_of_a_slots_cycle) {
  struct overlap_work work = work_of(1, 1, 1, 2);
  work.turnaround = 1;
  struct forecast_timeline timeline;
  forecast_start(&timeline, &work);
  expect_frame(&timeline, 0, (double[]){0, 1, 1, 2, 2, 3});
  expect_frame(&timeline, 1, (double[]){1, 2, 2, 3, 3, 4});
  expect_frame(&timeline, 0, (double[]){4, 5, 5, 6, 6, 7});
  struct forecast_plan plan = forecast_plan(&work, 100);
  ck_assert_double_eq_tol(plan.serial, 100 * 3 + 99, EPSILON);
  ck_assert_double_eq_tol(plan.bound, 102, EPSILON);
  ck_assert_uint_eq(plan.slots_for_bound, 4);
}
END_TEST

/* The host's thread prepares one frame at a time, and is what is longest here. */
START_TEST(the_host_serves_one_frame_at_a_time) {
  struct overlap_work work = work_of(1, 1, 1, 4);
  work.host = 2;
  struct forecast_timeline timeline;
  forecast_start(&timeline, &work);
  expect_frame(&timeline, 0, (double[]){2, 3, 3, 4, 4, 5});
  expect_frame(&timeline, 1, (double[]){4, 5, 5, 6, 6, 7});
  expect_frame(&timeline, 2, (double[]){6, 7, 7, 8, 8, 9});
  ck_assert_uint_eq(forecast_plan(&work, 100).slots_for_bound, 3);
}
END_TEST

/* A kernel of 4 that lets the next one in after 3: the third begins beside the second, and each takes its time. */
START_TEST(a_kernel_may_begin_beside_the_end_of_another) {
  struct overlap_work work = work_of(1, 4, 1, 4);
  work.succession[OVERLAP_KERNEL] = 3;
  struct forecast_timeline timeline;
  forecast_start(&timeline, &work);
  expect_frame(&timeline, 0, (double[]){0, 1, 1, 5, 5, 6});
  expect_frame(&timeline, 1, (double[]){1, 2, 4, 8, 8, 9});
  expect_frame(&timeline, 2, (double[]){2, 3, 7, 11, 11, 12});
  ck_assert_double_eq_tol(forecast_wall(&work, 100), 6 + 99 * 3, EPSILON);
}
END_TEST

/* Copies of 2 that slow each other down to one every 3 when both directions never rest. */
START_TEST(copies_may_slow_each_other_down) {
  struct overlap_work work = work_of(2, 1, 2, 8);
  work.succession[OVERLAP_H2D] = work.succession[OVERLAP_D2H] = 3;
  struct forecast_timeline timeline;
  forecast_start(&timeline, &work);
  expect_frame(&timeline, 0, (double[]){0, 2, 2, 3, 3, 5});
  expect_frame(&timeline, 1, (double[]){3, 5, 5, 6, 6, 8});
  ck_assert_double_eq_tol(forecast_wall(&work, 100), 5 + 99 * 3, EPSILON);
  work.slots = 1; /* they never meet */
  ck_assert_double_eq_tol(forecast_wall(&work, 100), 500, EPSILON);
}
END_TEST

/* Two copies that are slower beside each other, 5 instead of 4, and a host that does 2 of its 3 beside a copy in: with one slot
 * a round is what was measured, and no longer. */
START_TEST(a_single_slot_takes_what_was_measured) {
  struct overlap_work work = work_of(5, 1, 5, 1);
  work.host = 3;
  work.turnaround = -2;
  work.alone = 10;
  struct forecast_timeline timeline;
  forecast_start(&timeline, &work);
  struct overlap_frame first = forecast_next(&timeline), second = forecast_next(&timeline);
  ck_assert_double_eq_tol(second.spans[OVERLAP_H2D].begin - first.spans[OVERLAP_H2D].begin, 10, EPSILON);
  ck_assert_double_ge(second.spans[OVERLAP_H2D].begin, first.spans[OVERLAP_D2H].end - EPSILON);
  work.alone = 14; /* more than the engines and the host take: the rest is turnaround */
  work.slots = 2;
  struct forecast_plan plan = forecast_plan(&work, 1000);
  ck_assert_double_eq_tol(plan.serial / 1000, 14, 0.02);
  ck_assert_double_eq_tol(plan.wall / 1000, 6, 0.02);
}
END_TEST

START_TEST(many_frames_go_at_the_pace_of_the_longest_engine) {
  const struct overlap_work balanced = work_of(2, 2, 2, 3), unbalanced = work_of(1, 5, 1, 3);
  ck_assert_double_eq_tol(forecast_plan(&balanced, 1000).wall, 6 + 999 * 2, 1e-6);
  ck_assert_double_eq_tol(forecast_plan(&unbalanced, 1000).wall, 7 + 999 * 5, 1e-6);
}
END_TEST

/* What the figures promise of any work: an engine serves one at a time, a slot one frame, steps follow one another. */
START_TEST(no_timeline_breaks_the_rules) {
  const unsigned slots = (unsigned)_i % 5 + 1;
  const struct overlap_work work = work_of(1 + _i % 3, 1 + _i % 7, 1 + _i % 4, slots);
  struct forecast_timeline timeline;
  struct overlap_frame past[64];
  forecast_start(&timeline, &work);
  for (unsigned i = 0; i < 64; i++) {
    past[i] = forecast_next(&timeline);
    for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
      ck_assert(i == 0 || past[i].spans[engine].begin >= past[i - 1].spans[engine].end);
      ck_assert(engine == 0 || past[i].spans[engine].begin >= past[i].spans[engine - 1].end);
    }
    ck_assert(i < slots || past[i].spans[OVERLAP_H2D].begin >= past[i - slots].spans[OVERLAP_D2H].end);
  }
  struct forecast_plan plan = forecast_plan(&work, 64);
  ck_assert_double_eq_tol(plan.wall, past[63].spans[OVERLAP_D2H].end, EPSILON);
  ck_assert(plan.bound <= plan.wall && plan.wall <= plan.serial);
  ck_assert(plan.bound_speedup <= plan.ideal_speedup + EPSILON);
}
END_TEST

START_TEST(no_work_takes_no_time) {
  const struct overlap_work work = work_of(0, 0, 0, 2);
  struct forecast_plan plan = forecast_plan(&work, 10);
  ck_assert_double_eq(plan.wall, 0);
  ck_assert_double_eq(plan.speedup, 1);
  ck_assert_double_eq(plan.ideal_speedup, 1);
  ck_assert_uint_eq(plan.slots_for_bound, 1);
}
END_TEST

/* A turnaround so long that more slots than there can be would be needed. */
START_TEST(a_bound_may_be_out_of_reach) {
  struct overlap_work work = work_of(1, 1, 1, 2);
  work.turnaround = 1000;
  ck_assert_uint_eq(forecast_plan(&work, 500).slots_for_bound, 0);
}
END_TEST

Suite *forecast_suite(void);
Suite *forecast_suite(void) {
  Suite *suite = suite_create("forecast");
  TCase *cases = tcase_create("forecast");
  tcase_add_test(cases, a_slot_is_free_after_its_copy_out);
  tcase_add_test(cases, four_chunks_take_47_and_a_half_of_80);
  tcase_add_test(cases, two_frames_of_one_unit_a_stage_take_4_of_6);
  tcase_add_test(cases, one_frame_cannot_overlap);
  tcase_add_test(cases, kernels_may_run_at_once);
  tcase_add_test(cases, the_turnaround_is_part_of_a_slots_cycle);
  tcase_add_test(cases, the_host_serves_one_frame_at_a_time);
  tcase_add_test(cases, a_kernel_may_begin_beside_the_end_of_another);
  tcase_add_test(cases, copies_may_slow_each_other_down);
  tcase_add_test(cases, a_single_slot_takes_what_was_measured);
  tcase_add_test(cases, many_frames_go_at_the_pace_of_the_longest_engine);
  tcase_add_loop_test(cases, no_timeline_breaks_the_rules, 0, 84);
  tcase_add_test(cases, no_work_takes_no_time);
  tcase_add_test(cases, a_bound_may_be_out_of_reach);
  suite_add_tcase(suite, cases);
  return suite;
}
