/* The CUDA backend on a real GPU: frames are computed, told of and kept in order, in every way to the device. */
#include "tests/gpu/backend.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- a stage with state -------------------------------------------------------------------------------------------- */

static bool keep_last(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)values;
  (void)problem;
  plan->output = plan->input;
  plan->state_bytes = 8;
  plan->scratch_bytes = 8;
  return true;
}

/* Copies the frame, but its first 8 bytes become those of the frame before. */
static int give_last(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  const enum cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
  const struct {
    void *to;
    const void *from;
    size_t bytes;
  } copies[] = {
      {call->output, call->input, plan->input_bytes},
      {call->output, call->state, 8},
      {call->scratch, call->input, 8},
      {call->state, call->scratch, 8},
  };
  for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
    cudaError_t status = cudaMemcpyAsync(copies[i].to, copies[i].from, copies[i].bytes, kind, stream);
    if (status != cudaSuccess) {
      return (int)status;
    }
  }
  return cudaSuccess;
}

static const struct stage_descriptor last = {STAGE_UNLISTED("last"), .prepare = keep_last, .enqueue = give_last};

static uint64_t first_number(const unsigned char *bytes) {
  uint64_t number;
  memcpy(&number, bytes, sizeof number);
  return number;
}

/* -- frames ------------------------------------------------------------------------------------------------------- */

START_TEST(the_device_describes_itself) {
  struct gpu_error error;
  size_t available, total;
  gpu_expect(3);
  rig_open_backend(&rig, GPU_BACKEND_AUTO, 0);
  ck_assert_str_eq(gpu_backend_name(rig.device), "cuda");
  ck_assert_uint_gt(strlen(gpu_device_name(rig.device)), 0);
  ck_assert(gpu_memory(rig.device, &available, &total));
  ck_assert_uint_gt(available, 0);
  ck_assert_uint_ge(total, available);
  ck_assert_msg(gpu_anchor(rig.device, &error) != GPU_DEAD, "%s", error.text);
  ck_assert_str_eq(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "6");
  printf("on %s, %zu MiB\n", gpu_device_name(rig.device), total >> 20);
  rig_close(&rig);
}
END_TEST

/* Odd and even numbers of stages, so that the result lies in either buffer; told by callback and by asking. */
static void compute_frames(int way, unsigned count) {
  const struct gpu_stage_request requests[] = {backend_affine(2, 1), backend_affine(1, 3), backend_affine(1, 0)};
  const unsigned add[] = {0, 1, 4, 4}, scale[] = {1, 2, 2, 2};
  backend_open_in(way, 3, 37, requests, count);
  for (unsigned frame = 0; frame < 300; frame++) {
    unsigned slot = frame % 3;
    memset(rig.input[slot], (int)(frame % 100), rig.input_bytes);
    rig_submit(&rig, slot, frame, frame % 2 == 0);
    rig_finish(&rig, slot);
    ck_assert_uint_eq(rig.output[slot][0], frame % 100 * scale[count] + add[count]);
    ck_assert_uint_eq(rig.output[slot][rig.output_bytes - 1], frame % 100 * scale[count] + add[count]);
  }
  rig_free_program(&rig); /* waits for host functions */
  ck_assert_int_eq(atomic_load(&rig.wakes), 150);
  rig_close(&rig);
}

static void frames_are_computed_in(int way) {
  for (unsigned count = 0; count < 4; count++) {
    compute_frames(way, count);
  }
}

START_TEST(frames_are_computed) { backend_in_ways("frames_are_computed", frames_are_computed_in, 0, BACKEND_WAYS); }
END_TEST

/* All slots full before the first is awaited, in order, as a lane does; told only. */
static void callbacks_tell_in(int way) {
  backend_open_in(way, GPU_MAX_SLOTS, 256, (struct gpu_stage_request[]){backend_affine(1, 1)}, 1);
  for (unsigned round = 0; round < 50; round++) {
    for (unsigned slot = 0; slot < GPU_MAX_SLOTS; slot++) {
      memset(rig.input[slot], (int)(round + slot), rig.input_bytes);
      rig_submit(&rig, slot, round * GPU_MAX_SLOTS + slot, true);
    }
    rig_wait_for_wakes(&rig, (int)(round + 1) * GPU_MAX_SLOTS);
    for (unsigned slot = 0; slot < GPU_MAX_SLOTS; slot++) {
      struct gpu_times times;
      ck_assert_int_eq(gpu_told(rig.program, slot), GPU_DONE);
      ck_assert_uint_eq(rig.output[slot][99], round + slot + 1);
      bool timed = gpu_times(rig.program, slot, &times);
      ck_assert(gpu_program_timed_one_in(rig.program) == 1 ? timed : gpu_program_timed_one_in(rig.program) > 0 || !timed);
      ck_assert(!timed || times.told > 0);
    }
  }
  rig_close(&rig);
}

START_TEST(callbacks_tell) { backend_in_ways("callbacks_tell", callbacks_tell_in, 0, BACKEND_WAYS); }
END_TEST

static void arming_wakes_in(int way) {
  struct gpu_error error;
  backend_open_in(way, 1, 64, (struct gpu_stage_request[]){backend_fault(FAULT_DELAY, 0, 2, 20)},
                  1); /* every other one is replayed */
  for (unsigned frame = 0; frame < 10; frame++) {
    rig_submit(&rig, 0, frame, false);
    if (!gpu_program_copies_by_kernel(rig.program)) {
      ck_assert_int_eq(gpu_told(rig.program, 0), GPU_PENDING); /* it was not asked to tell */
    }
    ck_assert(gpu_arm(rig.program, 0, &error));
    ck_assert(gpu_arm(rig.program, 0, &error));
    rig_wait_for_wakes(&rig, (int)frame + 1);
    ck_assert_int_eq(gpu_told(rig.program, 0), GPU_DONE);
  }
  rig_free_program(&rig);
  ck_assert_int_eq(atomic_load(&rig.wakes), 10);
  rig_close(&rig);
}

