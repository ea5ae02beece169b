/* Frames that are replayed, who copies them, and what the warm-up decides and weighs. */
#include "tests/unit/cuda/fixture.h"

#include <stdlib.h>
#include <string.h>

static unsigned launches_of(uint64_t sequence, bool notify) {
  unsigned before = fake_graph_launches();
  ck_assert_msg(submit(0, sequence, notify), "%s", problem.text);
  finish(0);
  return fake_graph_launches() - before;
}

/* One launch stands for a frame, and three where it waits for its state in between. */
START_TEST(a_graph_stands_for_a_frame) {
  bool notify = _i % 2, has_state = _i / 2;
  make_replaying(2, &plus_one, has_state, notify);
  for (unsigned frame = 0; frame < 10; frame++) {
    inputs[0][1] = (unsigned char)frame;
    unsigned launches = launches_of(frame, notify);
    ck_assert_uint_eq(launches, has_state ? frame == 0 ? 0 : 3 : 1); /* the first one empties the state */
    ck_assert_uint_eq(outputs[0][1], frame + 1);
    ck_assert_uint_eq(outputs[0][0], !has_state ? inputs[0][0] + 1U : frame == 0 ? 0 : frame - 1);
  }
  ck_assert_uint_eq(wakes, notify ? 10 : 0);
  ck_assert_uint_eq(launches_of(10, !notify), 0); /* it was captured for the other kind of completion */
}
END_TEST

/* What is beside the graph parts it in two: one before and one after. Where it has state too, it waits for that as any. */
START_TEST(a_stage_may_be_beside_the_graph) {
  bool has_state = _i % 2;
  make_replaying(2, _i / 2 ? &apart : &within, has_state, false);
  ck_assert_uint_eq(attachments, 1);
  for (unsigned frame = 0; frame < 10; frame++) {
    inputs[0][1] = (unsigned char)frame;
    unsigned launches = launches_of(frame, false), parts = _i / 2 ? 2 : has_state ? 3 : 1;
    ck_assert_uint_eq(launches, has_state && frame == 0 ? 0 : parts);
    ck_assert_uint_eq(outputs[0][1], frame + 1);
    ck_assert_uint_eq(outputs[0][0], !has_state ? inputs[0][0] + 1U : frame == 0 ? 0 : frame - 1);
  }
  program = gpu_program_free(program);
  ck_assert_uint_eq(attachments, 0);
}
END_TEST

START_TEST(a_stage_that_cannot_be_attached_is_named) {
  attaching_fails = true;
  make_chain(&within, 0);
  buffers[0] = (struct gpu_buffers){.input = inputs[0], .output = outputs[0]};
  ck_assert_ptr_null(gpu_program_new(device, chain, buffers, 1, &options, &problem));
  attaching_fails = false;
  ck_assert_str_eq(problem.text, "it cannot be attached");
  ck_assert_int_eq(problem.stage, 0);
  ck_assert_uint_eq(attachments, 0);
}
END_TEST

/* Kernels copy what they may: small frames of graphs, on a device whose kernels read the host's memory. */
START_TEST(kernels_copy_small_frames_of_graphs) {
  static const struct {
    enum gpu_graph_choice graph;
    enum gpu_copy_choice copy;
    enum gpu_order_choice order;
    bool blind, copies;
  } cases[] = {
      {GPU_GRAPH_ON, GPU_COPY_KERNEL, GPU_ORDER_AUTO, false, true},
      {GPU_GRAPH_ON, GPU_COPY_ENGINE, GPU_ORDER_AUTO, false, false},
      {GPU_GRAPH_OFF, GPU_COPY_KERNEL, GPU_ORDER_AUTO, false, false},
      {GPU_GRAPH_ON, GPU_COPY_KERNEL, GPU_ORDER_ON, false, false},
      {GPU_GRAPH_ON, GPU_COPY_KERNEL, GPU_ORDER_AUTO, true, false},
  };
  tear_down();
  fake_set_blind(cases[_i].blind);
  device = cuda_open(0, NULL, &problem);
  ck_assert_msg(device != NULL, "%s", problem.text);
  options.graph = cases[_i].graph;
  options.copy = cases[_i].copy;
  options.order = cases[_i].order;
  make_program(2, &fickle, 0);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  ck_assert(gpu_program_copies_by_kernel(program) == cases[_i].copies);
  for (unsigned frame = 0; frame < 20; frame++) {
    unsigned before = fake_kernel_copies();
    memset(inputs[0], (int)frame, WIDTH);
    ck_assert(submit(0, frame, false));
    finish(0);
    ck_assert_uint_eq(fake_kernel_copies() - before, cases[_i].copies && frame % 5 != 4 ? 2 : 0);
    ck_assert_uint_eq(outputs[0][1], frame + 1);
  }
}
END_TEST

