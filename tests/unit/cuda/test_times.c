/* When a frame was where on the device, and which frames have times at all. */
#include "tests/unit/cuda/fixture.h"

#include <inttypes.h>
#include <string.h>

START_TEST(a_frame_alone_waits_for_nothing) {
  options.graph = _i ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  options.notify = true;
  make_program(1, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &problem));
  fake_set_polling(false);
  ck_assert(submit(0, 0, true));
  fake_run_all();
  struct gpu_times times = times_of(0);
  ck_assert_int_eq(times.h2d, COPY_NS);
  ck_assert_int_eq(times.kernel, KERNEL_NS);
  ck_assert_int_eq(times.d2h, COPY_NS);
  ck_assert_int_eq(times.wait, 0);
  ck_assert_int_eq(times.copied_in - times.begin, COPY_NS);
  ck_assert_int_gt(times.told, 0);
  struct gpu_times again = times_of(0); /* reading once more gives the same */
  ck_assert_int_eq(again.h2d, COPY_NS);
}
END_TEST

/* What the events of a frame take is part of no step, whichever way the frame goes. */
START_TEST(events_are_not_service) {
  const int64_t event_ns = 700;
  tear_down();
  fake_set_event_ns(event_ns);
  device = cuda_open(0, NULL, &problem);
  ck_assert_msg(device != NULL, "%s", problem.text);
  options.graph = _i % 2 ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  options.order = _i / 2 ? GPU_ORDER_ON : GPU_ORDER_OFF;
  make_program(1, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &problem));
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  fake_run_all();
  struct gpu_times times = times_of(0);
  ck_assert_int_eq(times.h2d, COPY_NS);
  ck_assert_int_eq(times.kernel, KERNEL_NS);
  ck_assert_int_eq(times.d2h, COPY_NS);
  ck_assert_int_eq(times.wait, 3 * event_ns);
}
END_TEST

/* Nor are those between two steps of one engine, where the second one waited for the first. */
START_TEST(events_between_frames_are_not_service) {
  tear_down();
  fake_set_event_ns(700);
  device = cuda_open(0, NULL, &problem);
  ck_assert_msg(device != NULL, "%s", problem.text);
  options.graph = _i ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  make_program(2, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &problem));
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  ck_assert(submit(1, 1, false));
  for (int step = 0; step < 3; step++) { /* copy in, kernel and copy out, each with its event */
    fake_run_stream(streams[0], 2);
    fake_run_stream(streams[1], 2);
  }
  fake_run_all();
  times_of(0);
  struct gpu_times second = times_of(1);
  ck_assert_int_eq(second.h2d, COPY_NS);
  ck_assert_int_eq(second.kernel, KERNEL_NS);
  ck_assert_int_eq(second.d2h, COPY_NS);
}
END_TEST

/* The event of a frame's begin is on another stream than the frame, and may come after it. */
START_TEST(a_calibration_waits_for_late_events) {
  struct gpu_calibration measured;
  tear_down();
  fake_set_late_records(true);
  device = cuda_open(0, NULL, &problem);
  ck_assert_msg(device != NULL, "%s", problem.text);
  gpu_calibration(device, &measured);
  ck_assert_int_ge(measured.plain.h2d, 0);
  ck_assert_int_ge(measured.replayed.h2d, 0);
}
END_TEST

/* What one process has measured serves the next one, which runs nothing to open the device. */
START_TEST(a_calibration_is_taken_over) {
  struct gpu_calibration measured, taken;
  tear_down();
  fake_set_event_ns(700);
  device = cuda_open(0, NULL, &problem);
  ck_assert_msg(device != NULL, "%s", problem.text);
  gpu_calibration(device, &measured);
  ck_assert_int_eq(measured.plain.h2d, 700);
  ck_assert_int_eq(measured.replayed.kernel, 700);
  ck_assert_int_eq(measured.plain_next.h2d, 700);
  ck_assert_int_eq(measured.replayed_next.d2h, 700);
  ck_assert_uint_gt(fake_graph_launches(), 0);
  gpu_close(device);
  fake_reset();
  device = cuda_open(0, &measured, &problem);
  ck_assert_msg(device != NULL, "%s", problem.text);
  gpu_calibration(device, &taken);
  ck_assert_mem_eq(&taken, &measured, sizeof taken);
  ck_assert_uint_eq(fake_host_functions() + fake_graph_launches(), 0);
}
END_TEST

