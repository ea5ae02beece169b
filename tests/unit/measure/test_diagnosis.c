/* What bounds a pipeline, and what would help, on figures whose answer is known. */
#include <string.h>

#include "tests/unit/measure/figures.h"
#include "tests/unit/runner.h"
#include "tools/framectl/common/forecast.h"

START_TEST(the_longest_engine_bounds_a_full_pipeline) {
  const struct diagnosis_figures figures[] = {full(80, 20, 70, 3, 80), full(20, 80, 70, 3, 80), full(20, 70, 80, 3, 80)};
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    struct diagnosis diagnosis = diagnosis_of(&figures[engine]);
    ck_assert_int_eq(diagnosis.bound_by, engine);
    ck_assert_double_eq_tol(diagnosis.speedup, 170.0 / 80, EPSILON);
    ck_assert_double_eq_tol(diagnosis.ideal_speedup, 170.0 / 80, EPSILON);
    ck_assert_double_eq_tol(diagnosis.ratio, 1 - 80.0 / 170, EPSILON);
  }
}
END_TEST

/* Half of 80 leaves 70 as the longest. */
START_TEST(less_work_helps_an_engine_that_never_rests) {
  struct diagnosis_figures figures = full(80, 20, 70, 3, 80);
  struct diagnosis diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_BYTES_IN, "fewer bytes in", 80.0 / 70);
  figures = full(20, 80, 30, 3, 80);
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_STAGES, "cheaper stages", 2);
  figures = full(20, 98, 60, 4, 60); /* two kernels side by side: the copy out is what all others wait for, as in the plan */
  figures.costs = (struct diagnosis_costs){.service = {20, 98, 60}, .together = {20, 50, 60}};
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_BYTES_OUT, "fewer bytes out", 60.0 / 50);
}
END_TEST

/* Two slots of a round of 3 units give a frame every 1.5 units, the third one every unit. */
START_TEST(another_slot_helps_two_with_equal_stages) {
  struct diagnosis_figures figures = full(100, 100, 100, 2, 150);
  struct diagnosis diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_SLOTS, "slots: 3", 1.5);
}
END_TEST

/* 53 us until a callback is noticed, of a round of 93, on the most slots there can be. */
START_TEST(polling_helps_where_callbacks_take_long) {
  struct diagnosis_figures figures = full(1, 38, 1, 1, 93);
  figures.step[STEP_GPU_WAIT] = 0;
  figures.step[STEP_WAKE] = figures.notice = 53;
  figures.slots = 1;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_HOST);
  expect_advice(&diagnosis, IMPROVE_SLOTS, "slots: 2", 2);
  figures.slots = 16;
  figures.frames = 16e7 / 9300;
  figures.step[STEP_KERNEL] = 3800;
  figures.step[STEP_WAKE] = figures.notice = 5300;
  figures.step[STEP_GPU_WAIT] = 0;
  figures.kernels = 16;
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_SPIN, "completion: spin", 9302.0 / (9302 - 5290));
}
END_TEST

/* Kernels of several workers: two at once, a frame each half of the time one takes. */
START_TEST(workers_share_the_kernels) {
  struct diagnosis_figures figures = full(0, 100, 0, 3, 50);
  figures.kernels = 2;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_KERNEL);
  ck_assert_double_eq_tol(diagnosis.speedup, 2, EPSILON);
  ck_assert_double_eq_tol(diagnosis.ideal_speedup, 2, EPSILON);
}
END_TEST

/* The same on each of two devices: twice as many frames, and the next slot of each makes two. */
START_TEST(devices_share_the_slots) {
  struct diagnosis_figures figures = full(100, 100, 100, 2, 150);
  const struct diagnosis one = diagnosis_of(&figures);
  figures.devices = 2;
  figures.slots = 4;
  figures.frames *= 2;
  const struct diagnosis two = diagnosis_of(&figures);
  expect_advice(&two, IMPROVE_SLOTS, "slots: 6", 1.5);
  ck_assert_double_eq_tol(two.speedup, one.speedup, EPSILON);
  ck_assert_double_eq_tol(two.ideal_speedup, one.ideal_speedup, EPSILON);
  figures = full(80, 20, 70, 3, 20000);
  figures.in_fps = 50;
  figures.devices = 2;
  const struct diagnosis slow = diagnosis_of(&figures);
  ck_assert_msg(strstr(slow.advice, "frames come at 50/s") != NULL, "%s", slow.advice);
}
END_TEST

