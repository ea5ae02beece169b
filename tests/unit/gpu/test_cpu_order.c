/* The CPU backend: stages one after another, slots side by side, state in the order of frames. */
#include "tests/unit/gpu/rig.h"

#include <check.h>
#include <string.h>

static struct rig rig;

static uint64_t first_number(const unsigned char *bytes) {
  uint64_t number;
  memcpy(&number, bytes, sizeof number);
  return number;
}

START_TEST(no_stage_passes_frames_unchanged) {
  rig_open(&rig, 1);
  rig_program(&rig, 1, (const struct stage_descriptor *const[]){NULL});
  memset(rig.input[0], 77, rig.input_bytes);
  rig_submit(&rig, 0, 0, false);
  rig_finish(&rig, 0);
  ck_assert_mem_eq(rig.output[0], rig.input[0], rig.input_bytes);
  rig_close(&rig);
}
END_TEST

/* Any number of stages: the result lies in the output whichever buffer they end in, and the input is untouched. */
START_TEST(stages_run_one_after_the_other) {
  const struct stage_descriptor *stages[GPU_MAX_STAGES + 1] = {NULL};
  for (int i = 0; i < _i; i++) {
    stages[i] = &rig_increment;
  }
  rig_open(&rig, 2);
  rig_program(&rig, 2, stages);
  for (unsigned slot = 0; slot < 2; slot++) {
    memset(rig.input[slot], (int)(100 * slot), rig.input_bytes);
    rig_submit(&rig, slot, slot, false);
  }
  for (unsigned slot = 0; slot < 2; slot++) {
    rig_finish(&rig, slot);
    ck_assert_uint_eq(rig.input[slot][RIG_WIDTH - 1], 100 * slot);
    ck_assert_uint_eq(rig.output[slot][0], 100 * slot + (unsigned)_i);
    ck_assert_uint_eq(rig.output[slot][RIG_WIDTH - 1], 100 * slot + (unsigned)_i);
  }
  rig_close(&rig);
}
END_TEST

/* Each of the two frames ends only if the other one runs at the same time. */
START_TEST(slots_overlap) {
  const struct stage_descriptor *const stages[] = {&rig_meet, NULL};
  rig_open(&rig, 2);
  rig_program(&rig, 2, stages);
  rig_submit(&rig, 0, 0, false);
  rig_submit(&rig, 1, 1, false);
  rig_finish(&rig, 0);
  rig_finish(&rig, 1);
  rig_close(&rig);
}
END_TEST

/* Frames enter the stage with state at odd moments, and still count up without a gap. _i is the number of workers. */
START_TEST(state_is_used_in_frame_order) {
  const struct stage_descriptor *const stages[] = {&rig_jitter, &rig_count, &rig_jitter, NULL};
  enum { SLOTS = 4, FRAMES = 400 };
  rig_open(&rig, (unsigned)_i);
  rig_program(&rig, SLOTS, stages);
  for (uint64_t frame = 0; frame < FRAMES + SLOTS; frame++) {
    unsigned slot = frame % SLOTS;
    if (frame >= SLOTS) {
      rig_finish(&rig, slot);
      ck_assert_uint_eq(first_number(rig.output[slot]), frame - SLOTS);
    }
    if (frame < FRAMES) {
      rig_submit(&rig, slot, frame, frame % 3 == 0);
    }
  }
  rig_close(&rig);
}
END_TEST

START_TEST(restart_empties_the_state) {
  const struct stage_descriptor *const stages[] = {&rig_count, &rig_jitter, &rig_count, NULL};
  rig_open(&rig, 2);
  rig_program(&rig, 2, stages);
  for (int session = 0; session < 3; session++) {
    for (uint64_t frame = 0; frame < 10; frame++) {
      rig_submit(&rig, frame % 2, frame, false);
      rig_finish(&rig, frame % 2);
      ck_assert_uint_eq(first_number(rig.output[frame % 2]), frame);
    }
  }
  rig_close(&rig);
}
END_TEST

/* Of two workers one is stuck in the first frame; the second frame waits for its turn, and takes none. */
START_TEST(parked_frames_take_no_worker) {
  const struct stage_descriptor *const ordered[] = {&rig_gate, &rig_count, NULL};
  const struct stage_descriptor *const other[] = {&rig_increment, NULL};
  struct rig second = {0};
  rig_open(&rig, 2);
  rig_program(&rig, 3, ordered);
  second.device = rig.device;
  rig_program(&second, 1, other);
  for (unsigned slot = 0; slot < 3; slot++) {
    rig_submit(&rig, slot, slot, false);
  }
  rig_submit(&second, 0, 0, false);
  rig_finish(&second, 0);
  rig_gate_set(true);
  for (unsigned slot = 0; slot < 3; slot++) {
    rig_finish(&rig, slot);
    ck_assert_uint_eq(first_number(rig.output[slot]), slot);
  }
  rig_free_program(&second);
  rig_close(&rig);
}
END_TEST