START_TEST(arming_wakes) { backend_in_ways("arming_wakes", arming_wakes_in, 0, BACKEND_WAYS); }
END_TEST

/* A frame found done by asking is followed at once by the next one in its slot, while its host function may still
 * run: that function must not tell of the later frame. The later frames take longer than any function. */
static void late_callbacks_tell_nothing_of_the_next_frame_in(int way) {
  struct gpu_error error;
  backend_open_in(way, 1, 64, (struct gpu_stage_request[]){backend_fault(FAULT_DELAY, 1, 2, 5)}, 1);
  for (unsigned frame = 0; frame < 100; frame += 2) {
    memset(rig.input[0], (int)frame, rig.input_bytes);
    rig_submit(&rig, 0, frame, false);
    ck_assert(gpu_arm(rig.program, 0, &error));
    rig_finish(&rig, 0);
    memset(rig.input[0], (int)frame + 1, rig.input_bytes);
    memset(rig.output[0], 0xff, rig.output_bytes);
    rig_submit(&rig, 0, frame + 1, true);
    while (gpu_told(rig.program, 0) == GPU_PENDING) {
    }
    ck_assert_uint_eq(rig.output[0][0], frame + 1);
  }
  rig_close(&rig);
}

START_TEST(late_callbacks_tell_nothing_of_the_next_frame) {
  backend_in_ways("late_callbacks_tell_nothing_of_the_next_frame", late_callbacks_tell_nothing_of_the_next_frame_in, 0,
                  BACKEND_WAYS);
}
END_TEST

/* Every third frame is late before it reaches the state, and yet each finds there what the one before it left. */
static void state_is_used_in_frame_order_in(int way) {
  const struct gpu_stage_request requests[] = {backend_fault(FAULT_DELAY, 0, 3, 2), {.own = &last}, backend_affine(1, 0)};
  enum { SLOTS = 4, FRAMES = 200 };
  backend_open_in(way, SLOTS, 32, requests, 3);
  for (int session = 0; session < 3; session++) {
    for (uint64_t frame = 0; frame < FRAMES + SLOTS; frame++) {
      unsigned slot = frame % SLOTS;
      if (frame >= SLOTS) {
        rig_finish(&rig, slot);
        ck_assert_uint_eq(first_number(rig.output[slot]), frame - SLOTS == 0 ? 0 : frame - SLOTS + 99);
      }
      if (frame < FRAMES) {
        uint64_t tag = frame + 100;
        memcpy(rig.input[slot], &tag, sizeof tag);
        rig_submit(&rig, slot, frame, session == 2 ? !rig.options.notify : rig.options.notify);
      }
    }
  }
  rig_close(&rig);
}

START_TEST(state_is_used_in_frame_order) {
  backend_in_ways("state_is_used_in_frame_order", state_is_used_in_frame_order_in, 0, BACKEND_WAYS);
}
END_TEST

/* Many frames in a row, longer than the kernel stays at a time, and now and then a pause in which it leaves; some are launched,
 * some wake. */
START_TEST(a_kernel_that_stays) {
  static const unsigned sides[] = {1, 5, 64, 255, 256};
  const struct gpu_stage_request requests[] = {backend_affine(2, 1), backend_affine(1, 3)};
  enum { SLOTS = 3, FRAMES = 6000 };
  static unsigned char expected[GPU_MOST_RESIDENT];
  for (unsigned side = 0; side < sizeof sides / sizeof sides[0]; side++) {
    int wakes = 0;
    struct gpu_error error;
    backend_open_resident(SLOTS, sides[side], requests, 2);
    for (uint64_t frame = 0; frame < FRAMES + SLOTS; frame++) {
      unsigned slot = (unsigned)(frame % SLOTS);
      if (frame >= SLOTS) {
        rig_finish(&rig, slot);
        memset(expected, (int)((frame - SLOTS) % 100 * 2 + 4), rig.output_bytes);
        ck_assert_mem_eq(rig.output[slot], expected, rig.output_bytes);
      }
      memset(rig.input[slot], (int)(frame % 100), rig.input_bytes);
      if (frame < FRAMES) {
        rig_submit(&rig, slot, frame, frame % 1000 == 999);
        wakes += frame % 1000 == 999;
      }
      if (frame < FRAMES && frame % 1000 == 500) {
        ck_assert_msg(gpu_arm(rig.program, slot, &error), "%s", error.text);
        rig_wait_for_wakes(&rig, ++wakes);
        ck_assert_int_eq(gpu_told(rig.program, slot), GPU_DONE);
      }
    }
    rig_close(&rig);
  }
}
END_TEST

void backend_add_frames(TCase *group) {
  tcase_add_test(group, the_device_describes_itself);
  tcase_add_test(group, frames_are_computed);
  tcase_add_test(group, callbacks_tell);
  tcase_add_test(group, arming_wakes);
  tcase_add_test(group, late_callbacks_tell_nothing_of_the_next_frame);
  tcase_add_test(group, state_is_used_in_frame_order);
  tcase_add_test(group, a_kernel_that_stays);
}