/* Whoever copies faster does it, with graphs asked for and with graphs that only win if kernels copy. */
START_TEST(the_faster_copies_are_chosen) {
  bool kernels_win = _i % 2;
  options.graph = _i / 2 ? GPU_GRAPH_AUTO : GPU_GRAPH_ON;
  fake_set_host_step(100);
  fake_set_copy_costs(kernels_win ? 5000 : 500, kernels_win ? 500 : 5000);
  make_program(3, &plus_one, 0);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  ck_assert(gpu_program_copies_by_kernel(program) == kernels_win);
  ck_assert(gpu_program_graph(program) || !kernels_win);
}
END_TEST

/* However they are copied, frames above some size are the engines'. */
START_TEST(engines_copy_large_frames) {
  struct gpu_buffers large[1];
  size_t bytes = (256 << 10) + (size_t)_i;
  unsigned char *memory = aligned_alloc(256, 2 * (bytes + 256) / 256 * 256);
  struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){bytes}, 1);
  ck_assert_ptr_nonnull(memory);
  chain = gpu_chain_new(&format, NULL, 0, &problem);
  large[0] = (struct gpu_buffers){.input = memory, .output = memory + (bytes + 255) / 256 * 256};
  options.graph = GPU_GRAPH_ON;
  options.copy = GPU_COPY_KERNEL;
  program = gpu_program_new(device, chain, large, 1, &options, &problem);
  ck_assert_msg(program && gpu_program_warm_up(program, &problem), "%s", problem.text);
  ck_assert(gpu_program_copies_by_kernel(program) == (_i == 0));
  program = gpu_program_free(program);
  free(memory);
}
END_TEST

START_TEST(frames_that_differ_are_not_replayed) {
  make_replaying(1, &fickle, 0, false);
  for (unsigned frame = 0; frame < 20; frame++) {
    ck_assert_uint_eq(launches_of(frame, false), frame % 5 != 4);
  }
}
END_TEST

START_TEST(what_is_not_replayed_has_no_graphs) {
  make_program(2, &plus_one, 1);
  unsigned alive = fake_alive(), launches = fake_graph_launches();
  ck_assert(gpu_program_warm_up(program, &problem));
  ck_assert_uint_eq(fake_alive(), alive);
  ck_assert_uint_eq(fake_graph_launches(), launches);
  ck_assert(!gpu_program_graph(program));
  ck_assert_uint_eq(gpu_program_timed_one_in(program), 1);
}
END_TEST

/* Graphs of a way that was not chosen are of no use to anybody. */
START_TEST(graphs_are_kept_of_one_way) {
  enum { PROGRAM_SLOTS = 2 };
  options.graph = GPU_GRAPH_ON;
  options.timed_one_in = _i ? GPU_TIMED_AUTO : 1;
  make_program(PROGRAM_SLOTS, &plus_one, 0);
  unsigned alive = fake_alive();
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  ck_assert_uint_eq(fake_alive() - alive,
                    PROGRAM_SLOTS * (_i ? 2U : 1U) + (_i ? 1U : 0U)); /* and the mailbox of frames without times */
}
END_TEST

