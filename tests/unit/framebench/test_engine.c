/* The engine and the relay, whose figures everything else is made of: they count right, and end as they should. */
#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/relay.h"
#include "tools/framebench/common/targets.h"
#include "tools/framebench/stages/stage_list.h"

#include "tests/unit/runner.h"

#include <stdlib.h>

static struct gpu_device *open_device(unsigned workers) {
  struct gpu_error error;
  struct gpu_device *device = gpu_open(GPU_BACKEND_CPU, 0, workers, &error);
  ck_assert_ptr_nonnull(device);
  return device;
}

/* A kernel that sleeps does not exist, but `work` takes a time that grows with its rounds. */
static void check_run(enum engine_completion completion, unsigned slots) {
  struct problem problem = {0};
  struct gpu_device *device = open_device(1);
  struct gpu_chain *chain = engine_chain(65536, "work", "rounds", 50, &problem);
  const struct engine_setup setup = {.chain = chain, .slots = slots, .completion = completion, .timed_one_in = 1};
  struct engine *engine = engine_new(device, &setup, &problem);
  struct engine_figures figures;
  struct overlap_frame spans[10] = {0};
  ck_assert_msg(engine && engine_run(engine, 10, spans, 10, &figures, &problem), "%s", problem.text);
  ck_assert_uint_eq(figures.frames, 10);
  ck_assert_uint_eq(figures.timed, 10);
  /* Neither the first frame of a slot, nor those that are still under way when the last one begins. */
  ck_assert_uint_eq(figures.steady_frames, 10 - slots - (slots - 1));
  ck_assert_double_eq_tol(engine_each(&figures), figures.steady / (double)figures.steady_frames, 1e-9);
  ck_assert_double_le(figures.steady, figures.wall);
  double sum = 0;
  for (int i = 0; i < 10; i++) {
    const struct overlap_span *kernel = &spans[i].spans[OVERLAP_KERNEL];
    ck_assert_double_gt(kernel->end, kernel->begin);
    ck_assert_double_ge(kernel->begin, 0);
    ck_assert_double_le(kernel->end, figures.wall);
    sum += kernel->end - kernel->begin;
  }
  ck_assert_double_eq_tol(sum, figures.service[OVERLAP_KERNEL], 0.1);
  ck_assert_double_le(sum, figures.wall); /* one worker serves one frame at a time */
  engine_free(engine);
  gpu_chain_free(chain);
  gpu_close(device);
}

START_TEST(test_engine_accounts_for_its_frames) {
  for (unsigned slots = 1; slots <= 4; slots++) {
    check_run(ENGINE_SPIN, slots);
    check_run(ENGINE_CALLBACK, slots);
  }
}
END_TEST

/* One frame fills no slots twice: all of the run is what there is. */
START_TEST(test_short_runs_count_as_a_whole) {
  const struct engine_figures one = {.frames = 1, .wall = 30}, none = {0};
  ck_assert_double_eq(engine_each(&one), 30);
  ck_assert_double_eq(engine_each(&none), 0);
}
END_TEST

/* As many frames as the time allows, all of them done, and then as many again. */
START_TEST(test_engine_runs_for_a_time) {
  enum { FEW_NS = 3000000 };
  struct problem problem = {0};
  struct gpu_device *device = open_device(1);
  struct gpu_chain *chain = engine_chain(65536, "work", "rounds", 50, &problem);
  const struct engine_setup setup = {.chain = chain, .slots = 3, .completion = ENGINE_SPIN, .timed_one_in = 1};
  struct engine *engine = engine_new(device, &setup, &problem);
  ck_assert_ptr_nonnull(engine);
  for (int i = 0; i < 2; i++) {
    struct engine_figures figures;
    ck_assert_msg(engine_run_time(engine, FEW_NS, &figures, &problem), "%s", problem.text);
    ck_assert_uint_gt(figures.frames, 0);
    ck_assert_uint_eq(figures.timed, figures.frames);
    ck_assert_double_ge(figures.wall, FEW_NS / 1e3);
  }
  engine_free(engine);
  gpu_chain_free(chain);
  gpu_close(device);
}
END_TEST

