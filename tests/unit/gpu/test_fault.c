/* The stage `fault` on the CPU backend: a device that dies, a frame that hangs, and devices that cannot be opened. */
#include "gpu/backend.h"
#include "tests/fault/fault.h"
#include "tests/unit/gpu/rig.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rig rig;

/* A program of two slots and one faulty stage before `then`, which may be NULL. */
static void open_faulty(enum fault_kind kind, unsigned at, unsigned every, const struct stage_descriptor *then) {
  struct gpu_error error;
  struct frame_format format = format_image(PIXELS_GRAY, 16, 4);
  struct gpu_stage_request requests[2] = {{.stage = stage_about_find("fault")}, {.own = then}};
  ck_assert_ptr_nonnull(requests[0].stage);
  requests[0].values[0].numbers[0] = kind;
  requests[0].values[1].numbers[0] = at;
  requests[0].values[2].numbers[0] = every;
  requests[0].values[3].numbers[0] = 1;
  struct gpu_chain *chain = gpu_chain_new(&format, requests, then ? 2 : 1, &error);
  ck_assert_msg(chain != NULL, "%s", error.text);
  rig_open(&rig, 2);
  rig_program_of(&rig, 2, chain);
  ck_assert(gpu_program_warm_up(rig.program, &error));
}

START_TEST(strikes_where_told) {
  struct fault_constants once = {.at = 5};
  struct fault_constants often = {.at = 5, .every = 3};
  ck_assert(!fault_strikes(once, 4, false));
  ck_assert(fault_strikes(once, 5, false));
  ck_assert(!fault_strikes(once, 8, false));
  ck_assert(!fault_strikes(often, 2, false));
  ck_assert(!fault_strikes(often, 6, false));
  ck_assert(fault_strikes(often, 8, false));
  ck_assert(!fault_strikes((struct fault_constants){.every = 1}, STAGE_WARM_UP, false));
}
END_TEST

START_TEST(a_delay_changes_nothing_else) {
  open_faulty(FAULT_DELAY, 1, 1, NULL);
  for (unsigned frame = 0; frame < 4; frame++) {
    memset(rig.input[frame % 2], (int)frame + 9, rig.input_bytes);
    rig_submit(&rig, frame % 2, frame, false);
    rig_finish(&rig, frame % 2);
    ck_assert_mem_eq(rig.output[frame % 2], rig.input[frame % 2], rig.input_bytes);
  }
  rig_close(&rig);
}
END_TEST

/* No callback ever comes, asking finds it, and another program on the device is dead as well. */
START_TEST(an_illegal_access_kills_the_device) {
  struct gpu_error error;
  struct gpu_frame frame = {.sequence = 2, .notify = true};
  struct rig other = {0};
  open_faulty(FAULT_ILLEGAL, 1, 0, &rig_count);
  other.device = rig.device;
  rig_program(&other, 1, (const struct stage_descriptor *const[]){&rig_increment, NULL});
  rig_submit(&rig, 0, 0, true);
  rig_finish(&rig, 0);
  rig_wait_for_wakes(&rig, 1);
  rig_submit(&rig, 1, 1, true);
  ck_assert_int_eq(rig_wait(&rig, 1, &error), GPU_DEAD);
  ck_assert_int_eq(error.stage, 0);
  ck_assert_ptr_nonnull(strstr(error.text, "illegal memory access"));
  ck_assert_str_ne(error.remedy, "");
  ck_assert_int_eq(gpu_told(rig.program, 1), GPU_PENDING);
  ck_assert_int_eq(gpu_told(rig.program, 0), GPU_DONE); /* what was done stays so */
  ck_assert(!gpu_submit(rig.program, 0, &frame, &error));
  ck_assert(!gpu_submit(other.program, 0, &frame, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "illegal memory access"));
  rig_free_program(&other);
  rig_free_program(&rig);
  ck_assert_int_eq(atomic_load(&rig.wakes), 1);
  rig_close(&rig);
}
END_TEST