/* Whatever the warm-up found, frames go that way, and what it found is told. */
START_TEST(the_warm_up_decides) {
  struct gpu_measured measured;
  options.graph = GPU_GRAPH_AUTO;
  options.timed_one_in = GPU_TIMED_AUTO;
  options.notify = _i;
  make_program(3, &plus_one, 0);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  gpu_program_measured(program, &measured);
  ck_assert(measured.plain > 0 && measured.graph > 0 && measured.copied > 0 && measured.untimed > 0 && measured.timed > 0);
  int64_t replayed = gpu_program_copies_by_kernel(program) ? measured.copied : measured.graph;
  ck_assert_int_eq(measured.untimed, gpu_program_graph(program) ? replayed : measured.plain);
  ck_assert(!gpu_program_graph(program) || (double)replayed < 1.02 * (double)measured.plain);
  ck_assert_uint_eq(launches_of(0, _i), gpu_program_graph(program));
  ck_assert_uint_ge(gpu_program_timed_one_in(program), 1);
  ck_assert_uint_eq(wakes, (unsigned)_i);
}
END_TEST

/* Of frames that take long, however long: few rounds are enough, but what times cost is looked at. */
START_TEST(long_frames_are_measured_too) {
  static const int64_t step[] = {20000, 500000, INT64_C(1000000000)};
  struct gpu_measured measured;
  options.graph = GPU_GRAPH_AUTO;
  options.timed_one_in = GPU_TIMED_AUTO;
  fake_set_host_step(step[_i]);
  make_program(3, &plus_one, 0);
  unsigned before = fake_records();
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  gpu_program_measured(program, &measured);
  ck_assert(measured.plain > step[_i] && measured.graph > step[_i] && measured.untimed > 0 && measured.timed > 0);
  ck_assert_uint_le(fake_records() - before, 10U * 5 * (3 + 3 * 6 * 4)); /* of a frame at most five */
}
END_TEST

/* What a frame costs is told where it was asked for: alone, in its steps if it has times, and beside others if it has any. */
START_TEST(the_warm_up_weighs) {
  struct gpu_costs costs;
  bool is_single = _i == 1, has_state = _i == 2, has_times = _i != 3, passes = _i == 4, has_engines = _i != 6;
  options.weigh = _i != 5;
  options.copy = has_engines ? GPU_COPY_ENGINE : GPU_COPY_KERNEL;
  options.notify = _i % 2;
  options.graph = has_engines ? GPU_GRAPH_AUTO : GPU_GRAPH_ON;
  options.timed_one_in = has_times ? GPU_TIMED_AUTO : GPU_TIMED_NEVER;
  make_program(is_single ? 1 : 3, passes ? NULL : &plus_one, has_state);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  gpu_program_costs(program, &costs);
  ck_assert_int_eq(costs.alone > 0, options.weigh);
  ck_assert(costs.lane <= costs.alone && (costs.lane > 0 || !options.weigh));
  ck_assert_int_eq(costs.h2d, has_times && options.weigh ? COPY_NS : 0);
  ck_assert_int_eq(costs.d2h, has_times && options.weigh ? COPY_NS : 0);
  ck_assert_int_eq(costs.kernel, has_times && options.weigh && !passes ? KERNEL_NS : 0);
  ck_assert_int_eq(costs.shared_h2d > 0, options.weigh && !is_single && has_engines);
  ck_assert_int_eq(costs.shared_d2h > 0, options.weigh && !is_single && has_engines);
  ck_assert_int_eq(costs.kernels > 0, options.weigh && !is_single && has_engines && !has_state && !passes);
  ck_assert_uint_eq(wakes, 0);
  ck_assert_msg(submit(0, 0, false), "%s", problem.text);
  finish(0);
}
END_TEST

/* Also frames that tell of themselves, as their graph does: and nobody is woken by them. */
START_TEST(frames_are_weighed_in_the_way_they_go) {
  unsigned launches[2];
  options.notify = _i == 1;
  options.graph = GPU_GRAPH_ON;
  options.copy = GPU_COPY_ENGINE;
  options.timed_one_in = GPU_TIMED_NEVER; /* which leaves nothing to choose */
  for (int weigh = 0; weigh < 2; weigh++) {
    options.weigh = weigh == 1;
    make_program(1, &plus_one, 0);
    unsigned before = fake_graph_launches();
    ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
    launches[weigh] = fake_graph_launches() - before;
    program = gpu_program_free(program);
    chain = gpu_chain_free(chain);
  }
  ck_assert_uint_gt(launches[1], launches[0]);
  ck_assert_uint_eq(wakes, 0);
}
END_TEST

