/* The CPU backend: completion, ends, the device. */
#include "tests/unit/gpu/rig.h"

#include <check.h>
#include <string.h>

static struct rig rig;

static const struct stage_descriptor *const nothing[] = {NULL};
static const struct stage_descriptor *const gated[] = {&rig_gate, NULL};

static uint64_t first_number(const unsigned char *bytes) {
  uint64_t number;
  memcpy(&number, bytes, sizeof number);
  return number;
}

/* -- completion --------------------------------------------------------------------------------------------------- */

START_TEST(wakes_once_for_each_frame_that_asked) {
  enum { FRAMES = 200 };
  rig_open(&rig, 2);
  rig_program(&rig, 2, nothing);
  for (int frame = 0; frame < FRAMES; frame++) {
    rig_submit(&rig, (unsigned)frame % 2, (uint64_t)frame, frame % 4 == 0);
    rig_finish(&rig, (unsigned)frame % 2);
  }
  rig_wait_for_wakes(&rig, FRAMES / 4);
  rig_free_program(&rig); /* waits for wakes under way */
  ck_assert_int_eq(atomic_load(&rig.wakes), FRAMES / 4);
  rig_close(&rig);
}
END_TEST

/* Check, arm, check, sleep: the wake comes although the frame did not ask for one. */
START_TEST(arming_a_running_frame_wakes) {
  rig_open(&rig, 1);
  rig_program(&rig, 1, gated);
  struct gpu_error error;
  rig_submit(&rig, 0, 0, false);
  ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_PENDING);
  ck_assert(gpu_arm(rig.program, 0, &error));
  ck_assert(gpu_arm(rig.program, 0, &error)); /* once more changes nothing */
  ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_PENDING);
  ck_assert_int_eq(atomic_load(&rig.wakes), 0);
  rig_gate_set(true);
  rig_wait_for_wakes(&rig, 1);
  ck_assert_int_eq(gpu_told(rig.program, 0), GPU_DONE);
  rig_free_program(&rig);
  ck_assert_int_eq(atomic_load(&rig.wakes), 1);
  rig_close(&rig);
}
END_TEST

/* Whoever arms and then asks never sleeps for good: either asking says DONE, or a wake comes. */
START_TEST(arming_never_loses_a_frame) {
  enum { FRAMES = 3000 };
  int expected = 0;
  rig_open(&rig, 1);
  rig_program(&rig, 1, nothing);
  for (uint64_t frame = 0; frame < FRAMES; frame++) {
    struct gpu_error error;
    rig_submit(&rig, 0, frame, false);
    for (volatile uint64_t spin = 0; spin < frame % 300; spin++) {
    }
    int before = atomic_load(&rig.wakes);
    ck_assert(gpu_arm(rig.program, 0, &error));
    if (gpu_ask(rig.program, 0, &error) == GPU_PENDING) {
      expected++;
      rig_wait_for_wakes(&rig, before + 1);
    }
    rig_finish(&rig, 0);
  }
  rig_free_program(&rig);
  ck_assert_int_ge(atomic_load(&rig.wakes), expected);
  rig_close(&rig);
}
END_TEST

START_TEST(times_follow_the_frame) {
  const struct stage_descriptor *const stages[] = {&rig_jitter, &rig_count, &rig_jitter, NULL};
  rig_open(&rig, 2);
  rig_program(&rig, 3, stages);
  for (unsigned slot = 0; slot < 3; slot++) {
    rig_submit(&rig, slot, slot, slot == 1);
  }
  for (unsigned slot = 0; slot < 3; slot++) {
    struct gpu_times times;
    rig_finish(&rig, slot);
    ck_assert(gpu_times(rig.program, slot, &times));
    ck_assert_int_gt(times.begin, 0);
    ck_assert_int_ge(times.copied_in, times.begin);
    ck_assert_int_ge(times.computed, times.copied_in);
    ck_assert_int_ge(times.copied_out, times.computed);
    ck_assert_int_ge(times.kernel, 0);
    ck_assert_int_ge(times.wait, 0);
    ck_assert_int_eq(times.h2d + times.d2h, 0);
    ck_assert_int_eq(times.kernel + times.wait, times.copied_out - times.begin);
  }
  rig_close(&rig);
}
END_TEST

/* A stage that takes frames over. */
static int64_t handed_deadline;

static bool keep_format(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)plan, (void)values, (void)problem;
  return true;
}

