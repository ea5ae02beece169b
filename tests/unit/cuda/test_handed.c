/* Frames that a stage takes over: the rest of each is enqueued when it gives them back, and until then nobody finds them done.
 */
#include "tests/unit/cuda/fixture.h"

#include <string.h>

static void begin(unsigned slots, bool notify, bool replays) {
  keeps = false;
  kept_count = 0;
  options.notify = notify;
  options.graph = replays ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  make_program(slots, &keeper, 0);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  keeps = true;
}

static void check(unsigned slot) {
  for (int i = 0; i < WIDTH; i++) {
    ck_assert_uint_eq(outputs[slot][i], (unsigned char)(inputs[slot][i] + 1));
  }
}

static void fill(unsigned slot, int value) {
  memset(inputs[slot], value, WIDTH);
  memset(outputs[slot], 0, WIDTH);
}

START_TEST(a_frame_is_pending_until_it_is_given_back) {
  begin(2, false, _i == 1);
  fill(0, 5);
  fill(1, 7);
  ck_assert(submit(0, 0, false) && submit(1, 1, false));
  ck_assert_uint_eq(kept_count, 2);
  for (int i = 0; i < 10; i++) {
    ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_PENDING);
    ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING);
  }
  give_back();
  finish(0);
  check(0);
  struct gpu_times times = times_of(0);
  ck_assert_uint_eq(times.instance, 2);
  ck_assert_uint_eq(times.batch, 3);
  ck_assert_int_eq(gpu_ask(program, 1, &problem), GPU_PENDING);
  give_back();
  finish(1);
  check(1);
}
END_TEST

static void do_nothing(void *unused) { (void)unused; }

/* Another stream is busy meanwhile, or the clock would stand still. */
START_TEST(what_a_stage_holds_back_is_no_kernel_time) {
  cudaStream_t other;
  begin(1, false, _i == 1);
  ck_assert_int_eq(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ck_assert(submit(0, 0, false));
  fake_run_all();
  fake_launch(other, do_nothing, NULL, 100 * KERNEL_NS);
  fake_run_all();
  give_back();
  finish(0);
  struct gpu_times times = times_of(0);
  ck_assert(times.kernel >= KERNEL_NS && times.kernel < 2 * KERNEL_NS);
  ck_assert_int_ge(times.wait, 99 * KERNEL_NS);
  ck_assert_int_eq(times.model, KERNEL_NS);
  ck_assert_int_eq(cudaStreamDestroy(other), cudaSuccess);
}
END_TEST

START_TEST(a_stage_knows_how_long_it_may_keep_it) {
  const struct gpu_frame frame = {.sequence = 1, .deadline = 12345};
  begin(1, false, false);
  ck_assert(gpu_submit(program, 0, &frame, &problem));
  ck_assert(kept[0]->deadline == frame.deadline);
  give_back();
  finish(0);
}
END_TEST

START_TEST(a_lane_is_told_of_it) {
  begin(1, true, _i == 1);
  fill(0, 9);
  ck_assert(submit(0, 0, true));
  fake_run_all();
  ck_assert_uint_eq(wakes, 0);
  give_back();
  fake_run_all();
  ck_assert_uint_eq(wakes, 1);
  ck_assert_int_eq(gpu_told(program, 0), GPU_DONE);
  check(0);
}
END_TEST

/* A lane that goes to sleep meanwhile. */
START_TEST(it_is_armed_while_it_is_away) {
  begin(1, false, _i == 1);
  fill(0, 3);
  ck_assert(submit(0, 0, false));
  ck_assert(gpu_arm(program, 0, &problem) && gpu_arm(program, 0, &problem));
  ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING);
  give_back();
  fake_run_all();
  ck_assert_uint_eq(wakes, 1);
  ck_assert_int_eq(gpu_told(program, 0), GPU_DONE);
  check(0);
  keeps = false; /* and one that was given back before */
  ck_assert(submit(0, 1, false));
  ck_assert(gpu_arm(program, 0, &problem));
  fake_run_all();
  ck_assert_uint_eq(wakes, 2);
  ck_assert_int_eq(gpu_told(program, 0), GPU_DONE);
}
END_TEST

START_TEST(a_device_that_dies_meanwhile_is_not_waited_for) {
  begin(2, false, _i == 1);
  ck_assert(submit(0, 0, false));
  fake_die(cudaErrorIllegalAddress);
  give_back();
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_DEAD);
  program = gpu_program_free(program);
}
END_TEST

Suite *handed_suite(void);
Suite *handed_suite(void) {
  Suite *suite = suite_create("handed");
  TCase *tests = tcase_create("handed over");
  tcase_add_checked_fixture(tests, set_up, tear_down);
  tcase_add_loop_test(tests, a_frame_is_pending_until_it_is_given_back, 0, 2); /* step by step, and replayed */
  tcase_add_loop_test(tests, what_a_stage_holds_back_is_no_kernel_time, 0, 2);
  tcase_add_test(tests, a_stage_knows_how_long_it_may_keep_it);
  tcase_add_loop_test(tests, a_lane_is_told_of_it, 0, 2);
  tcase_add_loop_test(tests, it_is_armed_while_it_is_away, 0, 2);
  tcase_add_test(tests, a_device_that_dies_meanwhile_is_not_waited_for);
  suite_add_tcase(suite, tests);
  return suite;
}
