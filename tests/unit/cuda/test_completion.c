/* How a frame is found done, and in which order copies go. */
#include "tests/unit/cuda/fixture.h"

#include <stdlib.h>
#include <string.h>

/* -- completion --------------------------------------------------------------------------------------------------- */

START_TEST(a_late_function_tells_nothing_of_the_next_frame) {
  fake_set_polling(false);
  make_program(1, &plus_one, 0);
  ck_assert(submit(0, 0, false));
  ck_assert(gpu_arm(program, 0, &problem));
  ck_assert_uint_eq(fake_run_stream(streams[0], FRAME_OPERATIONS), FRAME_OPERATIONS);
  ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING);
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_DONE);
  ck_assert(submit(0, 1, true));
  ck_assert_uint_eq(fake_run_stream(streams[0], 1), 1); /* the function of frame 0 */
  ck_assert_uint_eq(wakes, 1);
  ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING);
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_PENDING);
  fake_run_all();
  ck_assert_uint_eq(wakes, 2);
  ck_assert_int_eq(gpu_told(program, 0), GPU_DONE);
}
END_TEST

START_TEST(arming_launches_one_function) {
  fake_set_polling(false);
  make_program(1, &plus_one, 0);
  unsigned before = fake_host_functions();
  ck_assert(submit(0, 0, false));
  ck_assert_uint_eq(fake_host_functions() - before, 0);
  ck_assert(gpu_arm(program, 0, &problem));
  ck_assert(gpu_arm(program, 0, &problem));
  ck_assert_uint_eq(fake_host_functions() - before, 1);
  fake_run_all();
  ck_assert_int_eq(gpu_told(program, 0), GPU_DONE);
  ck_assert(submit(0, 1, true));
  ck_assert(gpu_arm(program, 0, &problem)); /* it has asked already */
  ck_assert_uint_eq(fake_host_functions() - before, 2);
  fake_run_all();
  ck_assert_uint_eq(wakes, 2);
  ck_assert(submit(0, 2, false));
  fake_run_all();
  ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING); /* it asked for nothing */
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_DONE);
}
END_TEST

/* A lane at random: slots in order, frames submitted with and without asking, armed, polled; streams at random; with
 * graphs and without, all, some and no frames timed. Each frame has the right result, uses the state of the one before
 * it, and wakes exactly as often as was asked. */
START_TEST(arming_that_fails_is_the_end) {
  fake_set_polling(false);
  make_program(1, &plus_one, 0);
  ck_assert(submit(0, 0, false));
  fake_fail(0, cudaErrorInvalidValue, false);
  ck_assert(!gpu_arm(program, 0, &problem));
  ck_assert_ptr_nonnull(strstr(problem.text, "cudaLaunchHostFunc"));
  ck_assert(gpu_device_is_dead(device, NULL));
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_DEAD);
  fake_heal();
}
END_TEST

/* Whichever call fails while a program and its device are given back, the others are made all the same. */
START_TEST(giving_back_goes_on_after_every_call) {
  bool over = false;
  unsigned tries = 0;
  while (!over) {
    options.order = GPU_ORDER_ON;
    options.graph = _i ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
    make_program(3, &plus_one, 1);
    ck_assert(gpu_program_warm_up(program, &problem));
    ck_assert(gpu_pin(device, inputs, sizeof inputs, &problem));
    ck_assert(submit(0, 0, true));
    ck_assert(submit(1, 1, false));
    unsigned alive = fake_alive();
    fake_fail(tries++, cudaErrorInvalidValue, false);
    program = gpu_program_free(program);
    gpu_unpin(device, inputs, sizeof inputs);
    chain = gpu_chain_free(chain);
    device = gpu_close(device);
    over = fake_heal();
    ck_assert_uint_lt(fake_alive(), over ? 1 : alive);
    set_up();
  }
  ck_assert_uint_gt(tries, 20);
}
END_TEST