/* A step shorter than what events take is hardly a service, and never less than that. */
START_TEST(no_service_is_negative) {
  tear_down();
  fake_set_event_ns(5 * COPY_NS);
  device = cuda_open(0, NULL, &problem);
  ck_assert_msg(device != NULL, "%s", problem.text);
  fake_set_event_ns(0);
  make_program(1, &plus_one, 0);
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  fake_run_all();
  struct gpu_times times = times_of(0);
  ck_assert_int_eq(times.h2d, 1);
  ck_assert_int_eq(times.d2h, 1);
  ck_assert_int_eq(times.wait, 2 * COPY_NS + KERNEL_NS - 3);
}
END_TEST

/* How many events a frame records, which is what times cost: none where a callback tells. */
START_TEST(frames_without_times_record_few_events) {
  static const struct {
    int timed_one_in;
    bool notify;
    enum gpu_graph_choice graph;
    unsigned records;
  } cases[] = {
      {1, false, GPU_GRAPH_OFF, 4},
      {1, true, GPU_GRAPH_OFF, 4},
      {1, false, GPU_GRAPH_ON, 5}, /* those of a graph cannot be polled */
      {1, true, GPU_GRAPH_ON, 4},
      {GPU_TIMED_NEVER, false, GPU_GRAPH_OFF, 1},
      {GPU_TIMED_NEVER, true, GPU_GRAPH_OFF, 0},
      {GPU_TIMED_NEVER, false, GPU_GRAPH_ON, 1},
      {GPU_TIMED_NEVER, true, GPU_GRAPH_ON, 0},
  };
  struct gpu_times times;
  options.timed_one_in = cases[_i].timed_one_in;
  options.graph = cases[_i].graph;
  options.notify = cases[_i].notify;
  make_program(1, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &problem));
  unsigned before = fake_records();
  ck_assert(submit(0, 0, cases[_i].notify));
  ck_assert_uint_eq(fake_records() - before, cases[_i].records);
  finish(0);
  ck_assert(gpu_times(program, 0, &times) == (cases[_i].timed_one_in == 1));
  ck_assert_uint_eq(gpu_program_timed_one_in(program), cases[_i].timed_one_in == 1 ? 1 : 0);
}
END_TEST

/* Some frames are timed and some are not, as time passes; but those for which it is demanded always are. */
START_TEST(one_frame_in_some_is_timed) {
  unsigned timed = 0, untimed = 0;
  struct gpu_times times;
  options.timed_one_in = 4;
  make_program(2, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &problem));
  ck_assert_uint_eq(gpu_program_timed_one_in(program), 4);
  for (uint64_t frame = 0; timed < 20 || untimed < 20; frame++) {
    bool demanded = frame % 7 == 0;
    struct gpu_frame request = {.sequence = frame, .timed = demanded};
    ck_assert(gpu_submit(program, frame % 2, &request, &problem));
    finish(frame % 2);
    bool has_times = gpu_times(program, frame % 2, &times);
    ck_assert(has_times || !demanded);
    ck_assert(!has_times || times.h2d == COPY_NS);
    timed += has_times && !demanded;
    untimed += !has_times;
  }
}
END_TEST

/* One in N by the clock, whoever asks; no frame among others counts soon after one without times; and where a program
 * with a higher N is timed, the others are too. */
START_TEST(frames_are_timed_together) {
  const int64_t step = 10000, period = GPU_TIMED_RAREST * GPU_TIMED_WINDOW_NS;
  const unsigned one_in = 1U << _i;
  struct gpu_program rare = {.timed_one_in = one_in}, rarer = {.timed_one_in = one_in * 2}, never = {0};
  int64_t untimed = 0, alone = 0, among = 0;
  for (int64_t now = 0; now < period; now += step) {
    enum cuda_timing timing = cuda_clock_timing(&rare, false, false, now);
    untimed = timing == CUDA_UNTIMED ? now : untimed;
    alone += cuda_clock_timing(&rare, false, true, now) == CUDA_TIMED;
    among += timing == CUDA_TIMED;
    require(timing != CUDA_TIMED || one_in == 1 || now - untimed >= 1000000, "at %" PRId64 " ns", now);
    require(timing != CUDA_UNTIMED || cuda_clock_timing(&rarer, false, false, now) == CUDA_UNTIMED, "at %" PRId64 " ns", now);
    require(cuda_clock_timing(&rare, true, false, now) == CUDA_TIMED, "at %" PRId64 " ns", now);
    require(cuda_clock_timing(&never, true, true, now) == CUDA_UNTIMED, "at %" PRId64 " ns", now);
  }
  double frames = (double)(period / step);
  ck_assert_double_eq_tol((double)alone / frames, 1.0 / one_in, 0.001);
  ck_assert_double_le((double)among / frames, 1.0 / one_in + 0.001);
  ck_assert_double_ge((double)among / frames, 0.7 / one_in);
}
END_TEST

