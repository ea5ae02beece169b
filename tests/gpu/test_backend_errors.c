/* The CUDA backend on a real GPU: what fails without harm, and what is the end of a device. */
#include "gpu/backend.h"
#include "tests/gpu/backend.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* -- stages that fail ------------------------------------------------------------------------------------------------ */

static int refuse_launch(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  (void)plan;
  (void)stream;
  return call->sequence == 0 ? cudaErrorInvalidConfiguration : cudaSuccess;
}

static bool keep(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)values;
  (void)problem;
  plan->output = plan->input;
  return true;
}

static const struct stage_descriptor unlaunchable = {STAGE_UNLISTED("unlaunchable"), .prepare = keep, .enqueue = refuse_launch};
static const struct stage_descriptor cpu_only = {STAGE_UNLISTED("cpu_only"), .prepare = keep};

/* -- errors ------------------------------------------------------------------------------------------------------- */

START_TEST(what_does_not_fit_leaves_the_device_alive) {
  struct gpu_error error;
  struct frame_format huge = format_tensor(ELEMENT_UINT8, (uint64_t[]){UINT64_C(1) << 40}, 1);
  backend_open_in(BACKEND_PLAIN, 1, 64, NULL, 0);
  struct gpu_chain *chain = backend_chain(huge, NULL, 0);
  struct gpu_buffers buffers = {.input = rig.input[0], .output = rig.output[0]};
  ck_assert_ptr_null(gpu_program_new(rig.device, chain, &buffers, 1, &(struct gpu_options){0}, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "cudaMalloc"));
  ck_assert_ptr_nonnull(strstr(error.text, "cudaErrorMemoryAllocation"));
  ck_assert_str_ne(error.remedy, "");
  gpu_chain_free(chain);
  chain = backend_chain(format_image(PIXELS_GRAY, 8, 8), &(struct gpu_stage_request){.own = &cpu_only}, 1);
  ck_assert_ptr_null(gpu_program_new(rig.device, chain, &buffers, 1, &(struct gpu_options){0}, &error));
  ck_assert_int_eq(error.stage, 0);
  ck_assert_ptr_nonnull(strstr(error.text, "cpu_only"));
  gpu_chain_free(chain);
  ck_assert(!gpu_pin(rig.device, rig.memory, rig.memory_bytes, &error)); /* pinned already */
  rig_submit(&rig, 0, 0, true);
  rig_finish(&rig, 0);
  rig_close(&rig);
}
END_TEST

START_TEST(a_device_that_is_not_there) {
  struct gpu_error error;
  ck_assert_ptr_null(gpu_open(GPU_BACKEND_CUDA, 99, 0, &error));
  ck_assert(error.no_device);
  ck_assert_ptr_nonnull(strstr(error.text, "99"));
  ck_assert_str_ne(error.remedy, "");
}
END_TEST

START_TEST(a_launch_that_fails_is_the_end) {
  struct gpu_error error;
  struct gpu_frame frame = {.sequence = 0, .restart = true, .notify = true};
  backend_open_in(BACKEND_PLAIN, 1, 64, (struct gpu_stage_request[]){backend_affine(1, 0), {.own = &unlaunchable}}, 2);
  ck_assert(!gpu_submit(rig.program, 0, &frame, &error));
  ck_assert_int_eq(error.stage, 1);
  ck_assert_ptr_nonnull(strstr(error.text, "stages[1] (unlaunchable)"));
  ck_assert_int_eq(gpu_anchor(rig.device, &error), GPU_DEAD);
  rig_close(&rig);
}
END_TEST