/* A slot whose output is still wanted is not overwritten for that. */
START_TEST(spared_outputs_are_not_weighed) {
  struct gpu_costs costs;
  options.weigh = true;
  options.spared = 2;
  make_program(2, &plus_one, 0);
  memset(outputs[1], 0x77, WIDTH);
  ck_assert_msg(gpu_program_warm_up(program, &problem), "%s", problem.text);
  gpu_program_costs(program, &costs);
  ck_assert_int_eq(costs.alone, 0);
  for (int i = 0; i < WIDTH; i++) {
    ck_assert_uint_eq(outputs[1][i], 0x77);
  }
}
END_TEST

/* Copies that are in an order stay beside the graph, in their order, and so does what tells of the end; where only they are,
 * there is nothing to launch. */
START_TEST(graphs_leave_out_ordered_copies) {
  static const struct {
    const struct stage_descriptor *stage;
    unsigned state_bytes, launches;
  } cases[] = {{&plus_one, 0, 1}, {&plus_one, 1, 1}, {NULL, 0, 0}};
  bool notify = _i % 2;
  options.order = GPU_ORDER_ON;
  make_replaying(2, cases[_i / 2].stage, cases[_i / 2].state_bytes, notify);
  fake_set_polling(false);
  unsigned before = fake_graph_launches();
  ck_assert(submit(0, 1, notify));
  ck_assert(submit(1, 2, notify));
  ck_assert_uint_eq(fake_graph_launches() - before, 2 * cases[_i / 2].launches);
  ck_assert(!cases[_i / 2].stage || fake_run_stream(streams[1], ALL) == 0);
  fake_run_all();
  for (unsigned slot = 0; slot < 2; slot++) {
    struct gpu_times times;
    ck_assert_int_eq(gpu_ask(program, slot, &problem), GPU_DONE);
    ck_assert(gpu_times(program, slot, &times));
    ck_assert_uint_eq(outputs[slot][1], inputs[slot][1] + (cases[_i / 2].stage ? 1U : 0U));
  }
  ck_assert_uint_eq(wakes, notify ? 2 : 0);
}
END_TEST

Suite *graphs_suite(void);
Suite *graphs_suite(void) {
  Suite *suite = suite_create("graphs");
  TCase *group = tcase_create("fake");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_set_timeout(group, 120);
  tcase_add_loop_test(group, a_graph_stands_for_a_frame, 0, 4);
  tcase_add_loop_test(group, a_stage_may_be_beside_the_graph, 0, 4);
  tcase_add_test(group, a_stage_that_cannot_be_attached_is_named);
  tcase_add_loop_test(group, kernels_copy_small_frames_of_graphs, 0, 5);
  tcase_add_loop_test(group, the_faster_copies_are_chosen, 0, 4);
  tcase_add_loop_test(group, engines_copy_large_frames, 0, 2);
  tcase_add_test(group, frames_that_differ_are_not_replayed);
  tcase_add_test(group, what_is_not_replayed_has_no_graphs);
  tcase_add_loop_test(group, graphs_are_kept_of_one_way, 0, 2);
  tcase_add_loop_test(group, the_warm_up_decides, 0, 2);
  tcase_add_loop_test(group, long_frames_are_measured_too, 0, 3);
  tcase_add_loop_test(group, the_warm_up_weighs, 0, 7);
  tcase_add_loop_test(group, frames_are_weighed_in_the_way_they_go, 0, 2);
  tcase_add_test(group, spared_outputs_are_not_weighed);
  tcase_add_loop_test(group, graphs_leave_out_ordered_copies, 0, 6);
  suite_add_tcase(suite, group);
  return suite;
}