static bool joins(const struct stage_plan *plan) {
  (void)plan;
  return true;
}

static void *join(struct gpu_device *device, const struct stage_plan *plan, struct gpu_error *error) {
  (void)device, (void)plan, (void)error;
  return &handed_deadline;
}

static void leave(void *joined) { ck_assert_ptr_eq(joined, &handed_deadline); }

static void hand(struct stage_call *call) {
  memcpy(call->output, call->input, RIG_WIDTH);
  handed_deadline = call->deadline;
  call->resume(call);
}

static const struct stage_descriptor handing = {
    STAGE_UNLISTED("handing"), .prepare = keep_format, .joins = joins, .join = join, .leave = leave, .hand = hand};

START_TEST(a_stage_knows_how_long_it_may_keep_a_frame) {
  const struct stage_descriptor *const stages[] = {&handing, NULL};
  const struct gpu_frame frame = {.sequence = 1, .deadline = INT64_MAX - 1};
  struct gpu_error error;
  rig_open(&rig, 1);
  rig_program(&rig, 1, stages);
  ck_assert(gpu_submit(rig.program, 0, &frame, &error));
  rig_finish(&rig, 0);
  ck_assert(handed_deadline == frame.deadline);
  rig_close(&rig);
}
END_TEST

/* -- ends --------------------------------------------------------------------------------------------------------- */

START_TEST(freeing_finishes_what_is_under_way) {
  const struct stage_descriptor *const stages[] = {&rig_jitter, &rig_count, &rig_increment, NULL};
  for (int round = 0; round < 20; round++) {
    rig_open(&rig, 2);
    rig_program(&rig, 4, stages);
    for (unsigned slot = 0; slot < 4; slot++) {
      rig_submit(&rig, slot, slot, true);
    }
    rig.program = gpu_program_free(rig.program);
    ck_assert_int_eq(atomic_load(&rig.wakes), 4);
    for (unsigned slot = 0; slot < 4; slot++) {
      ck_assert_uint_eq(rig.output[slot][RIG_WIDTH - 1], 1);
    }
    rig_close(&rig);
  }
}
END_TEST

START_TEST(warming_up_leaves_no_trace) {
  const struct stage_descriptor *const stages[] = {&rig_count, NULL};
  struct gpu_error error;
  rig_open(&rig, 2);
  rig_program(&rig, 3, stages);
  ck_assert(gpu_program_warm_up(rig.program, &error));
  ck_assert_int_eq(atomic_load(&rig.wakes), 0);
  rig_submit(&rig, 0, 0, false);
  rig_finish(&rig, 0);
  ck_assert_uint_eq(first_number(rig.output[0]), 0);
  rig_close(&rig);
}
END_TEST

START_TEST(a_frame_is_weighed_alone) {
  const struct stage_descriptor *const stages[] = {&rig_count, NULL};
  struct gpu_error error;
  struct gpu_costs costs;
  rig_open(&rig, 2);
  rig.options.weigh = true;
  rig_program(&rig, 3, stages);
  ck_assert(gpu_program_warm_up(rig.program, &error));
  gpu_program_costs(rig.program, &costs);
  ck_assert(costs.lane > 0 && costs.lane <= costs.alone && costs.kernel > 0 && costs.kernel <= costs.alone);
  ck_assert_int_eq(costs.h2d + costs.d2h + costs.shared_h2d + costs.shared_d2h + costs.kernels, 0);
  rig_submit(&rig, 0, 0, false);
  rig_finish(&rig, 0);
  ck_assert_uint_eq(first_number(rig.output[0]), 0);
  rig_close(&rig);
}
END_TEST