/* The frame is pending for ever, and so is the one that waits behind it for the state; freeing ends both. */
START_TEST(a_hang_lasts_until_the_program_is_freed) {
  struct gpu_error error;
  open_faulty(FAULT_HANG, 0, 0, &rig_count);
  rig_submit(&rig, 0, 0, true);
  rig_submit(&rig, 1, 1, true);
  for (int i = 0; i < 1000; i++) {
    ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_PENDING);
    ck_assert_int_eq(gpu_ask(rig.program, 1, &error), GPU_PENDING);
  }
  if (_i == 1) {
    gpu_abandon(rig.device, "no completion for 2 s");
    ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_DEAD);
  }
  rig_free_program(&rig);
  ck_assert_int_eq(atomic_load(&rig.wakes), 0);
  rig_close(&rig);
}
END_TEST

/* Only that program is lost: others on the device go on. */
START_TEST(a_hang_leaves_other_programs_alone) {
  struct rig other = {0};
  open_faulty(FAULT_HANG, 0, 0, NULL);
  other.device = rig.device;
  rig_program(&other, 1, (const struct stage_descriptor *const[]){&rig_increment, NULL});
  rig_submit(&rig, 0, 0, true);
  for (unsigned frame = 0; frame < 20; frame++) {
    rig_submit(&other, 0, frame, false);
    rig_finish(&other, 0);
  }
  rig_free_program(&rig);
  rig_submit(&other, 0, 20, false);
  rig_finish(&other, 0);
  rig_free_program(&other);
  rig_close(&rig);
}
END_TEST

/* -- opening ------------------------------------------------------------------------------------------------------ */

static void make_node(const char *directory, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ck_assert_int_ge(fd, 0);
  close(fd);
}

START_TEST(nodes_tell_whether_there_is_a_device) {
  static const char *const nodes[] = {"nvidiactl", "nvidia0"};
  char directory[] = "/tmp/framed-nodes-XXXXXX";
  char path[256];
  ck_assert_ptr_nonnull(mkdtemp(directory));
  ck_assert(!gpu_nvidia_present(directory));
  make_node(directory, nodes[_i]);
  ck_assert(gpu_nvidia_present(directory));
  snprintf(path, sizeof path, "%s/%s", directory, nodes[_i]);
  unlink(path);
  rmdir(directory);
}
END_TEST

START_TEST(auto_takes_the_cpu_only_without_a_device) {
  struct gpu_error error;
  struct gpu_device *device = gpu_open(GPU_BACKEND_AUTO, 0, 1, &error);
  if (!gpu_nvidia_present("/dev")) {
    ck_assert_ptr_nonnull(device);
    ck_assert_str_eq(gpu_backend_name(device), "cpu");
  } else if (device) {
    ck_assert_str_eq(gpu_backend_name(device), "cuda");
  } else {
    ck_assert(error.no_device);
  }
  gpu_close(device);
}
END_TEST

START_TEST(cuda_without_a_device_says_what_to_do) {
  struct gpu_error error = {0};
  struct gpu_device *device = gpu_open(GPU_BACKEND_CUDA, 0, 0, &error);
  if (!device) {
    ck_assert(error.no_device);
    ck_assert_str_ne(error.text, "");
    ck_assert_str_ne(error.remedy, "");
  }
  gpu_close(device);
}
END_TEST

Suite *fault_suite(void);

Suite *fault_suite(void) {
  Suite *suite = suite_create("fault");
  TCase *group = tcase_create("faults");
  tcase_set_timeout(group, RIG_PATIENCE_S + 60);
  tcase_add_test(group, strikes_where_told);
  tcase_add_test(group, a_delay_changes_nothing_else);
  tcase_add_test(group, an_illegal_access_kills_the_device);
  tcase_add_loop_test(group, a_hang_lasts_until_the_program_is_freed, 0, 2);
  tcase_add_test(group, a_hang_leaves_other_programs_alone);
  tcase_add_loop_test(group, nodes_tell_whether_there_is_a_device, 0, 2);
  tcase_add_test(group, auto_takes_the_cpu_only_without_a_device);
  tcase_add_test(group, cuda_without_a_device_says_what_to_do);
  suite_add_tcase(suite, group);
  return suite;
}
