/* What a fatal error is the end of, wherever it is met. */
#include "tests/unit/cuda/fixture.h"

#include <string.h>

/* A frame that is half on its stream is the device's end, whatever the problem. */
START_TEST(submitting_fails_for_good_at_every_call) {
  unsigned tries = 0;
  bool submitted = false;
  while (!submitted) {
    options.order = GPU_ORDER_ON;
    make_program(2, &plus_one, 1);
    ck_assert(submit(0, 0, false)); /* so that the second one waits for its state */
    fake_fail(tries, cudaErrorInvalidValue, false);
    submitted = submit(1, 1, true);
    ck_assert_uint_lt(tries++, MAX_TRIES);
    if (!submitted) {
      unsigned calls = fake_calls();
      ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_DEAD);
      ck_assert_ptr_nonnull(strstr(problem.text, "cudaError1"));
      ck_assert(!submit(0, 2, true));
      ck_assert(!gpu_arm(program, 0, &problem));
      ck_assert_int_eq(gpu_anchor(device, &problem), GPU_DEAD);
      ck_assert(!gpu_pin(device, inputs, sizeof inputs, &problem));
      ck_assert_uint_eq(fake_calls(), calls); /* nothing is asked of a dead device */
      tear_down();
      set_up();
    }
  }
  ck_assert_uint_gt(tries, 8);
  fake_heal();
}
END_TEST

START_TEST(a_bad_launch_names_its_stage) {
  make_program(1, &broken, 0);
  ck_assert(gpu_program_warm_up(program, &problem));
  ck_assert(!submit(0, 0, false));
  ck_assert_int_eq(problem.stage, 0);
  ck_assert_ptr_nonnull(strstr(problem.text, "stages[0] (broken)"));
}
END_TEST

/* Every problem that a process does not survive, found by asking; freeing asks nothing more of the device. */
START_TEST(asking_finds_every_fatal_error) {
  static const cudaError_t fatal[] = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 911};
  make_program(2, &plus_one, 0);
  ck_assert(submit(0, 0, true));
  ck_assert(submit(1, 1, true));
  fake_set_polling(false);
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_PENDING);
  fake_die(fatal[_i]);
  ck_assert_int_eq(gpu_ask(program, 1, &problem), GPU_DEAD);
  ck_assert_int_eq(problem.code, (int)fatal[_i]);
  ck_assert_ptr_nonnull(strstr(problem.text, "frame 1 in slot 1"));
  ck_assert_str_ne(problem.remedy, "");
  ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING);
  ck_assert(gpu_device_is_dead(device, NULL));
  unsigned calls = fake_calls();
  tear_down();
  ck_assert_uint_eq(fake_calls(), 0); /* of the reset; none came between */
  ck_assert_uint_gt(calls, 0);
  set_up();
}
END_TEST

/* What else finds a fatal problem, with no frame of its own in flight. */
START_TEST(a_fatal_error_kills_wherever_it_is_met) {
  size_t available, total;
  fake_die(cudaErrorIllegalAddress);
  if (_i == 0) {
    ck_assert_int_eq(gpu_anchor(device, &problem), GPU_DEAD);
  } else if (_i == 1) {
    ck_assert(!gpu_memory(device, &available, &total));
  } else {
    ck_assert(!gpu_pin(device, inputs, sizeof inputs, &problem));
  }
  ck_assert(gpu_device_is_dead(device, &problem));
  ck_assert_int_eq(problem.code, cudaErrorIllegalAddress);
}
END_TEST

/* A host function that still runs when its program was freed on a dead device finds the program there. */
START_TEST(host_functions_outlive_a_program_that_was_given_up) {
  make_program(1, &plus_one, 0);
  ck_assert(submit(0, 0, true));
  gpu_abandon(device, "no completion for 2 s");
  program = gpu_program_free(program);
  fake_run_all();
  ck_assert_uint_eq(wakes, 1);
}
END_TEST

Suite *death_suite(void);
Suite *death_suite(void) {
  Suite *suite = suite_create("death");
  TCase *group = tcase_create("fake");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_set_timeout(group, 120);
  tcase_add_test(group, submitting_fails_for_good_at_every_call);
  tcase_add_test(group, a_bad_launch_names_its_stage);
  tcase_add_loop_test(group, asking_finds_every_fatal_error, 0, 14);
  tcase_add_loop_test(group, a_fatal_error_kills_wherever_it_is_met, 0, 3);
  tcase_add_test(group, host_functions_outlive_a_program_that_was_given_up);
  suite_add_tcase(suite, group);
  return suite;
}