/* Frames that come slowly are all timed, although one in many is: each on its own, and longer after the last than is good. */
START_TEST(slow_frames_are_timed) {
  struct gpu_times times;
  fake_set_host_step(_i ? GPU_TIMED_OVERDUE_NS / 10 : GPU_TIMED_OVERDUE_NS);
  options.timed_one_in = GPU_TIMED_RAREST;
  make_program(2, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &problem));
  unsigned timed = 0;
  for (uint64_t frame = 0; frame < 100; frame++) {
    ck_assert(submit(frame % 2, frame, false));
    finish(frame % 2);
    timed += gpu_times(program, frame % 2, &times);
  }
  ck_assert_uint_ge(timed, _i ? 9 : 100); /* some are by the clock */
  ck_assert_uint_le(timed, _i ? 20 : 100);
}
END_TEST

/* Nothing but time says that the event of a frame's begin happens before the frame is done. */
START_TEST(a_frame_done_before_it_began_has_no_times) {
  struct gpu_times times;
  make_program(1, &plus_one, 0);
  fake_set_polling(false);
  ck_assert(gpu_submit(program, 0, &(struct gpu_frame){.sequence = 0}, &problem));
  ck_assert_uint_eq(fake_run_stream(streams[0], ALL), FRAME_OPERATIONS);
  ck_assert_int_eq(gpu_ask(program, 0, &problem), GPU_DONE);
  ck_assert(!gpu_times(program, 0, &times));
  ck_assert(!gpu_is_lost(device));
  let_begin();
  ck_assert(submit(0, 1, false));
  fake_run_all();
  times_of(0);
}
END_TEST

/* The event of its begin is on another stream, which may come to it when the copy in is over. */
START_TEST(a_frame_that_began_late_has_waited_for_nothing) {
  make_program(1, &plus_one, 0);
  fake_set_polling(false);
  ck_assert(gpu_submit(program, 0, &(struct gpu_frame){.sequence = 0}, &problem));
  ck_assert_uint_eq(fake_run_stream(streams[0], 4), 4); /* the copy in, the kernel, and their events */
  let_begin();
  fake_run_all();
  finish(0);
  const struct gpu_times times = times_of(0);
  ck_assert_int_eq(times.begin, times.copied_in);
  ck_assert_int_eq(times.h2d, 0);
  ck_assert_int_eq(times.kernel, KERNEL_NS);
  ck_assert_int_eq(times.d2h, COPY_NS);
  ck_assert_int_eq(times.wait, 0);
}
END_TEST

/* Both begin at 0; the second one's copy waits for the first one's, and its kernel for the first one's kernel. */
START_TEST(waiting_for_an_engine_is_not_service) {
  fake_set_polling(false);
  make_program(2, &plus_one, 0);
  ck_assert(submit(0, 0, false));
  ck_assert(submit(1, 1, false));
  fake_run_stream(streams[0], 2); /* first copy, until 1000 */
  fake_run_stream(streams[1], 2); /* second copy, until 2000 */
  fake_run_stream(streams[0], 2); /* first kernel, 1000 to 7000 with the copy before it */
  fake_run_stream(streams[1], 2); /* second kernel, until 12000 */
  fake_run_all();
  struct gpu_times first = times_of(0), second = times_of(1);
  ck_assert_int_eq(first.h2d, COPY_NS);
  ck_assert_int_eq(second.h2d, COPY_NS);
  ck_assert_int_eq(second.copied_in - second.begin, 2 * COPY_NS);
  ck_assert_int_eq(first.kernel, COPY_NS + KERNEL_NS);
  ck_assert_int_eq(second.kernel, KERNEL_NS);
  ck_assert_int_ge(second.wait, COPY_NS);
}
END_TEST

/* Beside a large copy of another program, small ones that kernels make come to their ends one after the other: none of that is
 * taken from its service, nor do they wait for it. */
START_TEST(copies_by_kernels_wait_for_no_engine) {
  const int64_t large_ns = 100 * (int64_t)COPY_NS;
  struct gpu_program *large, *small;
  struct gpu_times times;
  make_program(1, &plus_one, 0);
  large = program;
  options.graph = GPU_GRAPH_ON;
  options.copy = GPU_COPY_KERNEL;
  small = gpu_program_new(device, chain, buffers + 1, 1, &options, &problem);
  ck_assert_msg(small && gpu_program_warm_up(small, &problem), "%s", problem.text);
  fake_set_polling(false);
  fake_set_copy_ns(large_ns);
  ck_assert(submit(0, 0, false));
  cudaStream_t beside = ((struct cuda_program *)small)->slots[0].stream;
  fake_run_stream(((struct cuda_program *)large)->slots[0].stream, 1); /* the copy in is over, but for its event */
  fake_set_copy_ns(COPY_NS);
  program = small;
  ck_assert(submit(0, 0, false));
  fake_run_stream(beside, 100);
  ck_assert_int_eq(times_of(0).h2d, COPY_NS);
  program = large;
  fake_run_all();
  ck_assert_int_eq(gpu_ask(large, 0, &problem), GPU_DONE);
  ck_assert(gpu_times(large, 0, &times));
  ck_assert_int_ge(times.h2d, large_ns);
  gpu_program_free(small);
}
END_TEST