/* 25 frames a second of 170 us: slots are free nearly always. */
START_TEST(a_slow_source_is_the_bound) {
  struct diagnosis_figures figures = full(80, 20, 70, 3, 40000);
  figures.busy_s = 250 * 170e-6;
  figures.step[STEP_GPU_WAIT] = 0;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_SOURCE);
  expect_advice(&diagnosis, IMPROVE_NONE, "500 times", 1);
  ck_assert_double_eq_tol(diagnosis.speedup, 1, EPSILON);
  ck_assert_double_eq(diagnosis.ratio, 0);
}
END_TEST

/* A kernel that stays tells no times: that its frames take most of their way there is seen by what is left of it. */
START_TEST(frames_without_times_are_on_the_device_all_the_same) {
  struct diagnosis_figures figures = full(0, 0, 0, 8, 1.15);
  figures.is_untimed = figures.copies_by_kernel = figures.spins = true;
  figures.lane_share = 0.4;
  figures.step[STEP_GPU_WAIT] = 0;
  figures.step[STEP_QUEUE] = figures.step[STEP_EMIT] = 0.5;
  figures.step[STEP_TOTAL] = 8;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_KERNEL);
  ck_assert_double_eq(diagnosis.speedup, 0); /* of what nobody timed */
  expect_advice(&diagnosis, IMPROVE_SLOTS, "slots: 9", 9.0 / 8);
  figures.slots = DIAGNOSIS_MOST_SLOTS;
  figures.step[STEP_TOTAL] = 16;
  diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_KERNEL);
  expect_advice(&diagnosis, IMPROVE_NONE, "a kernel that stays", 1);
  figures.step[STEP_TOTAL] = 1.5;
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_SOURCE);
}
END_TEST

/* Frames that are dropped because they come too fast are no sign of a slow source, even if slots are kept free for them. */
START_TEST(a_source_that_is_too_fast_is_not_the_bound) {
  struct diagnosis_figures figures = full(10, 80, 10, 1, 100);
  figures.slots = 3;
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_SOURCE);
  figures.dropped = 5000;
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_KERNEL);
}
END_TEST

/* A stall of a tick of the clock costs a frame now and then, whatever the source's pace. */
START_TEST(a_single_drop_does_not_make_a_slow_source_too_fast) {
  struct diagnosis_figures figures = full(10, 80, 10, 1, 40000);
  figures.slots = 3;
  figures.step[STEP_GPU_WAIT] = 0;
  figures.dropped = 1;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_SOURCE);
  expect_advice(&diagnosis, IMPROVE_NONE, "500 times", 1);
}
END_TEST

/* The pipeline drops what they do not take in time, and goes on. */
START_TEST(readers_that_miss_results_are_told_of) {
  struct diagnosis_figures figures = full(80, 20, 70, 3, 40000);
  figures.step[STEP_GPU_WAIT] = 0;
  figures.lossless = false;
  figures.offered = 250;
  figures.missed = 2; /* a moment's stall */
  struct diagnosis diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_NONE, "nothing to change here", 1);
  figures.missed = 240;
  diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_SOURCE);
  expect_advice(&diagnosis, IMPROVE_READER, "slow readers missed 240 of 250", 1);
}
END_TEST

START_TEST(a_slow_reader_is_the_bound_if_it_can_hold_up) {
  struct diagnosis_figures figures = full(80, 20, 70, 3, 1000);
  figures.step[STEP_GPU_WAIT] = 0;
  figures.step[STEP_EMIT] = 2500;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_READER);
  expect_advice(&diagnosis, IMPROVE_READER, "up to 12.5 times", 1000 / 80.0);
  figures.frames = 0;
  figures.standing = STANDING_READER; /* of nothing there is no share */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_READER, "frames wait for it", 1);
  figures.replies = true;
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_READER, "a client that reads its results while it sends", 1);
  figures = full(80, 20, 70, 3, 1000);
  figures.step[STEP_GPU_WAIT] = 0;
  figures.step[STEP_EMIT] = 2500;
  figures.lossless = false;
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_SOURCE);
}
END_TEST

