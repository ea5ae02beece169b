/* Devices that are joined, on a real GPU: two of them, or one that is opened twice. */
#include "tests/gpu/backend.h"

#include <stdio.h>
#include <string.h>

enum { SIDE = 256, SLOTS = 5, FRAMES = 200 };

static struct gpu_device *members[2];
static struct gpu_error error;

static void open_joined(void) {
  members[0] = gpu_open(GPU_BACKEND_CUDA, 0, 0, &error);
  members[1] = gpu_open(GPU_BACKEND_CUDA, gpu_count(GPU_BACKEND_CUDA, 1) > 1, 0, &error);
  ck_assert_msg(members[0] && members[1], "%s: %s", error.text, error.remedy);
  rig.device = gpu_join(members, 2, &error);
  ck_assert_ptr_nonnull(rig.device);
}

static void compute_frames(const struct gpu_options *options) {
  const struct gpu_stage_request request = backend_affine(1, 3);
  rig.options = *options;
  rig_program_of(&rig, SLOTS, backend_chain(format_image(PIXELS_GRAY, SIDE, SIDE), &request, 1));
  ck_assert_msg(gpu_program_warm_up(rig.program, &error), "%s", error.text);
  for (unsigned frame = 0; frame < FRAMES + SLOTS; frame++) {
    unsigned slot = frame % SLOTS;
    struct gpu_times times;
    if (frame >= SLOTS) {
      rig_finish(&rig, slot);
      ck_assert_uint_eq(rig.output[slot][0], (frame - SLOTS) % 250 + 3);
      ck_assert_uint_eq(rig.output[slot][SIDE * SIDE - 1], (frame - SLOTS) % 250 + 3);
      ck_assert(options->timed_one_in != 1 || (gpu_times(rig.program, slot, &times) && times.h2d > 0));
    }
    if (frame < FRAMES) {
      memset(rig.input[slot], (int)(frame % 250), rig.input_bytes);
      rig_submit(&rig, slot, frame, options->notify);
    }
  }
  rig_free_program(&rig);
}

/* Memory that one of them has registered is copied by all of them, whichever way. */
START_TEST(joined_devices_compute_frames) {
  static const struct gpu_options ways[] = {
      {.graph = GPU_GRAPH_OFF, .timed_one_in = 1},
      {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .notify = true, .copy = GPU_COPY_ENGINE},
      {.graph = GPU_GRAPH_ON, .timed_one_in = GPU_TIMED_NEVER, .copy = GPU_COPY_KERNEL},
      {.notify = true, .weigh = true},
      {.timed_one_in = GPU_TIMED_NEVER, .resident = true, .linger_ns = 100000},
  };
  open_joined();
  for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
    printf("joined devices: way %zu\n", way);
    compute_frames(&ways[way]);
  }
  rig_close(&rig);
  for (unsigned i = 0; i < 2; i++) {
    members[i] = gpu_close(members[i]);
  }
}
END_TEST

/* Where they are two: an illegal access on the second one is found there. The driver may let all of the process's contexts go
 * with it. */
START_TEST(one_of_two_dies) {
  const struct gpu_stage_request request = backend_fault(FAULT_ILLEGAL, 1, 0, 0);
  if (gpu_count(GPU_BACKEND_CUDA, 1) < 2) {
    printf("one of two devices dies: there is one\n");
    return;
  }
  open_joined();
  rig.options = (struct gpu_options){.graph = GPU_GRAPH_OFF};
  rig_program_of(&rig, 2, backend_chain(format_image(PIXELS_GRAY, SIDE, SIDE), &request, 1));
  ck_assert_msg(gpu_program_warm_up(rig.program, &error), "%s", error.text);
  rig_submit(&rig, 0, 0, false);
  rig_finish(&rig, 0);
  rig_submit(&rig, 1, 1, false);
  ck_assert_int_eq(rig_wait(&rig, 1, &error), GPU_DEAD);
  ck_assert(gpu_is_lost(members[1]) && !gpu_is_lost(members[0]));
}
END_TEST

void backend_add_joint(TCase *group) {
  tcase_add_test(group, joined_devices_compute_frames);
  tcase_add_test(group, one_of_two_dies);
}
