/*
 * The CUDA backend on a real GPU. Each test is a process of its own (Check forks before anything touched CUDA), so a
 * device that dies in one is alive in the next. What takes a process longest is making its CUDA context, so a test that
 * leaves the device alive tries all ways in one process, and says which it is in. Exit status 77 where there is no GPU.
 */
#include "gpu/backend.h"
#include "gpu/stages/fault.h"
#include "tests/unit/gpu/rig.h"

#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NO_GPU = 77, HANG_IS_OVER = 42, MILLION_PIXELS = 1024 };

static struct rig rig;

/* Ways in which frames go to the device: step by step, their copies in order or not, and replayed, copied by engines, kernels
 * or whichever is better, asked for and told. */
static const struct gpu_options ways[] = {
    {.graph = GPU_GRAPH_OFF, .timed_one_in = 1},
    {.graph = GPU_GRAPH_OFF, .timed_one_in = GPU_TIMED_NEVER, .notify = true, .order = GPU_ORDER_ON},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .copy = GPU_COPY_ENGINE},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .notify = true},
    {.graph = GPU_GRAPH_ON, .timed_one_in = GPU_TIMED_NEVER, .copy = GPU_COPY_ENGINE},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 2, .notify = true},
    {.graph = GPU_GRAPH_AUTO},
    {.graph = GPU_GRAPH_AUTO, .notify = true},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .order = GPU_ORDER_ON},
    {.graph = GPU_GRAPH_ON, .timed_one_in = GPU_TIMED_NEVER, .notify = true, .order = GPU_ORDER_ON},
    {.graph = GPU_GRAPH_ON, .timed_one_in = GPU_TIMED_NEVER, .copy = GPU_COPY_KERNEL},
    {.graph = GPU_GRAPH_ON, .timed_one_in = 1, .notify = true, .copy = GPU_COPY_KERNEL},
};
enum { WAYS = sizeof ways / sizeof ways[0], PLAIN = 0 };

/* Runs the test in those ways; the line tells where it is, should it not end. */
static void in_ways(const char *test, void (*run)(int way), int from, int to) {
  for (int way = from; way < to; way++) {
    printf("%s: way %d of %d\n", test, way, WAYS);
    run(way);
  }
}

/* -- stages of this test ------------------------------------------------------------------------------------------ */

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

static const struct stage_descriptor last = {.name = "last", .prepare = keep_last, .enqueue = give_last};

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

static const struct stage_descriptor unlaunchable = {.name = "unlaunchable", .prepare = keep, .enqueue = refuse_launch};
static const struct stage_descriptor cpu_only = {.name = "cpu_only", .prepare = keep};

/* -- making programs ---------------------------------------------------------------------------------------------- */

static struct gpu_stage_request affine(double scale, double offset) {
  return (struct gpu_stage_request){.stage = stage_find("affine"),
                                    .values = {{.count = 1, .numbers = {scale}}, {.count = 1, .numbers = {offset}}}};
}

static struct gpu_stage_request fault(enum fault_kind kind, double at, double every, double ms) {
  return (struct gpu_stage_request){
      .stage = stage_find("fault"),
      .values = {{.numbers = {kind}}, {.numbers = {at}}, {.numbers = {every}}, {.numbers = {true}}, {.numbers = {ms}}}};
}

static struct gpu_chain *chain_of(struct frame_format format, const struct gpu_stage_request *requests, unsigned count) {
  struct gpu_error error;
  struct gpu_chain *chain = gpu_chain_new(&format, requests, count, &error);
  ck_assert_msg(chain != NULL, "%s", error.text);
  return chain;
}