/* The lane gives a device up: nothing is done on it any more, and freeing waits only for what runs. */
START_TEST(an_abandoned_device_is_dead) {
  struct gpu_error error;
  struct gpu_frame frame = {.sequence = 2};
  rig_open(&rig, 1);
  rig_program(&rig, 2, gated);
  rig_submit(&rig, 0, 0, true);
  rig_submit(&rig, 1, 1, true);
  gpu_abandon(rig.device, "no completion for 2 s");
  gpu_abandon(rig.device, "a second reason");
  ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_DEAD);
  ck_assert_str_eq(error.text, "no completion for 2 s");
  ck_assert_int_eq(gpu_told(rig.program, 0), GPU_PENDING);
  ck_assert(!gpu_submit(rig.program, 0, &frame, &error));
  ck_assert_str_eq(error.text, "no completion for 2 s");
  ck_assert(!gpu_arm(rig.program, 1, &error));
  ck_assert_int_eq(gpu_anchor(rig.device, &error), GPU_DEAD);
  ck_assert(!gpu_pin(rig.device, rig.input[0], RIG_WIDTH, &error));
  ck_assert(!gpu_program_warm_up(rig.program, &error));
  ck_assert_ptr_null(gpu_program_new(rig.device, rig.chain, &(struct gpu_buffers){0}, 1, &(struct gpu_options){0}, &error));
  rig_gate_set(true);
  rig_free_program(&rig);
  ck_assert_int_eq(atomic_load(&rig.wakes), 0);
  rig_close(&rig);
}
END_TEST

/* -- the device --------------------------------------------------------------------------------------------------- */

START_TEST(the_device_describes_itself) {
  struct gpu_error error;
  size_t available, total;
  rig_open(&rig, 0);
  ck_assert_str_eq(gpu_backend_name(rig.device), "cpu");
  ck_assert_uint_gt(strlen(gpu_device_name(rig.device)), 0);
  ck_assert(gpu_memory(rig.device, &available, &total));
  ck_assert_uint_gt(available, 0);
  ck_assert_uint_ge(total, available);
  ck_assert_int_eq(gpu_anchor(rig.device, &error), GPU_DONE);
  unsigned char byte;
  ck_assert(gpu_pin(rig.device, &byte, 1, &error));
  struct gpu_usage usage;
  gpu_usage(rig.device, &usage);
  ck_assert_uint_eq(usage.pinned, 1);
  ck_assert_uint_eq(usage.allocated, 0); /* its memory is the host's */
  gpu_unpin(rig.device, &byte, 1);
  gpu_usage(rig.device, &usage);
  ck_assert_uint_eq(usage.pinned, 0);
  rig_close(&rig);
}
END_TEST

START_TEST(programs_that_cannot_be_are_refused) {
  struct gpu_error error;
  struct gpu_buffers buffers[GPU_MAX_SLOTS + 1];
  rig_open(&rig, 1);
  rig_program(&rig, 1, nothing);
  for (int i = 0; i <= GPU_MAX_SLOTS; i++) {
    buffers[i] = (struct gpu_buffers){.input = rig.input[0], .output = rig.output[0]};
  }
  ck_assert_ptr_null(gpu_program_new(rig.device, rig.chain, buffers, 0, &(struct gpu_options){0}, &error));
  ck_assert_ptr_null(gpu_program_new(rig.device, rig.chain, buffers, GPU_MAX_SLOTS + 1, &(struct gpu_options){0}, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "17"));
  buffers[1].output = rig.output[0] + 8;
  ck_assert_ptr_null(gpu_program_new(rig.device, rig.chain, buffers, 2, &(struct gpu_options){0}, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "aligned"));
  rig_close(&rig);
}
END_TEST

START_TEST(freeing_nothing_is_fine) {
  ck_assert_ptr_null(gpu_program_free(NULL));
  ck_assert_ptr_null(gpu_chain_free(NULL));
  ck_assert_ptr_null(gpu_close(NULL));
}
END_TEST

Suite *cpu_suite(void);

static void add(Suite *suite, const char *name, const TTest *const *tests) {
  TCase *group = tcase_create(name);
  tcase_set_timeout(group, RIG_PATIENCE_S + 60);
  for (; *tests; tests++) {
    tcase_add_test(group, *tests);
  }
  suite_add_tcase(suite, group);
}

Suite *cpu_suite(void) {
  Suite *suite = suite_create("cpu");
  add(suite, "completion",
      (const TTest *const[]){wakes_once_for_each_frame_that_asked, arming_a_running_frame_wakes, arming_never_loses_a_frame,
                             times_follow_the_frame, a_stage_knows_how_long_it_may_keep_a_frame, NULL});
  add(suite, "ends",
      (const TTest *const[]){freeing_finishes_what_is_under_way, warming_up_leaves_no_trace, a_frame_is_weighed_alone,
                             an_abandoned_device_is_dead, NULL});
  add(suite, "device",
      (const TTest *const[]){the_device_describes_itself, programs_that_cannot_be_are_refused, freeing_nothing_is_fine, NULL});
  return suite;
}
