/* What other slots would do to a pipeline, and one alone: foretold from what the warm-up measured of its costs. */
#include "tests/unit/measure/figures.h"
#include "tests/unit/runner.h"
#include "tools/framectl/common/forecast.h"

static double pace_with(const struct overlap_work *work, unsigned slots) {
  enum { MANY = 2000 };
  struct overlap_work other = *work;
  other.slots = slots;
  return forecast_wall(&other, MANY) / MANY;
}

static double foretold(const struct diagnosis_figures *figures, unsigned slots) {
  struct diagnosis diagnosis = diagnosis_of(figures);
  return pace_with(&diagnosis.work, slots);
}

/* Two slots whose host is always at work say nothing of how long a frame takes alone; the warm-up does. */
START_TEST(a_frame_alone_is_as_the_warm_up_measured_it) {
  struct diagnosis_figures figures = full(2, 3, 2, 2, 12);
  figures.lane_share = 1;
  figures.spins = true;
  ck_assert_double_eq_tol(foretold(&figures, 1), 19, 0.02);
  figures.costs = (struct diagnosis_costs){.alone = 17, .lane = 12, .service = {2, 3, 2}};
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 1), 17, 0.02);
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 2), 12, 0.02);
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 8), 12, 0.02);
  figures.costs.lane = 9; /* 3 of the lane's 12 are not in what was measured: it reads and writes, too */
  ck_assert_double_eq_tol(foretold(&figures, 1), 20, 0.02);
  figures.spins = false;
  figures.notice = 30;
  ck_assert_double_eq_tol(foretold(&figures, 1), 50, 0.05);
}
END_TEST

/* Half of the time two slots' copies are alone; the third keeps both directions busy. */
START_TEST(more_slots_copy_in_both_directions) {
  struct diagnosis_figures figures = full(80, 80, 80, 2, 122);
  figures.costs = (struct diagnosis_costs){.alone = 240, .service = {78, 80, 78}, .together = {90, 80, 88}};
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 1), 240, 0.5); /* of the round of 244, the copies take 4 less */
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 2), 122, 0.5);
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 3), 90, 0.5);
  ck_assert_double_eq_tol(diagnosis.ideal_speedup, 3, EPSILON); /* of what was measured */
}
END_TEST

/* Kernels of two slots that take turns never meet; those of three follow each other without rest. */
START_TEST(more_slots_let_kernels_begin_beside_each_other) {
  struct diagnosis_figures figures = full(80, 160, 80, 2, 162);
  figures.costs = (struct diagnosis_costs){.service = {80, 160, 80}, .together = {80, 144, 80}};
  ck_assert_double_eq_tol(foretold(&figures, 3), 144, 0.5);
  /* Other frames than those of the warm-up, of which each kernel takes half as long again. */
  figures = full(80, 240, 80, 2, 242);
  figures.costs = (struct diagnosis_costs){.service = {80, 160, 80}, .together = {80, 144, 80}};
  ck_assert_double_eq_tol(foretold(&figures, 3), 216, 0.5);
  /* Frames of two slots take a little longer beside the other slot's copies. */
  figures = full(80, 176, 80, 2, 178);
  figures.costs = (struct diagnosis_costs){.service = {80, 160, 80}, .together = {80, 144, 80}};
  ck_assert_double_eq_tol(foretold(&figures, 3), 144, 0.5);
  /* Frames follow each other already. */
  figures = full(80, 144, 80, 3, 144);
  figures.costs = (struct diagnosis_costs){.service = {80, 160, 80}, .together = {80, 144, 80}};
  ck_assert_double_eq_tol(foretold(&figures, 4), 144, 0.5);
  figures.costs.together[OVERLAP_KERNEL] = 0; /* it was not measured */
  ck_assert_double_eq_tol(foretold(&figures, 4), 144, 0.5);
}
END_TEST

/* A frame of two slots waits for the other one's now and then. A lane that sleeps knows better from them how long it sleeps. */
START_TEST(a_round_of_two_slots_may_be_longer_than_a_frame_alone) {
  struct diagnosis_figures figures = full(20, 10, 20, 2, 33);
  figures.spins = true;
  figures.costs = (struct diagnosis_costs){.alone = 58, .service = {20, 10, 20}};
  ck_assert_double_eq_tol(foretold(&figures, 1), 58, 0.1);
  figures.spins = false;
  ck_assert_double_eq_tol(foretold(&figures, 1), 66, 0.1);
}
END_TEST