static void open_in(int way, unsigned slots, unsigned side, const struct gpu_stage_request *requests, unsigned count) {
  struct gpu_error error;
  rig_open_backend(&rig, GPU_BACKEND_CUDA, 0);
  rig.options = ways[way];
  rig.options.weigh = true;
  rig_program_of(&rig, slots, chain_of(format_image(PIXELS_GRAY, side, side), requests, count));
  ck_assert_msg(gpu_program_warm_up(rig.program, &error), "%s", error.text);
  ck_assert_int_eq(atomic_load(&rig.wakes), 0);
  ck_assert(rig.options.graph == GPU_GRAPH_AUTO || gpu_program_graph(rig.program) == (rig.options.graph == GPU_GRAPH_ON));
  bool is_small = side * side <= 256 << 10;
  ck_assert(rig.options.copy == GPU_COPY_AUTO ||
            gpu_program_copies_by_kernel(rig.program) == (is_small && rig.options.copy == GPU_COPY_KERNEL));
}

static void open_with(unsigned slots, unsigned side, const struct gpu_stage_request *requests, unsigned count) {
  open_in(PLAIN, slots, side, requests, count);
}

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
  ck_assert_msg(gpu_anchor(rig.device, &error), "%s", error.text);
  ck_assert_str_eq(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "7");
  printf("on %s, %zu MiB\n", gpu_device_name(rig.device), total >> 20);
  rig_close(&rig);
}
END_TEST

