/* A device and its programs come and go: every call of theirs fails in turn, and nothing is left. */
#include "tests/unit/cuda/fake_world.h"
#include "tests/unit/cuda/fixture.h"

#include <stdlib.h>
#include <string.h>

START_TEST(everything_is_given_back) {
  make_program(3, &plus_one, 1);
  ck_assert(gpu_program_warm_up(program, &problem));
  ck_assert(submit(0, 0, true));
  ck_assert(submit(1, 1, false));
  struct gpu_usage usage;
  gpu_usage(device, &usage);
  ck_assert_uint_eq(usage.allocated, gpu_chain_device_bytes(chain, 3));
  program = gpu_program_free(program); /* finishes both */
  gpu_usage(device, &usage);
  ck_assert_uint_eq(usage.allocated, 0);
  ck_assert_uint_eq(wakes, 1);
  chain = gpu_chain_free(chain);
  device = gpu_close(device);
  ck_assert_uint_eq(fake_alive(), 0);
}
END_TEST

START_TEST(streams_have_the_priority_of_their_program) {
  static const int numbers[] = {[GPU_PRIORITY_LOW + 1] = 0, [GPU_PRIORITY_NORMAL + 1] = -2, [GPU_PRIORITY_HIGH + 1] = -5};
  options.priority = (enum gpu_priority)_i;
  make_program(2, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &problem));
  for (int slot = 0; slot < 2; slot++) {
    ck_assert_int_eq(streams[slot]->priority, numbers[_i + 1]);
  }
}
END_TEST

/* Whichever call fails while a device is opened, the problem says what to do. Some failures it survives; then nothing is left
 * but what that call would have given back. A frame that fails ends the device, whose things are left to the driver. Of the
 * later calls, which are like each other, some fail. */
START_TEST(opening_fails_cleanly_at_every_call) {
  unsigned tries = 0, survived = 0;
  bool over = false; /* opening has fewer calls */
  tear_down();
  while (!over) {
    bool is_first = tries == 0; /* which asks for the driver */
    fake_reset();
    fake_fail(tries, cudaErrorInvalidValue, false);
    tries += 1 + tries / FEW_TRIES;
    struct gpu_device *opened = cuda_open(1, NULL, &problem);
    over = fake_heal();
    ck_assert(opened || !over);
    if (opened) {
      survived += !over;
      ck_assert_str_eq(gpu_device_name(opened), "Fake 1");
      gpu_close(opened);
      ck_assert_uint_le(fake_alive(), over ? 0 : 1);
    } else {
      ck_assert(problem.no_device);
      ck_assert_ptr_nonnull(strstr(problem.text, is_first ? "no NVIDIA driver" : "cudaError1"));
      ck_assert_str_ne(problem.remedy, "");
    }
  }
  ck_assert_uint_gt(tries, 500); /* frames and graphs among them */
  ck_assert_uint_gt(survived, 0);
  fake_reset();
  ck_assert_ptr_null(cuda_open(2, NULL, &problem));
  ck_assert_ptr_nonnull(strstr(problem.text, "no CUDA device 2"));
  set_up();
}
END_TEST

/* Opened or only asked for, it is said what is wrong with a device and what to do. */
START_TEST(a_device_is_refused_unopened) {
  tear_down();
  fake_reset();
  ck_assert(cuda_usable(1, &problem));
  ck_assert(!cuda_usable(2, &problem));
  ck_assert_ptr_nonnull(strstr(problem.text, "no CUDA device 2"));
  fake_set_old();
  ck_assert(!cuda_usable(1, &problem));
  ck_assert_ptr_nonnull(strstr(problem.text, "older than the Turing"));
  ck_assert_str_ne(problem.remedy, "");
  ck_assert_ptr_null(cuda_open(1, NULL, &problem));
  ck_assert_ptr_nonnull(strstr(problem.text, "older than the Turing"));
  for (unsigned call = 0; call < 2; call++) {
    fake_reset();
    fake_fail(call, cudaErrorInvalidValue, false);
    ck_assert(!cuda_usable(1, &problem));
    ck_assert_str_ne(problem.remedy, "");
  }
  fake_reset();
  set_up();
}
END_TEST

/* A queue for each slot and for the worker's own streams, 8 at most; what the user has set stays. */
START_TEST(as_many_queues_as_slots_are_expected) {
  static const struct {
    const char *user, *ours; /* in the environment */
    unsigned slots;
    bool known;
    const char *queues;
  } cases[] = {
      {NULL, NULL, 0, false, NULL}, {NULL, NULL, 3, false, "6"}, {NULL, NULL, 3, true, "4"}, {NULL, NULL, 100, true, "8"},
      {"4", NULL, 3, true, "4"},    {"7", "7", 3, true, "4"},    {"4", "7", 3, true, "4"},   {"7", "7", 0, true, "7"},
  };
  const struct gpu_calibration known = {0};
  const char *const names[] = {"CUDA_DEVICE_MAX_CONNECTIONS", "FRAMED_DEVICE_MAX_CONNECTIONS"};
  const char *const values[] = {cases[_i].user, cases[_i].ours};
  gpu_close(device);
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(values[i] ? setenv(names[i], values[i], 1) : unsetenv(names[i]), 0);
  }
  cuda_expect(cases[_i].slots);
  device = cuda_open(0, cases[_i].known ? &known : NULL, &problem);
  ck_assert_pstr_eq(getenv(names[0]), cases[_i].queues);
  for (int i = 0; i < 2; i++) {
    unsetenv(names[i]);
  }
  cuda_expect(0);
}
END_TEST