/* What the host does has a time, and so has its notice where it waits. */
START_TEST(test_engine_weighs_the_host) {
  struct problem problem = {0};
  struct gpu_device *device = open_device(1);
  struct gpu_chain *chain = engine_chain(65536, "work", "rounds", 50, &problem);
  for (enum engine_completion completion = ENGINE_SPIN; completion <= ENGINE_CALLBACK; completion++) {
    const struct engine_setup setup = {.chain = chain, .slots = 2, .completion = completion};
    struct engine *engine = engine_new(device, &setup, &problem);
    struct engine_figures figures;
    ck_assert_msg(engine && engine_run_for(engine, 0.002, &figures, &problem), "%s", problem.text);
    ck_assert_double_gt(figures.host, 0);
    ck_assert_uint_gt(figures.weighed, 0);
    ck_assert_uint_le(figures.noticed, figures.frames);
    ck_assert(figures.notice > 0 || figures.noticed == 0);
    engine_free(engine);
  }
  gpu_chain_free(chain);
  gpu_close(device);
}
END_TEST

/* Whenever a run begins after its pause, it ends before the next window, unless it is too long for that. */
START_TEST(test_short_runs_hold_no_window) {
  enum { STEPS = 1000 };
  for (unsigned one_in = 0; one_in <= 64; one_in = one_in > 0 ? 2 * one_in : 1) {
    const int64_t period = one_in * GPU_TIMED_WINDOW_NS;
    for (int64_t ns = 1000000; ns < 600000000; ns *= 3) {
      bool fits = ns <= period - GPU_TIMED_WINDOW_NS;
      for (int64_t i = 0; i < STEPS; i++) {
        int64_t now = INT64_C(123456789) * period + i * period / STEPS, pause = engine_pause(one_in, now, ns);
        int64_t at = period > 0 ? (now + pause) % period : 0;
        require(fits ? at >= GPU_TIMED_WINDOW_NS && at + ns <= period && pause <= ns + GPU_TIMED_WINDOW_NS : pause == 0,
                "one in %u, %lld ns long, at %lld", one_in, (long long)ns, (long long)now);
      }
    }
  }
}
END_TEST

START_TEST(test_unknown_stage_is_a_problem) {
  struct problem problem = {0};
  ck_assert_ptr_null(engine_chain(4096, "nothing", NULL, 0, &problem));
  ck_assert_ptr_nonnull(problem.text);
  problem_clear(&problem);
}
END_TEST

START_TEST(test_every_listed_stage_is_a_chain) {
  for (unsigned i = 0; i < stage_list_length; i++) {
    struct problem problem = {0};
    struct gpu_chain *chain = stage_list_chain(&stage_list[i], 64, 48, &problem);
    ck_assert_msg(chain, "%s: %s", stage_list[i].stage, problem.text);
    gpu_chain_free(chain);
  }
}
END_TEST

/* What detectors are measured with has objects in it: each is found once. */
START_TEST(test_detectors_find_what_they_are_filled_with) {
  unsigned detectors = 0;
  for (unsigned i = 0; i < stage_list_length; i++) {
    struct problem problem = {0};
    struct gpu_chain *chain = stage_list_chain(&stage_list[i], 64, 48, &problem);
    const struct stage_plan *plan = gpu_chain_stage(chain, 0);
    float *frame = calloc(1, plan->input_bytes), *rows = calloc(1, plan->output_bytes);
    if (stage_list_fill(plan, frame)) {
      char why[STAGE_TEXT] = "";
      void *scratch = calloc(1, plan->scratch_bytes + 1);
      const struct stage_call call = {.input = frame, .output = rows, .scratch = scratch, .problem = why};
      plan->stage->run(plan, &call);
      for (unsigned row = 0; row < 100; row++) {
        ck_assert_msg((rows[6 * row + 4] > 0) == (row < 40), "%s, row %u", stage_list[i].stage, row);
      }
      free(scratch);
      detectors++;
    }
    free(rows);
    free(frame);
    gpu_chain_free(chain);
  }
  ck_assert_uint_eq(detectors, 2);
}
END_TEST

