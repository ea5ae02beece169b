/* The CUDA backend on a real GPU: what it says of how long frames and their steps take, measured or foretold. */
#include "gpu/backend.h"
#include "tests/gpu/backend.h"

#include <stdio.h>
#include <string.h>

enum { MILLION_PIXELS = 1024 };

/* Both of many frames are right, those with times and those without; and times are those of a frame alone. */
START_TEST(one_frame_in_some_is_timed) {
  unsigned timed = 0, untimed = 0;
  struct gpu_times times;
  backend_open_in(5, 3, 256, (struct gpu_stage_request[]){backend_affine(1, 1)}, 1);
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
  backend_open_in(way, 3, side, (struct gpu_stage_request[]){backend_affine(1, 1)}, 1);
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

/* Device times lie between what the host saw before and after, but for the error of an anchor. */
static void times_are_plausible_in(int way) {
  const int64_t slack = 500000;
  struct gpu_error error;
  unsigned began = 0;
  backend_open_in(way, 2, MILLION_PIXELS, (struct gpu_stage_request[]){backend_affine(1, 1)}, 1);
  for (unsigned frame = 0; frame < 200; frame++) {
    struct gpu_times times, again;
    unsigned slot = frame % 2;
    int64_t before = gpu_now();
    rig_submit(&rig, slot, frame, rig.options.notify);
    ck_assert_msg(frame % 5 != 0 || gpu_anchor(rig.device, &error) != GPU_DEAD, "%s", error.text);
    rig_finish(&rig, slot);
    int64_t after = gpu_now();
    ck_assert(gpu_times(rig.program, slot, &times));
    ck_assert_int_ge(times.begin, before - slack);
    ck_assert_int_le(times.copied_out, after + slack);
    ck_assert_int_ge(times.copied_in, times.begin);
    ck_assert_int_ge(times.computed, times.copied_in);
    ck_assert_int_ge(times.copied_out, times.computed);
    began += times.h2d > 0;            /* not where the event of its begin, on another stream, came after its copy */
    ck_assert_int_ge(times.kernel, 0); /* hardly longer than an empty one */
    ck_assert_int_gt(times.d2h, 0);
    ck_assert_int_ge(times.wait, 0);
    ck_assert_int_eq(times.h2d + times.kernel + times.d2h + times.wait, times.copied_out - times.begin);
    ck_assert(gpu_times(rig.program, slot, &again));
    ck_assert_int_eq(again.h2d, times.h2d);
  }
  ck_assert_uint_gt(began, 0);
  rig_close(&rig);
}

START_TEST(times_are_plausible) {
  backend_in_ways("times_are_plausible", times_are_plausible_in, 2, 4);
  backend_in_ways("times_are_plausible", times_are_plausible_in, BACKEND_PLAIN, BACKEND_PLAIN + 1);
}
END_TEST

/* Two kernels of 50 ms on two slots are on the device at the same time. */
START_TEST(slots_overlap) {
  struct gpu_times first, second;
  backend_open_in(BACKEND_PLAIN, 2, 64, (struct gpu_stage_request[]){backend_fault(FAULT_DELAY, 0, 1, 50)}, 1);
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

void backend_add_times(TCase *group) {
  tcase_add_test(group, one_frame_in_some_is_timed);
  tcase_add_test(group, the_warm_up_measures);
  tcase_add_test(group, times_are_plausible);
  tcase_add_test(group, slots_overlap);
}
