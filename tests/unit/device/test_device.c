/* A device with a real worker of the CPU backend: frames, the end of a worker, and another one in its place. */
#include "daemon/device/device.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "daemon/device/private.h"
#include "daemon/frame/arena.h"
#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"

enum { BYTES = 1000, SLOTS = 3, PATIENCE_S = 20 };

static struct device *device;
static struct device_chain *chain;
static struct device_program *program;
static struct arena inputs, outputs;
static struct gpu_error error;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); }

static void set_up(void) {
  static const struct gpu_options options = {.graph = GPU_GRAPH_OFF};
  static const struct device_caller nobody = {.lane = NULL};
  struct failure failure;
  struct gpu_buffers slots[SLOTS];
  const struct frame_format format = format_tensor(ELEMENT_UINT8, (const uint64_t[]){BYTES}, 1);
  const struct gpu_stage_request affine = {
      .stage = stage_about_find("affine"),
      .values = {{.given = true, .count = 1, .numbers = {2}}, {.given = true, .count = 1, .numbers = {1}}},
  };
  device = device_open(&(struct device_setup){.choice = GPU_BACKEND_CPU, .workers = 2}, &error);
  ck_assert_msg(device != NULL, "%s", error.text);
  chain = device_chain_new(device, GPU_BACKEND_CPU, &format, &affine, 1, &error);
  ck_assert_msg(chain != NULL, "%s", error.text);
  ck_assert_msg(arena_make(&inputs, "in", BYTES, SLOTS, device, &failure), "%s", failure.text);
  ck_assert_msg(arena_make(&outputs, "out", BYTES, SLOTS, device, &failure), "%s", failure.text);
  for (unsigned i = 0; i < SLOTS; i++) {
    slots[i] =
        (struct gpu_buffers){.input = inputs.base + i * arena_stride(BYTES), .output = outputs.base + i * arena_stride(BYTES)};
  }
  program = device_program_new(device, chain, slots, SLOTS, &options, true, &nobody, &error);
  ck_assert_msg(program != NULL, "%s", error.text);
}

static void tear_down(void) {
  program = device_program_free(program);
  arena_drop(&inputs);
  arena_drop(&outputs);
  chain = device_chain_free(chain);
  device = device_close(device);
}

static void submit(unsigned slot, unsigned char value) {
  const struct gpu_frame frame = {.sequence = value, .restart = true};
  memset(inputs.base + slot * arena_stride(BYTES), value, BYTES);
  ck_assert_msg(device_submit(program, slot, &frame, &error), "%s", error.text);
}

static enum gpu_progress await(unsigned slot) {
  const int64_t limit = clock_now() + PATIENCE_S * NS_PER_S;
  enum gpu_progress progress;
  while ((progress = device_ask(program, slot, &error)) == GPU_PENDING) {
    ck_assert_msg(clock_now() < limit, "the frame does not come back");
    nap();
  }
  return progress;
}

static void expect(unsigned slot, unsigned char value) {
  ck_assert_int_eq(await(slot), GPU_DONE);
  for (unsigned i = 0; i < BYTES; i++) {
    ck_assert_uint_eq(outputs.base[slot * arena_stride(BYTES) + i], 2U * value + 1);
  }
}

START_TEST(frames_come_back_from_every_slot) {
  for (unsigned char round = 0; round < 20; round++) {
    for (unsigned slot = 0; slot < SLOTS; slot++) {
      submit(slot, (unsigned char)(round + slot));
    }
    for (unsigned slot = 0; slot < SLOTS; slot++) {
      struct gpu_times times;
      expect(slot, (unsigned char)(round + slot));
      ck_assert_ptr_null(device_refusal(program, slot));
      ck_assert(!device_late(program, slot) && device_times(program, slot, &times) && times.kernel >= 0);
    }
  }
}
END_TEST

static void await_loss(void) {
  const int64_t limit = clock_now() + PATIENCE_S * NS_PER_S;
  while (device_serves(program)) {
    ck_assert_msg(clock_now() < limit, "nobody hears of the end of the worker");
    nap();
  }
}

START_TEST(another_worker_takes_the_place_of_one_that_is_killed) {
  for (unsigned char round = 1; round <= 3; round++) {
    submit(0, round);
    expect(0, round);
    kill(process_id(device->process), SIGKILL);
    await_loss();
    ck_assert(device_is_lost(device));
    ck_assert_int_eq(device_ask(program, 0, &error), GPU_DEAD);
    ck_assert_ptr_nonnull(strstr(error.text, "signal 9"));
    ck_assert_msg(device_replace(device, &error), "%s", error.text);
    ck_assert(device_serves(program) && !device_is_lost(device));
  }
  submit(1, 9);
  expect(1, 9);
}
END_TEST

START_TEST(a_frame_on_a_device_that_is_abandoned_is_lost_for_that_reason) {
  kill(process_id(device->process), SIGSTOP);
  submit(0, 1);
  device_abandon(device, &(struct gpu_error){.stage = -1, .text = "the test has no patience"});
  ck_assert_int_eq(await(0), GPU_DEAD);
  ck_assert_str_eq(error.text, "the test has no patience");
  ck_assert(!device_submit(program, 1, &(struct gpu_frame){.sequence = 2}, &error));
}
END_TEST

START_TEST(what_a_worker_refuses_says_which_stage) {
  const struct frame_format format = format_tensor(ELEMENT_INT64, (const uint64_t[]){BYTES}, 1);
  const struct gpu_stage_request stages[] = {{.stage = stage_about_find("affine")}};
  ck_assert_ptr_null(device_chain_new(device, GPU_BACKEND_CPU, &format, stages, 1, &error));
  ck_assert_int_eq(error.stage, 0);
  ck_assert_ptr_nonnull(strstr(error.text, "affine"));
}
END_TEST

/* It is a judge until a device gets it. */
START_TEST(chains_are_judged_without_a_device) {
  const struct frame_format format = format_image(PIXELS_GRAY, 64, 48);
  struct device_chain *judged = device_chain_new(NULL, GPU_BACKEND_CPU, &format, NULL, 0, &error);
  ck_assert_msg(judged != NULL, "%s", error.text);
  ck_assert(format_equal(&device_chain_record(judged)->output, &format));
  ck_assert(device_chain_record(judged)->runs.holds);
  device_chain_free(judged);
  device_judge_end();
}
END_TEST

Suite *device_suite(void);

Suite *device_suite(void) {
  Suite *suite = suite_create("device");
  TCase *group = tcase_create("worker");
  tcase_set_timeout(group, 2 * PATIENCE_S);
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_add_test(group, frames_come_back_from_every_slot);
  tcase_add_test(group, another_worker_takes_the_place_of_one_that_is_killed);
  tcase_add_test(group, a_frame_on_a_device_that_is_abandoned_is_lost_for_that_reason);
  tcase_add_test(group, what_a_worker_refuses_says_which_stage);
  tcase_add_test(group, chains_are_judged_without_a_device);
  suite_add_tcase(suite, group);
  return suite;
}