/* A device that other processes keep busy answers late. */
START_TEST(a_late_answer_of_the_clock_counts) {
  make_program(1, &plus_one, 0);
  fake_set_polling(false);
  ck_assert_int_eq(gpu_anchor(device, &problem), GPU_PENDING);
  fake_run_stream(((struct cuda_device *)device)->clock, 1);
  ck_assert_int_eq(gpu_anchor(device, &problem), GPU_DONE);
  fake_set_polling(true);
  ck_assert_int_eq(gpu_anchor(device, &problem), GPU_DONE);
}
END_TEST

/* A frame keeps the anchor of its submission while newer ones are made, and the axis goes on without a jump. */
START_TEST(new_anchors_change_no_interval) {
  make_program(1, &plus_one, 0);
  for (unsigned frame = 0; frame < 40; frame++) {
    fake_set_polling(true);
    ck_assert_int_eq(gpu_anchor(device, &problem), GPU_DONE);
    ck_assert(submit(0, frame, false));
    ck_assert_int_eq(gpu_anchor(device, &problem), GPU_DONE);
    fake_set_polling(false);
    fake_run_all();
    struct gpu_times times = times_of(0);
    ck_assert_int_eq(times.copied_out - times.begin, 2 * COPY_NS + KERNEL_NS);
    ck_assert_int_eq(times.wait, 0);
  }
}
END_TEST

/* An anchor whose event does not come in time is left for later: the device may only be busy. */
START_TEST(a_busy_device_keeps_its_anchor) {
  fake_set_polling(false);
  ck_assert_int_eq(gpu_anchor(device, &problem), GPU_PENDING);
  ck_assert_int_eq(gpu_anchor(device, &problem), GPU_PENDING);
  ck_assert(!gpu_device_is_dead(device, NULL));
  make_program(1, &plus_one, 0);
  ck_assert(submit(0, 0, false));
  fake_run_all();
  ck_assert_int_eq(times_of(0).h2d, COPY_NS);
}
END_TEST

START_TEST(anchoring_fails_cleanly_at_every_call) {
  unsigned tries = 0;
  fake_fail(tries, cudaErrorInvalidValue, false);
  while (gpu_anchor(device, &problem) == GPU_DEAD) {
    ck_assert_ptr_nonnull(strstr(problem.text, "cudaEvent"));
    ck_assert_uint_lt(tries++, MAX_TRIES);
    fake_fail(tries, cudaErrorInvalidValue, false);
  }
  ck_assert_uint_ge(tries, 2);
  fake_heal();
  ck_assert(!gpu_device_is_dead(device, NULL));
}
END_TEST

Suite *times_suite(void);
Suite *times_suite(void) {
  Suite *suite = suite_create("times");
  TCase *group = tcase_create("fake");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_set_timeout(group, 120);
  tcase_add_loop_test(group, a_frame_alone_waits_for_nothing, 0, 2);
  tcase_add_loop_test(group, events_are_not_service, 0, 4);
  tcase_add_loop_test(group, events_between_frames_are_not_service, 0, 2);
  tcase_add_test(group, a_calibration_waits_for_late_events);
  tcase_add_test(group, a_calibration_is_taken_over);
  tcase_add_test(group, no_service_is_negative);
  tcase_add_loop_test(group, frames_without_times_record_few_events, 0, 8);
  tcase_add_test(group, one_frame_in_some_is_timed);
  tcase_add_loop_test(group, frames_are_timed_together, 0, 9);
  tcase_add_loop_test(group, slow_frames_are_timed, 0, 2);
  tcase_add_test(group, a_frame_done_before_it_began_has_no_times);
  tcase_add_test(group, a_frame_that_began_late_has_waited_for_nothing);
  tcase_add_test(group, waiting_for_an_engine_is_not_service);
  tcase_add_test(group, copies_by_kernels_wait_for_no_engine);
  tcase_add_test(group, new_anchors_change_no_interval);
  tcase_add_test(group, a_late_answer_of_the_clock_counts);
  tcase_add_test(group, a_busy_device_keeps_its_anchor);
  tcase_add_test(group, anchoring_fails_cleanly_at_every_call);
  suite_add_tcase(suite, group);
  return suite;
}