START_TEST(test_shares_of_a_side) {
  struct problem problem = {0};
  const struct stage_entry entry = {.pixels = PIXELS_GRAY, .stage = "resize: width=double,height=half,filter=area"};
  struct gpu_chain *chain = stage_list_chain(&entry, 64, 48, &problem);
  ck_assert_ptr_nonnull(chain);
  ck_assert_uint_eq(gpu_chain_output(chain)->width, 128);
  ck_assert_uint_eq(gpu_chain_output(chain)->height, 24);
  gpu_chain_free(chain);
}
END_TEST

START_TEST(test_wrong_settings_are_problems) {
  static const char *const wrong[] = {"blur: sigma", "blur: sigmas=1", "sobel: output=both", "blur: sigma=x", "bluer"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct problem problem = {0};
    const struct stage_entry entry = {.pixels = PIXELS_GRAY, .stage = wrong[i]};
    ck_assert_msg(!stage_list_chain(&entry, 64, 48, &problem), "%s", wrong[i]);
    ck_assert_ptr_nonnull(problem.text);
    problem_clear(&problem);
  }
}
END_TEST

START_TEST(test_relays_carry_frames) {
  for (int kind = RELAY_ONE_THREAD; kind <= RELAY_POLLING; kind++) {
    struct problem problem = {0};
    struct samples samples = {0};
    const struct relay_load load = {.kind = (enum relay_kind)kind, .frame_bytes = 5000, .seconds = 0.01};
    double rate = 0;
    ck_assert_msg(relay_throughput(&load, &rate, &problem), "%s", problem.text);
    ck_assert_double_gt(rate, 0);
    ck_assert_msg(relay_latency(&load, &samples, &problem), "%s", problem.text);
    ck_assert_uint_gt(samples.count, 0);
    samples_free(&samples);
  }
}
END_TEST

START_TEST(test_targets) {
  struct target target = {"a", "b", "frames/s", 98, 100, 0.98, false};
  ck_assert(targets_reached(&target));
  target.value = 97.9;
  ck_assert(!targets_reached(&target));
  target.limit_value = 0; /* a limit that was not measured is never reached */
  ck_assert(!targets_reached(&target));
  target = (struct target){"a", "b", "us", 10, 0, 10, true};
  ck_assert(targets_reached(&target));
  target.value = 10.1;
  ck_assert(!targets_reached(&target));
}
END_TEST

START_TEST(test_sizes_for_people) {
  char text[RESULTS_TEXT];
  ck_assert_str_eq(results_size(text, 0), "0 B");
  ck_assert_str_eq(results_size(text, 1000), "1000 B");
  ck_assert_str_eq(results_size(text, 4096), "4 KiB");
  ck_assert_str_eq(results_size(text, 1536 * 1024), "1536 KiB");
  ck_assert_str_eq(results_size(text, (size_t)256 << 20), "256 MiB");
}
END_TEST

Suite *engine_suite(void);
Suite *engine_suite(void) {
  Suite *suite = suite_create("engine");
  TCase *cases = tcase_create("engine");
  tcase_set_timeout(cases, 60); /* without optimisation, beside other work */
  tcase_add_test(cases, test_engine_accounts_for_its_frames);
  tcase_add_test(cases, test_short_runs_count_as_a_whole);
  tcase_add_test(cases, test_engine_runs_for_a_time);
  tcase_add_test(cases, test_engine_weighs_the_host);
  tcase_add_test(cases, test_short_runs_hold_no_window);
  tcase_add_test(cases, test_unknown_stage_is_a_problem);
  tcase_add_test(cases, test_every_listed_stage_is_a_chain);
  tcase_add_test(cases, test_detectors_find_what_they_are_filled_with);
  tcase_add_test(cases, test_shares_of_a_side);
  tcase_add_test(cases, test_wrong_settings_are_problems);
  tcase_add_test(cases, test_relays_carry_frames);
  tcase_add_test(cases, test_targets);
  tcase_add_test(cases, test_sizes_for_people);
  suite_add_tcase(suite, cases);
  return suite;
}