/* Odd and even numbers of stages, so that the result lies in either buffer; told by callback and by asking. */
static void compute_frames(int way, unsigned count) {
  const struct gpu_stage_request requests[] = {affine(2, 1), affine(1, 3), affine(1, 0)};
  const unsigned add[] = {0, 1, 4, 4}, scale[] = {1, 2, 2, 2};
  open_in(way, 3, 37, requests, count);
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

START_TEST(frames_are_computed) { in_ways("frames_are_computed", frames_are_computed_in, 0, WAYS); }
END_TEST

/* All slots full before the first is awaited, in order, as a lane does; told only. */
static void callbacks_tell_in(int way) {
  open_in(way, GPU_MAX_SLOTS, 256, (struct gpu_stage_request[]){affine(1, 1)}, 1);
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

START_TEST(callbacks_tell) { in_ways("callbacks_tell", callbacks_tell_in, 0, WAYS); }
END_TEST

static void arming_wakes_in(int way) {
  struct gpu_error error;
  open_in(way, 1, 64, (struct gpu_stage_request[]){fault(FAULT_DELAY, 0, 2, 20)}, 1); /* every other one is replayed */
  for (unsigned frame = 0; frame < 10; frame++) {
    rig_submit(&rig, 0, frame, false);
    ck_assert_int_eq(gpu_told(rig.program, 0), GPU_PENDING); /* it was not asked to tell */
    ck_assert(gpu_arm(rig.program, 0, &error));
    ck_assert(gpu_arm(rig.program, 0, &error));
    rig_wait_for_wakes(&rig, (int)frame + 1);
    ck_assert_int_eq(gpu_told(rig.program, 0), GPU_DONE);
  }
  rig_free_program(&rig);
  ck_assert_int_eq(atomic_load(&rig.wakes), 10);
  rig_close(&rig);
}

START_TEST(arming_wakes) { in_ways("arming_wakes", arming_wakes_in, 0, WAYS); }
END_TEST

/* A frame found done by asking is followed at once by the next one in its slot, while its host function may still
 * run: that function must not tell of the later frame. The later frames take longer than any function. */
static void late_callbacks_tell_nothing_of_the_next_frame_in(int way) {
  struct gpu_error error;
  open_in(way, 1, 64, (struct gpu_stage_request[]){fault(FAULT_DELAY, 1, 2, 5)}, 1);
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
  in_ways("late_callbacks_tell_nothing_of_the_next_frame", late_callbacks_tell_nothing_of_the_next_frame_in, 0, WAYS);
}
END_TEST

/* Every third frame is late before it reaches the state, and yet each finds there what the one before it left. */
static void state_is_used_in_frame_order_in(int way) {
  const struct gpu_stage_request requests[] = {fault(FAULT_DELAY, 0, 3, 2), {.stage = &last}, affine(1, 0)};
  enum { SLOTS = 4, FRAMES = 200 };
  open_in(way, SLOTS, 32, requests, 3);
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

START_TEST(state_is_used_in_frame_order) { in_ways("state_is_used_in_frame_order", state_is_used_in_frame_order_in, 0, WAYS); }
END_TEST

/* Both of many frames are right, those with times and those without; and times are those of a frame alone. */
START_TEST(one_frame_in_some_is_timed) {
  unsigned timed = 0, untimed = 0;
  struct gpu_times times;
  open_in(5, 3, 256, (struct gpu_stage_request[]){affine(1, 1)}, 1);
  for (uint64_t frame = 0; timed < 100 || untimed < 100; frame++) {
    unsigned slot = (unsigned)(frame % 3);
    memset(rig.input[slot], (int)(frame % 200), rig.input_bytes);
    rig_submit(&rig, slot, frame, true);
    rig_finish(&rig, slot);
    ck_assert_uint_eq(rig.output[slot][rig.output_bytes - 1], frame % 200 + 1);
    bool has_times = gpu_times(rig.program, slot, &times);
    ck_assert(!has_times || (times.h2d >= 0 && times.kernel >= 0 && times.d2h >= 0 && times.wait >= 0));
    timed += has_times;
    untimed += !has_times;
  }
  rig_close(&rig);
}
END_TEST

/* What the daemon will do on this device, for whoever reads along. */
static void measure_warm_up(unsigned side, int way) {
  struct gpu_measured measured;
  open_in(way, 3, side, (struct gpu_stage_request[]){affine(1, 1)}, 1);
  gpu_program_measured(rig.program, &measured);
  bool copied = gpu_program_copies_by_kernel(rig.program);
  printf("%u bytes, 3 slots, %s: plain %.2f us, graph %.2f us, copied by kernels %.2f us, timed %.2f us and not %.2f us: graph "
         "%d, "
         "copied %d, timed one in %u\n",
         side * side, rig.options.notify ? "callback" : "spin", (double)measured.plain / 1e3, (double)measured.graph / 1e3,
         (double)measured.copied / 1e3, (double)measured.timed / 1e3, (double)measured.untimed / 1e3,
         gpu_program_graph(rig.program), copied, gpu_program_timed_one_in(rig.program));
  double replayed = (double)(copied ? measured.copied : measured.graph);
  ck_assert(!gpu_program_graph(rig.program) || replayed < 1.02 * (double)measured.plain);
  ck_assert_uint_ge(gpu_program_timed_one_in(rig.program), 1);
  struct gpu_costs costs;
  gpu_program_costs(rig.program, &costs);
  printf("  a frame alone %.2f us (%.2f us of them the lane's): copy in %.2f us, kernel %.2f us, copy out %.2f us; with others "
         "%.2f, %.2f, %.2f us\n",
         (double)costs.alone / 1e3, (double)costs.lane / 1e3, (double)costs.h2d / 1e3, (double)costs.kernel / 1e3,
         (double)costs.d2h / 1e3, (double)costs.shared_h2d / 1e3, (double)costs.kernels / 1e3, (double)costs.shared_d2h / 1e3);
  ck_assert(costs.lane > 0 && costs.lane <= costs.alone);
  bool has_engines = !gpu_program_copies_by_kernel(rig.program);
  ck_assert((costs.shared_h2d > 0) == has_engines && (costs.kernels > 0) == has_engines &&
            (costs.shared_d2h > 0) == has_engines);
  ck_assert(costs.h2d + costs.kernel + costs.d2h > 0);
  rig_close(&rig);
}

START_TEST(the_warm_up_measures) {
  static const unsigned sides[] = {64, 256, 1024, 2048};
  for (unsigned i = 0; i < sizeof sides / sizeof sides[0]; i++) {
    measure_warm_up(sides[i], 6);
    measure_warm_up(sides[i], 7);
  }
}
END_TEST

/* -- times -------------------------------------------------------------------------------------------------------- */

/* Device times lie between what the host saw before and after, but for the error of an anchor. */
static void times_are_plausible_in(int way) {
  const int64_t slack = 500000;
  struct gpu_error error;
  open_in(way, 2, MILLION_PIXELS, (struct gpu_stage_request[]){affine(1, 1)}, 1);
  for (unsigned frame = 0; frame < 200; frame++) {
    struct gpu_times times, again;
    unsigned slot = frame % 2;
    int64_t before = gpu_now();
    rig_submit(&rig, slot, frame, rig.options.notify);
    ck_assert_msg(frame % 5 != 0 || gpu_anchor(rig.device, &error), "%s", error.text);
    rig_finish(&rig, slot);
    int64_t after = gpu_now();
    ck_assert(gpu_times(rig.program, slot, &times));
    ck_assert_int_ge(times.begin, before - slack);
    ck_assert_int_le(times.copied_out, after + slack);
    ck_assert_int_ge(times.copied_in, times.begin);
    ck_assert_int_ge(times.computed, times.copied_in);
    ck_assert_int_ge(times.copied_out, times.computed);
    ck_assert_int_gt(times.h2d, 0);
    ck_assert_int_ge(times.kernel, 0); /* hardly longer than an empty one */
    ck_assert_int_gt(times.d2h, 0);
    ck_assert_int_ge(times.wait, 0);
    ck_assert_int_eq(times.h2d + times.kernel + times.d2h + times.wait, times.copied_out - times.begin);
    ck_assert(gpu_times(rig.program, slot, &again));
    ck_assert_int_eq(again.h2d, times.h2d);
  }
  rig_close(&rig);
}

START_TEST(times_are_plausible) {
  in_ways("times_are_plausible", times_are_plausible_in, 2, 4);
  in_ways("times_are_plausible", times_are_plausible_in, PLAIN, PLAIN + 1);
}
END_TEST

/* Two kernels of 50 ms on two slots are on the device at the same time. */
START_TEST(slots_overlap) {
  struct gpu_times first, second;
  open_with(2, 64, (struct gpu_stage_request[]){fault(FAULT_DELAY, 0, 1, 50)}, 1);
  rig_submit(&rig, 0, 0, false);
  rig_submit(&rig, 1, 1, false);
  rig_finish(&rig, 0);
  rig_finish(&rig, 1);
  ck_assert(gpu_times(rig.program, 0, &first));
  ck_assert(gpu_times(rig.program, 1, &second));
  ck_assert_int_lt(second.copied_in, first.computed);
  ck_assert_int_lt(first.copied_in, second.computed);
  ck_assert_int_lt(second.kernel, second.computed - second.copied_in); /* the union counts once */
  rig_close(&rig);
}
END_TEST

/* -- errors ------------------------------------------------------------------------------------------------------- */

START_TEST(what_does_not_fit_leaves_the_device_alive) {
  struct gpu_error error;
  struct frame_format huge = format_tensor(ELEMENT_UINT8, (uint64_t[]){UINT64_C(1) << 40}, 1);
  open_with(1, 64, NULL, 0);
  struct gpu_chain *chain = chain_of(huge, NULL, 0);
  struct gpu_buffers buffers = {.input = rig.input[0], .output = rig.output[0]};
  ck_assert_ptr_null(gpu_program_new(rig.device, chain, &buffers, 1, &(struct gpu_options){0}, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "cudaMalloc"));
  ck_assert_ptr_nonnull(strstr(error.text, "cudaErrorMemoryAllocation"));
  ck_assert_str_ne(error.remedy, "");
  gpu_chain_free(chain);
  chain = chain_of(format_image(PIXELS_GRAY, 8, 8), &(struct gpu_stage_request){.stage = &cpu_only}, 1);
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
  open_with(1, 64, (struct gpu_stage_request[]){affine(1, 0), {.stage = &unlaunchable}}, 2);
  ck_assert(!gpu_submit(rig.program, 0, &frame, &error));
  ck_assert_int_eq(error.stage, 1);
  ck_assert_ptr_nonnull(strstr(error.text, "stages[1] (unlaunchable)"));
  ck_assert(!gpu_anchor(rig.device, &error));
  rig_close(&rig);
}
END_TEST

/* No callback comes; asking finds it; every program on the device is dead, and freeing them does not hang. */
START_TEST(an_illegal_access_is_found_by_asking) {
  struct gpu_error error;
  struct gpu_frame frame = {.sequence = 2, .notify = true};
  struct rig other = {0};
  open_in(_i, 2, 64, (struct gpu_stage_request[]){fault(FAULT_ILLEGAL, 1, 0, 0)}, 1);
  other.device = rig.device;
  rig_program_of(&other, 1, chain_of(format_image(PIXELS_GRAY, 8, 8), NULL, 0));
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
  ck_assert(!gpu_anchor(rig.device, &error));
  ck_assert(!gpu_memory(rig.device, &(size_t){0}, &(size_t){0}));
  ck_assert_int_eq(atomic_load(&rig.wakes), 1);
  rig_free_program(&other);
  rig_close(&rig);
}
END_TEST

/* Pending for ever, the clock goes on, and after giving the device up freeing does not wait. The process ends
 * without the runtime's own tear-down, as the daemon does, since that would wait for the kernel. */
START_TEST(a_hang_is_given_up) {
  struct gpu_error error;
  open_in(_i, 2, 64, (struct gpu_stage_request[]){fault(FAULT_HANG, 0, 0, 0)}, 1);
  rig_submit(&rig, 0, 0, true);
  for (int i = 0; i < 10000; i++) {
    ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_PENDING);
  }
  ck_assert_msg(gpu_anchor(rig.device, &error), "%s", error.text);
  gpu_abandon(rig.device, "no completion for 2 s");
  ck_assert_int_eq(gpu_ask(rig.program, 0, &error), GPU_DEAD);
  ck_assert_str_eq(error.text, "no completion for 2 s");
  rig_close(&rig);
  _exit(HANG_IS_OVER);
}
END_TEST

static Suite *backend_suite(void) {
  Suite *suite = suite_create("cuda backend");
  TCase *group = tcase_create("gpu");
  tcase_set_timeout(group, 2 * RIG_PATIENCE_S);
  tcase_add_test(group, the_device_describes_itself);
  tcase_add_test(group, frames_are_computed);
  tcase_add_test(group, callbacks_tell);
  tcase_add_test(group, arming_wakes);
  tcase_add_test(group, late_callbacks_tell_nothing_of_the_next_frame);
  tcase_add_test(group, state_is_used_in_frame_order);
  tcase_add_test(group, one_frame_in_some_is_timed);
  tcase_add_test(group, the_warm_up_measures);
  tcase_add_test(group, times_are_plausible);
  tcase_add_test(group, slots_overlap);
  tcase_add_test(group, what_does_not_fit_leaves_the_device_alive);
  tcase_add_test(group, a_device_that_is_not_there);
  tcase_add_test(group, a_launch_that_fails_is_the_end);
  tcase_add_loop_test(group, an_illegal_access_is_found_by_asking, 0, 4);
  tcase_add_loop_exit_test(group, a_hang_is_given_up, HANG_IS_OVER, 0, 4);
  suite_add_tcase(suite, group);
  return suite;
}

int main(void) {
  if (!gpu_nvidia_present("/dev")) {
    fprintf(stderr, "there is no NVIDIA GPU here: nothing was tested\n");
    return NO_GPU;
  }
  setvbuf(stdout, NULL, _IOLBF, 0); /* lines are to be seen when they are written, also through a pipe */
  SRunner *runner = srunner_create(backend_suite());
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