/* The same for programs: the device stays alive, and the next attempt may succeed. */
START_TEST(programs_fail_cleanly_at_every_call) {
  unsigned alive = fake_alive(), tries = 0;
  make_chain(&plus_one, 1);
  do {
    fake_fail(tries, cudaErrorMemoryAllocation, false);
    program = gpu_program_new(device, chain, buffers, 3, &options, &problem);
    ck_assert_uint_lt(tries++, MAX_TRIES);
    if (!program) {
      ck_assert_uint_eq(fake_alive(), alive);
      ck_assert_int_eq(problem.code, cudaErrorMemoryAllocation);
      ck_assert_ptr_nonnull(strstr(problem.text, "Fake 0"));
      ck_assert_str_ne(problem.remedy, "");
      ck_assert(!gpu_device_is_dead(device, NULL));
    }
  } while (!program);
  ck_assert_uint_gt(tries, 3 * 6);
  fake_heal();
}
END_TEST

START_TEST(a_stage_without_a_kernel_is_refused) {
  make_chain(&cpu_only, 0);
  ck_assert_ptr_null(gpu_program_new(device, chain, buffers, 1, &options, &problem));
  ck_assert_int_eq(problem.stage, 0);
  ck_assert_ptr_nonnull(strstr(problem.text, "cpu_only"));
}
END_TEST

START_TEST(a_device_knows_its_node) {
  ck_assert_int_eq(gpu_node(device), GPU_NO_NODE);
  struct gpu_device *other = cuda_open(1, NULL, &problem);
  ck_assert_ptr_nonnull(other);
  ck_assert_int_eq(gpu_node(other), 3);
  gpu_close(other);
}
END_TEST

START_TEST(memory_is_pinned_and_unpinned) {
  size_t available, total;
  struct gpu_usage usage;
  ck_assert(gpu_pin(device, inputs, sizeof inputs, &problem));
  gpu_usage(device, &usage);
  ck_assert_uint_eq(usage.pinned, sizeof inputs);
  gpu_unpin(device, inputs, sizeof inputs);
  gpu_usage(device, &usage);
  ck_assert_uint_eq(usage.pinned, 0);
  fake_fail(0, cudaErrorHostMemoryAlreadyRegistered, false);
  ck_assert(!gpu_pin(device, inputs, sizeof inputs, &problem));
  ck_assert_ptr_nonnull(strstr(problem.text, "cudaHostRegister"));
  ck_assert(gpu_memory(device, &available, &total));
  ck_assert_uint_eq(available, 1000);
  ck_assert_uint_eq(total, 2000);
}
END_TEST

/* The same for the warm-up, which captures graphs and measures. Where the time of one frame is all that fails, it goes on. Of
 * its later calls, which are more and more like each other, some fail. */
START_TEST(warm_ups_fail_cleanly_at_every_call) {
  struct gpu_calibration known;
  unsigned alive = fake_alive(), tries = 0;
  bool over = false; /* the warm-up has fewer calls */
  make_chain(&plus_one, _i % 3 == 0);
  gpu_calibration(device, &known);
  while (!over) {
    options.graph = _i % 2 ? GPU_GRAPH_ON : GPU_GRAPH_AUTO;
    options.timed_one_in = _i % 2 ? 1 : GPU_TIMED_AUTO;
    options.notify = _i < 2;
    options.weigh = true;
    fake_set_host_step(HOST_STEP_NS);
    memset(streams, 0, sizeof streams);
    program = gpu_program_new(device, chain, buffers, 2, &options, &problem);
    ck_assert_msg(program != NULL, "%s", problem.text);
    fake_fail(tries, cudaErrorMemoryAllocation, false);
    tries += 1 + tries / FEW_TRIES;
    bool warm = gpu_program_warm_up(program, &problem);
    over = fake_heal();
    ck_assert(warm || !over);
    if (!warm) {
      ck_assert_int_eq(problem.code, cudaErrorMemoryAllocation);
      ck_assert_str_ne(problem.remedy, "");
    }
    program = gpu_program_free(program);
    if (gpu_device_is_dead(device, NULL)) { /* it was a frame that failed: that is the end of it, as ever */
      tear_down();
      open_device(&known);
      make_chain(&plus_one, _i % 3 == 0);
    } else {
      ck_assert_uint_eq(fake_alive(), alive);
    }
    ck_assert_uint_eq(wakes, 0);
  }
  ck_assert_uint_gt(tries, 60); /* graphs and rounds of measuring among them */
}
END_TEST

Suite *life_suite(void);
Suite *life_suite(void) {
  Suite *suite = suite_create("life");
  TCase *group = tcase_create("fake");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_set_timeout(group, 120);
  tcase_add_test(group, everything_is_given_back);
  tcase_add_loop_test(group, streams_have_the_priority_of_their_program, GPU_PRIORITY_LOW, GPU_PRIORITY_HIGH + 1);
  tcase_add_test(group, opening_fails_cleanly_at_every_call);
  tcase_add_test(group, a_device_is_refused_unopened);
  tcase_add_loop_test(group, as_many_queues_as_slots_are_expected, 0, 8);
  tcase_add_test(group, programs_fail_cleanly_at_every_call);
  tcase_add_loop_test(group, warm_ups_fail_cleanly_at_every_call, 0, 4);
  tcase_add_test(group, a_stage_without_a_kernel_is_refused);
  tcase_add_test(group, a_device_knows_its_node);
  tcase_add_test(group, memory_is_pinned_and_unpinned);
  suite_add_tcase(suite, group);
  return suite;
}