/* A frame whose times cannot be had has none. */
START_TEST(times_fail_at_every_call) {
  struct gpu_times times;
  bool over = false;
  unsigned tries = 0;
  while (!over) {
    make_program(1, &plus_one, 0);
    ck_assert(submit(0, 0, false));
    finish(0);
    fake_fail(tries++, cudaErrorInvalidValue, false);
    bool has_times = gpu_times(program, 0, &times);
    over = fake_heal();
    ck_assert(has_times == over);
    tear_down();
    set_up();
  }
  ck_assert_uint_gt(tries, 3);
}
END_TEST

START_TEST(any_order_of_streams_gives_the_same_frames) {
  static const int timed_one_in[] = {1, GPU_TIMED_NEVER, 4, GPU_TIMED_AUTO};
  enum { SLOTS = 4, FRAMES = 2000 };
  unsigned expected_wakes = 0, seed = (unsigned)_i + 1;
  fake_set_seed(seed);
  options.graph = (enum gpu_graph_choice)(_i % 3);
  options.timed_one_in = timed_one_in[_i % 4];
  options.notify = _i % 2 == 0;
  options.order = (enum gpu_order_choice)(_i / 2 % 3);
  options.copy = (enum gpu_copy_choice)(_i / 3 % 3);
  make_program(SLOTS, _i % 5 ? &fickle : &plus_one, 1);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  for (unsigned frame = 0; frame < FRAMES + SLOTS; frame++) {
    unsigned slot = frame % SLOTS, done = frame - SLOTS;
    if (frame >= SLOTS) {
      finish(slot);
      ck_assert_uint_eq(outputs[slot][1], (done + 1) % 256);
      ck_assert_uint_eq(outputs[slot][WIDTH - 1], (done + 1) % 256);
      ck_assert_uint_eq(outputs[slot][0], done % 1000 == 0 ? 0 : (done - 1) % 256);
    }
    if (frame < FRAMES) {
      bool notify = rand_r(&seed) % 2 == 0, arm = rand_r(&seed) % 3 == 0;
      memset(inputs[slot], (int)frame, WIDTH);
      ck_assert_msg(submit(slot, frame % 1000, notify), "%s", problem.text); /* a session of 1000 frames */
      ck_assert(!arm || gpu_arm(program, slot, &problem));
      expected_wakes += notify || arm;
    }
  }
  program = gpu_program_free(program);
  ck_assert_uint_eq(wakes, expected_wakes);
}
END_TEST

START_TEST(no_stage_copies_in_and_out) {
  make_program(1, NULL, 0);
  memset(inputs[0], 7, WIDTH);
  memset(outputs[0], 0, WIDTH);
  ck_assert(submit(0, 0, true));
  finish(0);
  ck_assert_mem_eq(inputs[0], outputs[0], WIDTH);
}
END_TEST

/* -- the order of copies ------------------------------------------------------------------------------------------ */

/* The second frame's copy in waits for the first one's, and its copy out likewise, whatever its own stream has done. */
START_TEST(ordered_copies_wait_for_the_frame_before) {
  options.order = GPU_ORDER_ON;
  make_program(2, &plus_one, 0);
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  ck_assert(submit(1, 1, false));
  ck_assert_uint_eq(fake_run_stream(streams[1], ALL), 0);
  ck_assert_uint_eq(fake_run_stream(streams[0], 3), 3);   /* copy in, event, and the one that the other waits for */
  ck_assert_uint_eq(fake_run_stream(streams[1], ALL), 6); /* wait, copy in, two events, kernel, event */
  ck_assert_int_eq(gpu_ask(program, 1, &problem), GPU_PENDING);
  fake_run_stream(streams[0], ALL);
  ck_assert_uint_gt(fake_run_stream(streams[1], ALL), 0);
  ck_assert_int_eq(gpu_ask(program, 1, &problem), GPU_DONE);
}
END_TEST

