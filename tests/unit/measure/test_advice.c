/* What would help a pipeline that waits for its model, one frame at a time and in batches. */
#include <string.h>

#include "tests/unit/measure/figures.h"
#include "tests/unit/runner.h"

/* Two instances for three slots, a frame every 200 us; `model`: the time of one run, `alone`: that of the warm-up. */
static struct diagnosis_figures with_model(double model, double alone) {
  struct diagnosis_figures figures = full(10, 200, 10, 3, 200);
  figures.step[STEP_MODEL] = model;
  figures.costs.service[OVERLAP_KERNEL] = alone;
  figures.model = (struct diagnosis_model){.instances = 2, .users = 3, .is_single = true, .batched = 1};
  return figures;
}

/* Forty slots whose frames go through two instances in batches of `batched` frames, a batch every 4 ms in each. */
static struct diagnosis_figures with_batches(double batched, unsigned most) {
  const double pace = 2000 / batched;
  struct diagnosis_figures figures = full(1, pace, 1, 8, pace);
  figures.sessions = 5;
  figures.step[STEP_GPU_WAIT] = 40 * pace - pace - 2;
  figures.step[STEP_MODEL] = 4000;
  figures.costs.service[OVERLAP_KERNEL] = 400;
  figures.model = (struct diagnosis_model){
      .instances = 2, .users = 40, .most = most, .batched = batched, .runs = 1e7 / 2000, .takes_rows = true, .is_single = true};
  return figures;
}

START_TEST(a_model_is_named_with_what_would_help_it) {
  struct diagnosis_figures figures = with_model(395, 300); /* side by side they do 1.5 times as much as one */
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_MODEL);
  expect_advice(&diagnosis, IMPROVE_INSTANCES, "instances: 3", 1.5);
  figures = with_model(395, 210); /* they take turns: another one would, too */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_HALF, "float16", 1);
  figures.model.is_single = false;
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_BATCH, "dynamic_axes", 1);
  figures.model.is_batch = true;
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_MODEL, "a smaller model: it takes 100 %", 1);
}
END_TEST

START_TEST(a_model_on_processors_or_with_a_small_share_gets_no_instance) {
  struct diagnosis_figures figures = with_model(395, 300);
  figures.on_processors = true;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_MODEL);
  expect_advice(&diagnosis, IMPROVE_MODEL, "a smaller model", 1);
  figures = with_model(90, 190);
  diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_KERNEL);
}
END_TEST

/* Of eight pipelines each has an eighth of the frames, and none alone keeps an instance busy. */
START_TEST(instances_are_in_use_by_all_pipelines_together) {
  struct diagnosis_figures figures = with_model(395, 300);
  figures.model.users = 24;
  figures.model.runs = figures.frames;
  figures.frames /= 8;
  figures.step[STEP_GPU_WAIT] += 7 * 3 * 200;
  figures.engine_share[OVERLAP_KERNEL] = 1;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_MODEL);
  expect_advice(&diagnosis, IMPROVE_INSTANCES, "instances: 3", 1.5);
  figures.model.takes_rows = true; /* many slots for few instances: a batch wins more */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_BATCH, "batch: {most: 16}", 1);
  figures.model.takes_rows = false;
  figures.costs.service[OVERLAP_KERNEL] = 210; /* instances take turns, and more slots of this one would only wait for them */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_HALF, "float16", 1);
}
END_TEST

START_TEST(a_file_that_takes_several_frames_needs_no_other_export) {
  struct diagnosis_figures figures = with_model(395, 210);
  figures.model.takes_rows = true;
  struct diagnosis diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_BATCH, "batch: {most: 3}", 1);
  figures.model.is_batch = true; /* its frames are several pictures already */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_HALF, "float16", 1);
  figures = with_model(395, 210);
  figures.model.takes_rows = true;
  figures.model.users = 1; /* nothing is there to go together */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_HALF, "float16", 1);
}
END_TEST

/* Though each frame is in an instance for as long as sixteen are. */
START_TEST(batches_need_no_instances_and_grow_where_they_are_full) {
  struct diagnosis_figures figures = with_batches(16, 16);
  figures.costs.service[OVERLAP_KERNEL] = 5000; /* as if a run were no slower beside another */
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_MODEL);
  expect_advice(&diagnosis, IMPROVE_BATCH, "batch: {most: 32}", 1);
  figures.model.takes_rows = false; /* a file for just sixteen */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_HALF, "float16", 1);
  figures.model.is_single = false;
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_MODEL, "a smaller model", 1);
  figures = with_batches(8, 16); /* larger ones than they get are of no use */
  diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_MODEL);
  expect_advice(&diagnosis, IMPROVE_SLOTS, "(slots: 9) for larger batches: of the 16 frames that they may have, they have 8.0",
                1);
  figures.model.users = 64; /* enough for both instances */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_HALF, "float16", 1);
  figures.on_processors = true; /* where larger ones win nothing */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_MODEL, "a smaller model", 1);
}
END_TEST

/* One session, whose four slots are in one batch, copied before and after: with a fifth there would be five. */
START_TEST(batches_want_slots_where_there_are_fewer_than_fit) {
  struct diagnosis_figures figures = full(20, 250, 20, 4, 325);
  figures.step[STEP_MODEL] = 1000;
  figures.step[STEP_GPU_WAIT] = 4 * 325 - 290;
  figures.model = (struct diagnosis_model){
      .instances = 2, .users = 4, .most = 16, .batched = 4, .runs = figures.frames / 4, .takes_rows = true};
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_MODEL);
  expect_advice(&diagnosis, IMPROVE_SLOTS, "slots: 5", 1.25);
  figures.on_processors = figures.is_short =
      true; /* on processors that have others to serve it would be five of those that wait */
  diagnosis = diagnosis_of(&figures);
  expect_advice(&diagnosis, IMPROVE_MODEL, "a smaller model", 1);
}
END_TEST

/* A run of 1 ms for sixteen frames is little beside 200 us of other stages for each. */
START_TEST(a_batch_counts_as_the_part_of_its_frame) {
  struct diagnosis_figures figures = full(10, 262, 10, 8, 262);
  figures.step[STEP_MODEL] = 1000;
  figures.model = (struct diagnosis_model){.instances = 2, .users = 32, .most = 16, .batched = 16, .runs = figures.frames / 16};
  struct diagnosis diagnosis = diagnosis_of(&figures);
  ck_assert_int_eq(diagnosis.bound_by, BOUND_KERNEL);
  expect_advice(&diagnosis, IMPROVE_STAGES, "cheaper stages", 2);
}
END_TEST

Suite *advice_suite(void);
Suite *advice_suite(void) {
  Suite *suite = suite_create("advice");
  TCase *cases = tcase_create("models");
  tcase_add_test(cases, a_model_is_named_with_what_would_help_it);
  tcase_add_test(cases, a_model_on_processors_or_with_a_small_share_gets_no_instance);
  tcase_add_test(cases, instances_are_in_use_by_all_pipelines_together);
  tcase_add_test(cases, a_file_that_takes_several_frames_needs_no_other_export);
  tcase_add_test(cases, batches_need_no_instances_and_grow_where_they_are_full);
  tcase_add_test(cases, batches_want_slots_where_there_are_fewer_than_fit);
  tcase_add_test(cases, a_batch_counts_as_the_part_of_its_frame);
  suite_add_tcase(suite, cases);
  return suite;
}