START_TEST(a_full_lane_is_the_host) {
  struct diagnosis_figures figures = full(80, 20, 70, 3, 1000);
  figures.step[STEP_GPU_WAIT] = 0;
  figures.lane_share = 0.97;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_HOST);
  expect_advice(&diagnosis, IMPROVE_LANE_BYTES, "busy 97 %", 1000 / 80.0);
  figures.graphless = true;
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_GRAPH, "graph: auto", 1);
  figures.lane_share = 0.5;
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_SOURCE);
}
END_TEST

/* One frame in ten milliseconds, which waits on the device for reasons that are not its engines': 3 % busy. */
START_TEST(an_engine_that_rests_is_never_the_bound) {
  struct diagnosis_figures figures = full(100, 300, 100, 1, 10000);
  figures.slots = 2;
  figures.step[STEP_GPU_WAIT] = 15000;
  figures.in_fps = 30;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_NOTHING);
  expect_advice(&diagnosis, IMPROVE_NONE, "nothing bounds it: frames come at 30/s", 1);
  figures.engine_share[OVERLAP_KERNEL] = 0.9; /* other pipelines' frames keep it busy */
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_KERNEL);
  figures.engine_share[OVERLAP_KERNEL] = 0;
  figures.dropped = 500;
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_HOST);
}
END_TEST

START_TEST(processors_that_are_short_are_named) {
  struct diagnosis_figures figures = full(100, 300, 100, 1, 10000);
  figures.slots = 2;
  figures.step[STEP_GPU_WAIT] = 15000;
  figures.is_short = true;
  figures.processors = 2;
  figures.ready = 7;
  figures.waited = 0.45;
  figures.stolen = 0.03;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_PROCESSORS);
  expect_advice(&diagnosis, IMPROVE_PROCESSORS, "on these 2: for 45 % of the time something waits for one (7 ready to run, 3 %",
                1);
  figures = full(0, 100, 0, 3, 100); /* a device that never rests is what it is, */
  figures.is_short = true;
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_KERNEL);
  figures.on_processors = true; /* unless it is made of processors, and had more of them once */
  figures.costs.service[OVERLAP_KERNEL] = 90;
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_KERNEL);
  figures.costs.service[OVERLAP_KERNEL] = 40;
  ck_assert_int_eq(diagnosis_of(&figures).bound_by, BOUND_PROCESSORS);
}
END_TEST

START_TEST(without_frames_the_moment_decides) {
  static const enum bound bounds[] = {[STANDING_NOT] = BOUND_NOTHING,
                                      [STANDING_SOURCE] = BOUND_SOURCE,
                                      [STANDING_DEVICE] = BOUND_KERNEL,
                                      [STANDING_READER] = BOUND_READER,
                                      [STANDING_RESUME] = BOUND_NOTHING};
  for (enum standing standing = STANDING_NOT; standing <= STANDING_RESUME; standing++) {
    const struct diagnosis_figures figures = {.seconds = 10, .slots = 2, .standing = standing};
    struct diagnosis diagnosis = diagnosis_of(&figures);
    ck_assert_int_eq(diagnosis.bound_by, bounds[standing]);
    ck_assert_double_eq(diagnosis.speedup, 0);
    ck_assert_double_eq(diagnosis.gain, 1);
    ck_assert_uint_gt(strlen(diagnosis.advice), 10);
  }
  /* A frame that has just come makes no difference, though another has given way to it. */
  const struct diagnosis_figures first = {.seconds = 0.01, .slots = 3, .frames = 1, .dropped = 1, .standing = STANDING_NOT};
  ck_assert_int_eq(diagnosis_of(&first).bound_by, BOUND_NOTHING);
  const struct diagnosis_figures none = {.slots = 2};
  ck_assert_int_eq(diagnosis_of(&none).bound_by, BOUND_NOTHING);
}
END_TEST