/* Tells whether the frame was its session's first, and counts those that it sees. */
static atomic_uint noted;

static void note(const struct stage_plan *plan, const struct stage_call *call) {
  memset(call->output, call->restart ? 'r' : '.', plan->output_bytes);
  atomic_fetch_add(&noted, 1);
}

static bool prepare_note(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)values;
  (void)problem;
  plan->output = plan->input;
  plan->state_bytes = 1;
  return true;
}

static const struct stage_descriptor note_stage = {STAGE_UNLISTED("note"), .prepare = prepare_note, .run = note};

/* A session's first frame comes too late, and the second takes its place as such; one in time is computed. */
START_TEST(late_frames_are_left_out) {
  const struct stage_descriptor *const stages[] = {&note_stage, NULL};
  struct gpu_error error;
  const struct gpu_frame late = {.sequence = 0, .restart = true, .deadline = 1};
  const struct gpu_frame timely = {.sequence = 1, .deadline = INT64_MAX};
  rig_open(&rig, 1);
  rig_program(&rig, 3, stages);
  atomic_store(&noted, 0); /* after the warm-up */
  ck_assert(gpu_submit(rig.program, 0, &late, &error) && gpu_submit(rig.program, 1, &timely, &error));
  rig_submit(&rig, 2, 2, false);
  for (unsigned slot = 0; slot < 3; slot++) {
    rig_finish(&rig, slot);
    ck_assert_int_eq(gpu_late(rig.program, slot), slot == 0);
    ck_assert_ptr_null(gpu_refusal(rig.program, slot));
  }
  ck_assert_uint_eq(atomic_load(&noted), 2);
  ck_assert_int_eq(rig.output[1][0], 'r');
  ck_assert_int_eq(rig.output[2][0], '.');
  rig_submit(&rig, 0, 3, false); /* the slot is as good as ever */
  rig_finish(&rig, 0);
  ck_assert(!gpu_late(rig.program, 0));
  rig_close(&rig);
}
END_TEST

START_TEST(many_programs_share_the_workers) {
  enum { PROGRAMS = 12, SLOTS = 3, FRAMES = 60 };
  static struct rig rigs[PROGRAMS];
  const struct stage_descriptor *const stages[] = {&rig_increment, &rig_count, &rig_increment, NULL};
  rig_open(&rig, 2);
  for (int i = 0; i < PROGRAMS; i++) {
    rigs[i] = (struct rig){.device = rig.device};
    rig_program(&rigs[i], SLOTS, stages);
  }
  for (unsigned frame = 0; frame < FRAMES; frame++) {
    for (int i = 0; i < PROGRAMS; i++) {
      if (frame >= SLOTS) {
        rig_finish(&rigs[i], frame % SLOTS);
      }
      memset(rigs[i].input[frame % SLOTS], i, RIG_WIDTH);
      rig_submit(&rigs[i], frame % SLOTS, frame, false);
    }
  }
  for (int i = 0; i < PROGRAMS; i++) {
    for (unsigned slot = 0; slot < SLOTS; slot++) {
      rig_finish(&rigs[i], slot);
      ck_assert_uint_eq(rigs[i].output[slot][RIG_WIDTH - 1], (unsigned)i + 2);
    }
    rig_free_program(&rigs[i]);
  }
  rig_close(&rig);
}
END_TEST

Suite *cpu_order_suite(void);

Suite *cpu_order_suite(void) {
  const TTest *const tests[] = {no_stage_passes_frames_unchanged, slots_overlap,
                                restart_empties_the_state,        parked_frames_take_no_worker,
                                late_frames_are_left_out,         many_programs_share_the_workers};
  TCase *group = tcase_create("order");
  tcase_set_timeout(group, RIG_PATIENCE_S + 60);
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
    tcase_add_test(group, tests[i]);
  }
  tcase_add_loop_test(group, stages_run_one_after_the_other, 0, GPU_MAX_STAGES + 1);
  tcase_add_loop_test(group, state_is_used_in_frame_order, 1, 5);
  Suite *suite = suite_create("cpu order");
  suite_add_tcase(suite, group);
  return suite;
}