/* A warm-up that was faster than anything is now; and one slot whose pace is known. */
START_TEST(one_slot_is_never_faster_than_two) {
  struct diagnosis_figures figures = full(150, 10, 10, 2, 150);
  figures.costs = (struct diagnosis_costs){.alone = 120, .service = {100, 10, 10}};
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 1), 170, 0.5);
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 2), 150, 0.5);
  figures = full(100, 100, 100, 1, 310);
  figures.costs = (struct diagnosis_costs){.alone = 305, .service = {100, 100, 100}, .together = {120, 100, 120}};
  diagnosis = diagnosis_of(&figures);
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 1), 310, 0.5);
  ck_assert_double_eq_tol(pace_with(&diagnosis.work, 2), 155, 0.5);
}
END_TEST

/* Steps that run beside those of other slots are as long as alone, and none keeps an engine from the next. */
START_TEST(kernels_that_copy_need_no_engine) {
  struct diagnosis_figures figures = full(1.2, 1.2, 4.4, 2, 7.5);
  figures.spins = figures.copies_by_kernel = true;
  figures.lane_share = 0.5;
  figures.costs = (struct diagnosis_costs){.alone = 14.5, .lane = 3.5, .service = {0.5, 1.1, 1.3}};
  ck_assert_double_eq_tol(foretold(&figures, 1), 14.75, 0.01);
  ck_assert_double_eq_tol(foretold(&figures, 3), 5, 0.1);
  ck_assert_double_eq_tol(foretold(&figures, 8), 3.75, 0.1); /* the lane */
  struct overlap_work work = diagnosis_work(&figures);
  ck_assert_double_eq_tol(overlap_round(&work), 14.75, EPSILON); /* the lane's 3.75 for 3.5 */
}
END_TEST

/* Of a single slot's round, half of the kernel and the sleep until a callback are known to go. */
START_TEST(advice_for_one_slot_knows_its_round) {
  struct diagnosis_figures figures = full(1, 98, 1, 1, 102);
  figures.costs = (struct diagnosis_costs){.alone = 101, .service = {1, 98, 1}};
  figures.spins = true;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_STAGES, "cheaper stages", 102.0 / 53);
  figures = full(1, 38, 1, 1, 93);
  figures.costs = (struct diagnosis_costs){.alone = 42, .service = {1, 38, 1}};
  figures.step[STEP_GPU_WAIT] = 0;
  figures.step[STEP_WAKE] = figures.notice = 53;
  figures.slots = 16; /* there can be no more, and all but one are kept back */
  figures.depth = 1;
  figures.step[STEP_QUEUE] = 15 * 93;
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_SPIN, "completion: spin", 93.0 / 50);
}
END_TEST

/* Whatever the pace is. */
START_TEST(the_bound_knows_no_pace) {
  struct diagnosis_figures figures = full(10, 10, 10, 3, 50);
  figures.lane_share = 0.1;
  figures.costs = (struct diagnosis_costs){.alone = 36, .lane = 5, .service = {10, 10, 10}};
  struct overlap_work work = diagnosis_work(&figures);
  ck_assert_double_eq_tol(overlap_period(&work), 10, EPSILON);
  ck_assert_double_eq_tol(overlap_round(&work), 36, EPSILON);
  figures.costs.alone = 0;
  figures.notice = 7;
  work = diagnosis_work(&figures);
  ck_assert_double_eq_tol(overlap_round(&work), 30 + 5 + 7, EPSILON);
}
END_TEST

Suite *diagnosis_costs_suite(void);
Suite *diagnosis_costs_suite(void) {
  Suite *suite = suite_create("diagnosis_costs");
  TCase *cases = tcase_create("diagnosis_costs");
  tcase_add_test(cases, a_frame_alone_is_as_the_warm_up_measured_it);
  tcase_add_test(cases, more_slots_copy_in_both_directions);
  tcase_add_test(cases, more_slots_let_kernels_begin_beside_each_other);
  tcase_add_test(cases, a_round_of_two_slots_may_be_longer_than_a_frame_alone);
  tcase_add_test(cases, one_slot_is_never_faster_than_two);
  tcase_add_test(cases, kernels_that_copy_need_no_engine);
  tcase_add_test(cases, advice_for_one_slot_knows_its_round);
  tcase_add_test(cases, the_bound_knows_no_pace);
  suite_add_tcase(suite, cases);
  return suite;
}
