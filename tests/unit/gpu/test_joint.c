/* Devices of the CPU backend that are joined: whose slots are whose, what one that dies means for the others, and the warm-up.
 */
#include "tests/unit/gpu/rig.h"

#include <check.h>
#include <string.h>

enum { DEVICES = 3 };

static struct rig rig;
static struct gpu_device *members[DEVICES];
static struct gpu_error error;

static void join_devices(unsigned slots, const struct stage_descriptor *stage) {
  const struct stage_descriptor *const stages[] = {stage, NULL};
  rig = (struct rig){0};
  for (unsigned i = 0; i < DEVICES; i++) {
    members[i] = gpu_open(GPU_BACKEND_CPU, i, 1, &error);
    ck_assert_ptr_nonnull(members[i]);
  }
  rig.device = gpu_join(members, DEVICES, &error);
  ck_assert_ptr_nonnull(rig.device);
  rig_program(&rig, slots, stages);
}

static void part(void) {
  rig_close(&rig);
  for (unsigned i = 0; i < DEVICES; i++) {
    members[i] = gpu_close(members[i]);
  }
}

/* Also with fewer slots than devices, and where some have a slot more. */
START_TEST(every_slot_computes_its_frames) {
  const unsigned slots = (unsigned)_i;
  join_devices(slots, &rig_increment);
  ck_assert_str_eq(gpu_backend_name(rig.device), "cpu");
  ck_assert(gpu_program_warm_up(rig.program, &error));
  for (uint64_t frame = 0; frame < 40; frame++) {
    unsigned slot = (unsigned)(frame % slots);
    struct gpu_times times;
    if (frame >= slots) {
      rig_finish(&rig, slot);
      ck_assert_uint_eq(rig.output[slot][RIG_WIDTH - 1], frame - slots + 1);
      ck_assert(gpu_times(rig.program, slot, &times) && times.begin > 0);
      ck_assert(!gpu_refusal(rig.program, slot) && !gpu_late(rig.program, slot));
    }
    memset(rig.input[slot], (int)frame, rig.input_bytes);
    rig_submit(&rig, slot, frame, frame % 2);
  }
  part();
}
END_TEST

/* Frame 0 keeps the only worker of its device, and whatever is there behind it. */
START_TEST(devices_go_on_beside_each_other) {
  join_devices(6, &rig_gate);
  for (unsigned slot = 0; slot < 6; slot++) {
    rig_submit(&rig, slot, slot, true);
  }
  for (unsigned slot = 0; slot < 6; slot++) {
    if (slot % DEVICES != 0) {
      rig_finish(&rig, slot);
    }
  }
  rig_wait_for_wakes(&rig, 4);
  ck_assert_int_eq(gpu_told(rig.program, 0), GPU_PENDING);
  ck_assert_int_eq(gpu_told(rig.program, 3), GPU_PENDING);
  rig_gate_set(true);
  rig_finish(&rig, 0);
  rig_finish(&rig, 3);
  rig_gate_set(false);
  part();
}
END_TEST

START_TEST(a_device_that_dies_says_so_for_its_own_slots) {
  const struct gpu_frame next = {.sequence = 9};
  join_devices(6, &rig_increment);
  gpu_abandon(members[1], "it hangs");
  for (unsigned slot = 0; slot < 6; slot++) {
    bool dead = slot % DEVICES == 1;
    ck_assert_int_eq(gpu_submit(rig.program, slot, &next, &error), !dead);
    ck_assert_int_eq(gpu_arm(rig.program, slot, &error), !dead);
    ck_assert_int_eq(rig_wait(&rig, slot, &error), dead ? GPU_DEAD : GPU_DONE);
    ck_assert(!dead || strcmp(error.text, "it hangs") == 0);
  }
  ck_assert(gpu_is_lost(members[1]) && !gpu_is_lost(members[0]));
  part();
}
END_TEST

START_TEST(no_warm_up_frame_goes_through_a_spared_slot) {
  const struct stage_descriptor *const stages[] = {&rig_increment, NULL};
  join_devices(5, &rig_increment);
  rig_free_program(&rig);
  rig.options.spared = 1U << 1 | 1U << 3;
  rig_program(&rig, 5, stages);
  ck_assert(gpu_program_warm_up(rig.program, &error));
  for (unsigned slot = 0; slot < 5; slot++) {
    ck_assert_uint_eq(rig.output[slot][0], slot == 1 || slot == 3 ? 0 : 1);
  }
  part();
}
END_TEST

START_TEST(the_first_one_tells_what_frames_cost) {
  struct gpu_costs costs;
  const struct stage_descriptor *const stages[] = {&rig_increment, NULL};
  join_devices(4, &rig_increment);
  rig_free_program(&rig);
  rig.options.weigh = true;
  rig_program(&rig, 4, stages);
  ck_assert(gpu_program_warm_up(rig.program, &error));
  gpu_program_costs(rig.program, &costs);
  ck_assert_int_gt(costs.alone, 0);
  ck_assert_uint_eq(gpu_program_timed_one_in(rig.program), 1);
  part();
}
END_TEST

START_TEST(a_stage_with_a_state_is_refused) {
  const struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){RIG_WIDTH}, 1);
  const struct gpu_stage_request requests[] = {{.own = &rig_increment}, {.own = &rig_count}};
  const struct gpu_options options = {0};
  join_devices(2, &rig_increment);
  struct gpu_chain *chain = gpu_chain_new(&format, requests, 2, &error);
  const struct gpu_buffers slots[2] = {{rig.input[0], rig.output[0]}, {rig.input[1], rig.output[1]}};
  ck_assert_ptr_null(gpu_program_new(rig.device, chain, slots, 2, &options, &error));
  ck_assert_int_eq(error.stage, 1);
  ck_assert_ptr_nonnull(strstr(error.text, "goes from each frame to the next one"));
  gpu_chain_free(chain);
  part();
}
END_TEST

Suite *joint_suite(void);
Suite *joint_suite(void) {
  Suite *suite = suite_create("joint");
  TCase *all = tcase_create("all");
  tcase_set_timeout(all, RIG_PATIENCE_S);
  tcase_add_loop_test(all, every_slot_computes_its_frames, 1, 9);
  tcase_add_test(all, devices_go_on_beside_each_other);
  tcase_add_test(all, a_device_that_dies_says_so_for_its_own_slots);
  tcase_add_test(all, no_warm_up_frame_goes_through_a_spared_slot);
  tcase_add_test(all, the_first_one_tells_what_frames_cost);
  tcase_add_test(all, a_stage_with_a_state_is_refused);
  suite_add_tcase(suite, all);
  return suite;
}