/* What waits only for its turn is not served yet. */
START_TEST(waiting_for_the_order_is_not_service) {
  options.order = GPU_ORDER_ON;
  make_program(2, &plus_one, 0);
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  ck_assert(submit(1, 1, false));
  fake_run_stream(streams[0], ALL);
  fake_run_all();
  struct gpu_times times = {0};
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_DONE);
  ck_assert(gpu_times(program, 0, &times));
  ck_assert_int_eq(gpu_ask(program, 1, &problem), GPU_DONE);
  ck_assert(gpu_times(program, 1, &times));
  ck_assert_int_eq(times.h2d + times.wait, times.copied_in - times.begin);
  ck_assert_int_ge(times.wait, COPY_NS);
}
END_TEST

/* Of two programs, copies in keep one order; copies out do not, since one program's kernels are not the other's. */
START_TEST(programs_share_the_order_of_copies_in) {
  options.order = GPU_ORDER_ON;
  make_program(1, &plus_one, 0);
  struct gpu_program *other = gpu_program_new(device, chain, &buffers[1], 1, &options, &problem);
  ck_assert_ptr_nonnull(other);
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  ck_assert(gpu_submit(other, 0, &(struct gpu_frame){.sequence = 0}, &problem));
  let_begin();
  ck_assert_uint_eq(fake_run_stream(streams[1], ALL), 0);
  ck_assert_uint_eq(fake_run_stream(streams[0], 3), 3);
  ck_assert_uint_gt(fake_run_stream(streams[1], ALL), 0);
  ck_assert_int_eq(gpu_ask(other, 0, &problem), GPU_DONE);
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_PENDING);
  ck_assert_ptr_null(gpu_program_free(other));
}
END_TEST

/* Without being told, large copies are ordered and small ones are not; and never, where it is off. */
START_TEST(large_copies_are_ordered) {
  static const struct {
    uint64_t bytes;
    enum gpu_order_choice order;
    bool ordered;
  } cases[] = {
      {24 << 20, GPU_ORDER_AUTO, true},
      {(24 << 20) - 1, GPU_ORDER_AUTO, false},
      {24 << 20, GPU_ORDER_OFF, false},
      {WIDTH, GPU_ORDER_ON, true},
  };
  struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){cases[_i].bytes}, 1);
  struct gpu_stage_request request = {.own = &plus_one};
  chain = gpu_chain_new(&format, &request, 1, &problem);
  unsigned char *memory = aligned_alloc(256, 2 * (cases[_i].bytes + 255) / 256 * 256);
  ck_assert(chain && memory);
  memset(memory, 1, cases[_i].bytes);
  for (int i = 0; i < 2; i++) {
    buffers[i] = (struct gpu_buffers){.input = memory, .output = memory + (cases[_i].bytes + 255) / 256 * 256};
  }
  options.order = cases[_i].order;
  memset(streams, 0, sizeof streams);
  program = gpu_program_new(device, chain, buffers, 2, &options, &problem);
  ck_assert_msg(program != NULL, "%s", problem.text);
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  ck_assert(submit(1, 1, false));
  unsigned ran = fake_run_stream(streams[1], ALL);
  ck_assert_msg(cases[_i].ordered == (ran == 0), "%u operations ran", ran);
  fake_run_all();
  program = gpu_program_free(program);
  free(memory);
}
END_TEST

Suite *completion_suite(void);
Suite *completion_suite(void) {
  Suite *suite = suite_create("completion");
  TCase *group = tcase_create("fake");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_set_timeout(group, 120);
  tcase_add_test(group, a_late_function_tells_nothing_of_the_next_frame);
  tcase_add_test(group, arming_launches_one_function);
  tcase_add_test(group, arming_that_fails_is_the_end);
  tcase_add_loop_test(group, giving_back_goes_on_after_every_call, 0, 2);
  tcase_add_test(group, times_fail_at_every_call);
  tcase_add_loop_test(group, any_order_of_streams_gives_the_same_frames, 0, 24);
  tcase_add_test(group, no_stage_copies_in_and_out);
  tcase_add_test(group, ordered_copies_wait_for_the_frame_before);
  tcase_add_test(group, waiting_for_the_order_is_not_service);
  tcase_add_test(group, programs_share_the_order_of_copies_in);
  tcase_add_loop_test(group, large_copies_are_ordered, 0, 4);
  suite_add_tcase(suite, group);
  return suite;
}