/* Means of one frame in ten stand for all of them. */
START_TEST(timing_some_frames_is_enough) {
  struct diagnosis_figures figures = full(80, 20, 70, 3, 80);
  struct diagnosis all = diagnosis_of(&figures);
  ck_assert_double_eq_tol(figures.frames, 125000, EPSILON); /* all frames, however few were timed */
  ck_assert_double_eq_tol(all.speedup * 10, figures.frames * 170e-6, EPSILON);
}
END_TEST

/* Of each 150 us the lane works 120: with the third slot it is what is longest. */
START_TEST(a_slot_wins_no_more_than_its_lane_can_carry) {
  struct diagnosis_figures figures = full(60, 60, 60, 2, 150);
  figures.lane_share = 0.8;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_double_eq_tol(diagnosis.work.host, 120, EPSILON);
  expect_advice(&diagnosis, IMPROVE_SLOTS, "slots: 3", 1.25);
}
END_TEST

/* Of four slots two are kept back for frames that can still be dropped. */
START_TEST(slots_that_are_kept_back_do_not_overlap) {
  struct diagnosis_figures figures = full(100, 100, 100, 2, 150);
  figures.slots = 4;
  figures.depth = 2;
  figures.dropped = 1;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_uint_eq(diagnosis.work.slots, 2);
  expect_advice(&diagnosis, IMPROVE_SLOTS, "slots: 5", 1.5);
}
END_TEST

START_TEST(sessions_share_the_device) {
  struct diagnosis_figures figures = full(80, 20, 70, 3, 80);
  figures.slots = 1;
  figures.sessions = 3;
  figures.busy_s = 30;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_H2D);
  ck_assert_double_eq_tol(diagnosis.speedup, 170.0 / 80, EPSILON);
  ck_assert_uint_eq(diagnosis.work.slots, 3);
}
END_TEST

START_TEST(names_are_those_of_the_engines) {
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    ck_assert_str_eq(bound_names[engine], overlap_engine_keys[engine]);
  }
}
END_TEST

Suite *diagnosis_suite(void);
Suite *diagnosis_suite(void) {
  Suite *suite = suite_create("diagnosis");
  TCase *cases = tcase_create("diagnosis");
  tcase_add_test(cases, an_engine_that_rests_is_never_the_bound);
  tcase_add_test(cases, processors_that_are_short_are_named);
  tcase_add_test(cases, the_longest_engine_bounds_a_full_pipeline);
  tcase_add_test(cases, less_work_helps_an_engine_that_never_rests);
  tcase_add_test(cases, another_slot_helps_two_with_equal_stages);
  tcase_add_test(cases, polling_helps_where_callbacks_take_long);
  tcase_add_test(cases, workers_share_the_kernels);
  tcase_add_test(cases, devices_share_the_slots);
  tcase_add_test(cases, a_slow_source_is_the_bound);
  tcase_add_test(cases, frames_without_times_are_on_the_device_all_the_same);
  tcase_add_test(cases, a_source_that_is_too_fast_is_not_the_bound);
  tcase_add_test(cases, a_single_drop_does_not_make_a_slow_source_too_fast);
  tcase_add_test(cases, readers_that_miss_results_are_told_of);
  tcase_add_test(cases, a_slow_reader_is_the_bound_if_it_can_hold_up);
  tcase_add_test(cases, a_full_lane_is_the_host);
  tcase_add_test(cases, without_frames_the_moment_decides);
  tcase_add_test(cases, timing_some_frames_is_enough);
  tcase_add_test(cases, a_slot_wins_no_more_than_its_lane_can_carry);
  tcase_add_test(cases, slots_that_are_kept_back_do_not_overlap);
  tcase_add_test(cases, sessions_share_the_device);
  tcase_add_test(cases, names_are_those_of_the_engines);
  suite_add_tcase(suite, cases);
  return suite;
}