/* No callback comes; asking finds it; every program on the device is dead, and freeing them does not hang. */
START_TEST(an_illegal_access_is_found_by_asking) {
  struct gpu_error error;
  struct gpu_frame frame = {.sequence = 2, .notify = true};
  struct rig other = {0};
  backend_open_in(_i, 2, 64, (struct gpu_stage_request[]){backend_fault(FAULT_ILLEGAL, 1, 0, 0)}, 1);
  other.device = rig.device;
  rig_program_of(&other, 1, backend_chain(format_image(PIXELS_GRAY, 8, 8), NULL, 0));
  rig_submit(&rig, 0, 0, true);
  rig_wait_for_wakes(&rig, 1);
  rig_submit(&rig, 1, 1, true);
  ck_assert_int_eq(rig_wait(&rig, 1, &error), GPU_DEAD);
  printf("%s\n%s\n", error.text, error.remedy);
  ck_assert_int_eq(error.code, cudaErrorIllegalAddress);
  ck_assert_ptr_nonnull(strstr(error.text, "cudaErrorIllegalAddress"));
  ck_assert_str_ne(error.remedy, "");
  ck_assert_int_eq(gpu_told(rig.program, 1), GPU_PENDING);
  ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_DONE); /* what was told stays done */
  ck_assert(!gpu_submit(rig.program, 0, &frame, &error));
  ck_assert(!gpu_submit(other.program, 0, &frame, &error));
  ck_assert_int_eq(gpu_anchor(rig.device, &error), GPU_DEAD);
  ck_assert(!gpu_memory(rig.device, &(size_t){0}, &(size_t){0}));
  ck_assert_int_eq(atomic_load(&rig.wakes), 1);
  rig_free_program(&other);
  rig_close(&rig);
}
END_TEST

/* The same of a kernel that stays, which answers no more: the first frame of it is done, the second strikes. */
START_TEST(a_kernel_that_stays_is_struck) {
  struct gpu_error error;
  enum gpu_progress progress = GPU_PENDING;
  backend_open_resident(2, 64, (struct gpu_stage_request[]){backend_fault(_i ? FAULT_HANG : FAULT_ILLEGAL, 1, 0, 0)}, 1);
  rig_submit(&rig, 0, 0, false);
  rig_finish(&rig, 0);
  rig_submit(&rig, 1, 1, false);
  for (int i = 0; i < 100000 && _i; i++) {
    ck_assert_int_eq(gpu_ask(rig.program, 1, &error), GPU_PENDING);
  }
  progress = _i ? GPU_PENDING : rig_wait(&rig, 1, &error); /* which takes the driver a tenth of a second */
  ck_assert_int_eq(progress, _i ? GPU_PENDING : GPU_DEAD);
  ck_assert(_i || error.code == cudaErrorIllegalAddress);
  gpu_abandon(rig.device, "no completion for 2 s");
  ck_assert_int_eq(gpu_ask(rig.program, 1, &error), GPU_DEAD);
  rig_close(&rig);
  if (_i) {
    _exit(BACKEND_HANG_IS_OVER);
  }
}
END_TEST

/* Pending for ever, the clock goes on, and after giving the device up freeing does not wait. The process ends
 * without the runtime's own tear-down, as the daemon does, since that would wait for the kernel. */
START_TEST(a_hang_is_given_up) {
  struct gpu_error error;
  backend_open_in(_i, 2, 64, (struct gpu_stage_request[]){backend_fault(FAULT_HANG, 0, 0, 0)}, 1);
  rig_submit(&rig, 0, 0, true);
  for (int i = 0; i < 10000; i++) {
    ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_PENDING);
  }
  ck_assert_msg(gpu_anchor(rig.device, &error) != GPU_DEAD, "%s", error.text);
  gpu_abandon(rig.device, "no completion for 2 s");
  ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_DEAD);
  ck_assert_str_eq(error.text, "no completion for 2 s");
  rig_close(&rig);
  _exit(BACKEND_HANG_IS_OVER);
}
END_TEST

void backend_add_errors(TCase *group) {
  tcase_add_test(group, what_does_not_fit_leaves_the_device_alive);
  tcase_add_test(group, a_device_that_is_not_there);
  tcase_add_test(group, a_launch_that_fails_is_the_end);
  tcase_add_loop_test(group, an_illegal_access_is_found_by_asking, 0, 4);
  tcase_add_loop_test(group, a_kernel_that_stays_is_struck, 0, 1);
  tcase_add_loop_exit_test(group, a_kernel_that_stays_is_struck, BACKEND_HANG_IS_OVER, 1, 2);
  tcase_add_loop_exit_test(group, a_hang_is_given_up, BACKEND_HANG_IS_OVER, 0, 4);
}
