/* The CUDA backend's logic against the fake runtime: every call failing in turn, order, completion, times. */
#ifndef FRAMED_CUDA
#define FRAMED_CUDA
#endif
#include "gpu/cuda.h"
#include "tests/unit/cuda/fake_cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

enum { WIDTH = 16, MAX_TRIES = 1000, FEW_TRIES = 200, KERNEL_NS = 5000, COPY_NS = 1000, FRAME_OPERATIONS = 6 };
/* A host so slow that the warm-up measures the fewest frames that it may. */
enum { HOST_STEP_NS = 70000 };

/* -- a stage ------------------------------------------------------------------------------------------------------ */

struct work {
  struct stage_call call;
  size_t bytes;
};

static struct work works[GPU_MAX_SLOTS];
static cudaStream_t streams[GPU_MAX_SLOTS]; /* of the slots, learned when a stage is enqueued */

static bool keep(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]) {
  (void)problem;
  plan->output = plan->input;
  plan->state_bytes = (size_t)values[0].numbers[0];
  return true;
}

/* out = in + 1; with state, byte 0 becomes byte 1 of the frame before. */
static void increment(void *argument) {
  const struct work *work = argument;
  const unsigned char *input = work->call.input;
  unsigned char *output = work->call.output;
  for (size_t i = 0; i < work->bytes; i++) {
    output[i] = (unsigned char)(input[i] + 1);
  }
  if (work->call.state) {
    output[0] = *(unsigned char *)work->call.state;
    *(unsigned char *)work->call.state = input[1];
  }
}

static int enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  unsigned slot = 0; /* they are met in order */
  while (streams[slot] && streams[slot] != stream) {
    slot++;
  }
  streams[slot] = stream;
  works[slot] = (struct work){.call = *call, .bytes = plan->input_bytes};
  fake_launch(stream, increment, &works[slot], KERNEL_NS);
  return cudaSuccess;
}

static int enqueue_badly(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  (void)plan;
  (void)stream;
  return call->sequence == STAGE_WARM_UP ? cudaSuccess : cudaErrorInvalidConfiguration;
}

/* Every fifth frame is captured by nobody. */
static bool differs(const struct stage_plan *plan, uint64_t sequence) {
  (void)plan;
  return sequence != STAGE_WARM_UP && sequence % 5 == 4;
}

static const struct stage_descriptor plus_one = {.name = "plus_one", .prepare = keep, .enqueue = enqueue};
static const struct stage_descriptor fickle = {.name = "fickle", .prepare = keep, .enqueue = enqueue, .differs = differs};
static const struct stage_descriptor broken = {.name = "broken", .prepare = keep, .enqueue = enqueue_badly};
static const struct stage_descriptor cpu_only = {.name = "cpu_only", .prepare = keep};

/* -- a device and a program of it ---------------------------------------------------------------------------------- */

static struct gpu_device *device;
static struct gpu_chain *chain;
static struct gpu_program *program;
static struct gpu_error error;
static _Alignas(256) unsigned char inputs[GPU_MAX_SLOTS][256], outputs[GPU_MAX_SLOTS][256];
static struct gpu_buffers buffers[GPU_MAX_SLOTS];
static unsigned wakes;

static void wake(void *context) { ++*(unsigned *)context; }

static struct gpu_options options;

/* `known`: what is measured otherwise, which takes its time. */
static void open_device(const struct gpu_calibration *known) {
  fake_reset();
  wakes = 0;
  options = (struct gpu_options){.wake = wake, .context = &wakes, .graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  device = cuda_open(0, known, &error);
  ck_assert_msg(device != NULL, "%s", error.text);
  for (int i = 0; i < GPU_MAX_SLOTS; i++) {
    buffers[i] = (struct gpu_buffers){.input = inputs[i], .output = outputs[i]};
  }
}

static void set_up(void) { open_device(NULL); }

static void make_chain(const struct stage_descriptor *stage, unsigned state_bytes) {
  struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){WIDTH}, 1);
  struct gpu_stage_request request = {.stage = stage, .values[0].numbers[0] = state_bytes};
  chain = gpu_chain_new(&format, &request, stage ? 1 : 0, &error);
  ck_assert_ptr_nonnull(chain);
}

static void make_program(unsigned slots, const struct stage_descriptor *stage, unsigned state_bytes) {
  make_chain(stage, state_bytes);
  memset(streams, 0, sizeof streams);
  program = gpu_program_new(device, chain, buffers, slots, &options, &error);
  ck_assert_msg(program != NULL, "%s", error.text);
}

static void tear_down(void) {
  program = gpu_program_free(program);
  chain = gpu_chain_free(chain);
  device = gpu_close(device);
  fake_reset();
}

/* Lets the frames begin that were submitted, which is on the clock's stream. */
static void let_begin(void) { fake_run_stream(((struct cuda_device *)device)->clock, 100); }

static bool submit(unsigned slot, uint64_t sequence, bool notify) {
  struct gpu_frame frame = {.sequence = sequence, .restart = sequence == 0, .notify = notify};
  bool submitted = gpu_submit(program, slot, &frame, &error);
  let_begin();
  return submitted;
}

static void finish(unsigned slot) {
  enum gpu_progress progress;
  do {
    progress = gpu_ask(program, slot, &error);
  } while (progress == GPU_PENDING);
  ck_assert_msg(progress == GPU_DONE, "%s", error.text);
}

/* -- life --------------------------------------------------------------------------------------------------------- */

START_TEST(everything_is_given_back) {
  make_program(3, &plus_one, 1);
  ck_assert(gpu_program_warm_up(program, &error));
  ck_assert(submit(0, 0, true));
  ck_assert(submit(1, 1, false));
  struct gpu_usage usage;
  gpu_usage(device, &usage);
  ck_assert_uint_eq(usage.allocated, gpu_chain_device_bytes(chain, 3));
  program = gpu_program_free(program); /* finishes both */
  gpu_usage(device, &usage);
  ck_assert_uint_eq(usage.allocated, 0);
  ck_assert_uint_eq(wakes, 1);
  chain = gpu_chain_free(chain);
  device = gpu_close(device);
  ck_assert_uint_eq(fake_alive(), 0);
}
END_TEST

/* Whichever call fails while a device is opened, nothing is left behind and the error says what to do. */
START_TEST(opening_fails_cleanly_at_every_call) {
  struct gpu_device *opened = NULL;
  unsigned tries = 0;
  tear_down();
  while (!opened) {
    fake_reset();
    fake_fail(tries, cudaErrorInvalidValue, false);
    opened = cuda_open(1, NULL, &error);
    ck_assert_uint_lt(tries++, MAX_TRIES);
    if (!opened) {
      ck_assert(error.no_device);
      ck_assert_str_ne(error.text, "");
      ck_assert_str_ne(error.remedy, "");
    }
  }
  ck_assert_uint_gt(tries, 5);
  ck_assert_str_eq(gpu_device_name(opened), "Fake 1");
  fake_heal();
  gpu_close(opened);
  ck_assert_uint_eq(fake_alive(), 0);
  ck_assert_ptr_null(cuda_open(2, NULL, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "no CUDA device 2"));
  set_up();
}
END_TEST

/* A queue for each slot and for the daemon's own streams, chosen anew whenever a process executes itself. */
START_TEST(as_many_queues_as_slots_are_expected) {
  static const struct {
    const char *user, *ours; /* in the environment */
    unsigned slots;
    bool known;
    const char *queues;
  } cases[] = {
      {NULL, NULL, 0, false, NULL}, {NULL, NULL, 3, false, "7"}, {NULL, NULL, 3, true, "5"}, {NULL, NULL, 100, true, "32"},
      {"4", NULL, 3, true, "4"},    {"7", "7", 3, true, "5"},    {"4", "7", 3, true, "4"},   {"7", "7", 0, true, "7"},
  };
  const struct gpu_calibration known = {0};
  const char *const names[] = {"CUDA_DEVICE_MAX_CONNECTIONS", "FRAMED_DEVICE_MAX_CONNECTIONS"};
  const char *const values[] = {cases[_i].user, cases[_i].ours};
  gpu_close(device);
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(values[i] ? setenv(names[i], values[i], 1) : unsetenv(names[i]), 0);
  }
  cuda_expect(cases[_i].slots);
  device = cuda_open(0, cases[_i].known ? &known : NULL, &error);
  ck_assert_pstr_eq(getenv(names[0]), cases[_i].queues);
  for (int i = 0; i < 2; i++) {
    unsetenv(names[i]);
  }
  cuda_expect(0);
}
END_TEST

/* The same for programs: the device stays alive, and the next attempt may succeed. */
START_TEST(programs_fail_cleanly_at_every_call) {
  unsigned alive = fake_alive(), tries = 0;
  make_chain(&plus_one, 1);
  do {
    fake_fail(tries, cudaErrorMemoryAllocation, false);
    program = gpu_program_new(device, chain, buffers, 3, &options, &error);
    ck_assert_uint_lt(tries++, MAX_TRIES);
    if (!program) {
      ck_assert_uint_eq(fake_alive(), alive);
      ck_assert_int_eq(error.code, cudaErrorMemoryAllocation);
      ck_assert_ptr_nonnull(strstr(error.text, "Fake 0"));
      ck_assert_str_ne(error.remedy, "");
      ck_assert(!gpu_device_is_dead(device, NULL));
    }
  } while (!program);
  ck_assert_uint_gt(tries, 3 * 6);
  fake_heal();
}
END_TEST

START_TEST(a_stage_without_a_kernel_is_refused) {
  make_chain(&cpu_only, 0);
  ck_assert_ptr_null(gpu_program_new(device, chain, buffers, 1, &options, &error));
  ck_assert_int_eq(error.stage, 0);
  ck_assert_ptr_nonnull(strstr(error.text, "cpu_only"));
}
END_TEST

START_TEST(a_device_knows_its_node) {
  ck_assert_int_eq(gpu_node(device), GPU_NO_NODE);
  struct gpu_device *other = cuda_open(1, NULL, &error);
  ck_assert_ptr_nonnull(other);
  ck_assert_int_eq(gpu_node(other), 3);
  gpu_close(other);
}
END_TEST

START_TEST(memory_is_pinned_and_unpinned) {
  size_t available, total;
  struct gpu_usage usage;
  ck_assert(gpu_pin(device, inputs, sizeof inputs, &error));
  gpu_usage(device, &usage);
  ck_assert_uint_eq(usage.pinned, sizeof inputs);
  gpu_unpin(device, inputs, sizeof inputs);
  gpu_usage(device, &usage);
  ck_assert_uint_eq(usage.pinned, 0);
  fake_fail(0, cudaErrorHostMemoryAlreadyRegistered, false);
  ck_assert(!gpu_pin(device, inputs, sizeof inputs, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "cudaHostRegister"));
  ck_assert(gpu_memory(device, &available, &total));
  ck_assert_uint_eq(available, 1000);
  ck_assert_uint_eq(total, 2000);
}
END_TEST

/* The same for the warm-up, which captures graphs and measures. Where the time of one frame is all that fails, it goes on. Of
 * its later calls, which are more and more like each other, some fail. */
START_TEST(warm_ups_fail_cleanly_at_every_call) {
  struct gpu_calibration known;
  unsigned alive = fake_alive(), tries = 0;
  bool over = false; /* the warm-up has fewer calls */
  make_chain(&plus_one, _i % 3 == 0);
  gpu_calibration(device, &known);
  while (!over) {
    options.graph = _i % 2 ? GPU_GRAPH_ON : GPU_GRAPH_AUTO;
    options.timed_one_in = _i % 2 ? 1 : GPU_TIMED_AUTO;
    options.notify = _i < 2;
    options.weigh = true;
    fake_set_host_step(HOST_STEP_NS);
    memset(streams, 0, sizeof streams);
    program = gpu_program_new(device, chain, buffers, 2, &options, &error);
    ck_assert_msg(program != NULL, "%s", error.text);
    fake_fail(tries, cudaErrorMemoryAllocation, false);
    tries += 1 + tries / FEW_TRIES;
    bool warm = gpu_program_warm_up(program, &error);
    over = fake_heal();
    ck_assert(warm || !over);
    if (!warm) {
      ck_assert_int_eq(error.code, cudaErrorMemoryAllocation);
      ck_assert_str_ne(error.remedy, "");
    }
    program = gpu_program_free(program);
    if (gpu_device_is_dead(device, NULL)) { /* it was a frame that failed: that is the end of it, as ever */
      tear_down();
      open_device(&known);
      make_chain(&plus_one, _i % 3 == 0);
    } else {
      ck_assert_uint_eq(fake_alive(), alive);
    }
    ck_assert_uint_eq(wakes, 0);
  }
  ck_assert_uint_gt(tries, 60); /* graphs and rounds of measuring among them */
}
END_TEST

/* -- death -------------------------------------------------------------------------------------------------------- */

/* A frame that is half on its stream is the device's end, whatever the error. */
START_TEST(submitting_fails_for_good_at_every_call) {
  unsigned tries = 0;
  bool submitted = false;
  while (!submitted) {
    options.order = GPU_ORDER_ON;
    make_program(2, &plus_one, 1);
    ck_assert(submit(0, 0, false)); /* so that the second one waits for its state */
    fake_fail(tries, cudaErrorInvalidValue, false);
    submitted = submit(1, 1, true);
    ck_assert_uint_lt(tries++, MAX_TRIES);
    if (!submitted) {
      unsigned calls = fake_calls();
      ck_assert_int_eq(gpu_ask(program, 0, &error), GPU_DEAD);
      ck_assert_ptr_nonnull(strstr(error.text, "cudaError1"));
      ck_assert(!submit(0, 2, true));
      ck_assert(!gpu_arm(program, 0, &error));
      ck_assert(!gpu_anchor(device, &error));
      ck_assert(!gpu_pin(device, inputs, sizeof inputs, &error));
      ck_assert_uint_eq(fake_calls(), calls); /* nothing is asked of a dead device */
      tear_down();
      set_up();
    }
  }
  ck_assert_uint_gt(tries, 8);
  fake_heal();
}
END_TEST

START_TEST(a_bad_launch_names_its_stage) {
  make_program(1, &broken, 0);
  ck_assert(gpu_program_warm_up(program, &error));
  ck_assert(!submit(0, 0, false));
  ck_assert_int_eq(error.stage, 0);
  ck_assert_ptr_nonnull(strstr(error.text, "stages[0] (broken)"));
}
END_TEST

/* Every error that a process does not survive, found by asking; freeing asks nothing more of the device. */
START_TEST(asking_finds_every_fatal_error) {
  static const cudaError_t fatal[] = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 911};
  make_program(2, &plus_one, 0);
  ck_assert(submit(0, 0, true));
  ck_assert(submit(1, 1, true));
  fake_set_polling(false);
  ck_assert_int_eq(gpu_ask(program, 0, &error), GPU_PENDING);
  fake_die(fatal[_i]);
  ck_assert_int_eq(gpu_ask(program, 1, &error), GPU_DEAD);
  ck_assert_int_eq(error.code, (int)fatal[_i]);
  ck_assert_ptr_nonnull(strstr(error.text, "frame 1 in slot 1"));
  ck_assert_str_ne(error.remedy, "");
  ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING);
  ck_assert(gpu_device_is_dead(device, NULL));
  unsigned calls = fake_calls();
  tear_down();
  ck_assert_uint_eq(fake_calls(), 0); /* of the reset; none came between */
  ck_assert_uint_gt(calls, 0);
  set_up();
}
END_TEST

/* What else finds a fatal error, with no frame of its own in flight. */
START_TEST(a_fatal_error_kills_wherever_it_is_met) {
  size_t available, total;
  fake_die(cudaErrorIllegalAddress);
  if (_i == 0) {
    ck_assert(!gpu_anchor(device, &error));
  } else if (_i == 1) {
    ck_assert(!gpu_memory(device, &available, &total));
  } else {
    ck_assert(!gpu_pin(device, inputs, sizeof inputs, &error));
  }
  ck_assert(gpu_device_is_dead(device, &error));
  ck_assert_int_eq(error.code, cudaErrorIllegalAddress);
}
END_TEST

/* A host function that still runs when its program was freed on a dead device finds the program there. */
START_TEST(host_functions_outlive_a_program_that_was_given_up) {
  make_program(1, &plus_one, 0);
  ck_assert(submit(0, 0, true));
  gpu_abandon(device, "no completion for 2 s");
  program = gpu_program_free(program);
  fake_run_all();
  ck_assert_uint_eq(wakes, 1);
}
END_TEST

/* -- completion --------------------------------------------------------------------------------------------------- */

START_TEST(a_late_function_tells_nothing_of_the_next_frame) {
  fake_set_polling(false);
  make_program(1, &plus_one, 0);
  ck_assert(submit(0, 0, false));
  ck_assert(gpu_arm(program, 0, &error));
  ck_assert_uint_eq(fake_run_stream(streams[0], FRAME_OPERATIONS), FRAME_OPERATIONS);
  ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING);
  ck_assert_int_eq(gpu_ask(program, 0, &error), GPU_DONE);
  ck_assert(submit(0, 1, true));
  ck_assert_uint_eq(fake_run_stream(streams[0], 1), 1); /* the function of frame 0 */
  ck_assert_uint_eq(wakes, 1);
  ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING);
  ck_assert_int_eq(gpu_ask(program, 0, &error), GPU_PENDING);
  fake_run_all();
  ck_assert_uint_eq(wakes, 2);
  ck_assert_int_eq(gpu_told(program, 0), GPU_DONE);
}
END_TEST

START_TEST(arming_launches_one_function) {
  fake_set_polling(false);
  make_program(1, &plus_one, 0);
  unsigned before = fake_host_functions();
  ck_assert(submit(0, 0, false));
  ck_assert_uint_eq(fake_host_functions() - before, 0);
  ck_assert(gpu_arm(program, 0, &error));
  ck_assert(gpu_arm(program, 0, &error));
  ck_assert_uint_eq(fake_host_functions() - before, 1);
  fake_run_all();
  ck_assert_int_eq(gpu_told(program, 0), GPU_DONE);
  ck_assert(submit(0, 1, true));
  ck_assert(gpu_arm(program, 0, &error)); /* it has asked already */
  ck_assert_uint_eq(fake_host_functions() - before, 2);
  fake_run_all();
  ck_assert_uint_eq(wakes, 2);
  ck_assert(submit(0, 2, false));
  fake_run_all();
  ck_assert_int_eq(gpu_told(program, 0), GPU_PENDING); /* it asked for nothing */
  ck_assert_int_eq(gpu_ask(program, 0, &error), GPU_DONE);
}
END_TEST

/* A lane at random: slots in order, frames submitted with and without asking, armed, polled; streams at random; with
 * graphs and without, all, some and no frames timed. Each frame has the right result, uses the state of the one before
 * it, and wakes exactly as often as was asked. */
START_TEST(arming_that_fails_is_the_end) {
  fake_set_polling(false);
  make_program(1, &plus_one, 0);
  ck_assert(submit(0, 0, false));
  fake_fail(0, cudaErrorInvalidValue, false);
  ck_assert(!gpu_arm(program, 0, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "cudaLaunchHostFunc"));
  ck_assert(gpu_device_is_dead(device, NULL));
  ck_assert_int_eq(gpu_ask(program, 0, &error), GPU_DEAD);
  fake_heal();
}
END_TEST

/* Whichever call fails while a program and its device are given back, the others are made all the same. */
START_TEST(giving_back_goes_on_after_every_call) {
  bool over = false;
  unsigned tries = 0;
  while (!over) {
    options.order = GPU_ORDER_ON;
    options.graph = _i ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
    make_program(3, &plus_one, 1);
    ck_assert(gpu_program_warm_up(program, &error));
    ck_assert(gpu_pin(device, inputs, sizeof inputs, &error));
    ck_assert(submit(0, 0, true));
    ck_assert(submit(1, 1, false));
    unsigned alive = fake_alive();
    fake_fail(tries++, cudaErrorInvalidValue, false);
    program = gpu_program_free(program);
    gpu_unpin(device, inputs, sizeof inputs);
    chain = gpu_chain_free(chain);
    device = gpu_close(device);
    over = fake_heal();
    ck_assert_uint_lt(fake_alive(), over ? 1 : alive);
    set_up();
  }
  ck_assert_uint_gt(tries, 20);
}
END_TEST

/* A frame whose times cannot be had has none. */
START_TEST(times_fail_at_every_call) {
  struct gpu_times times;
  bool over = false;
  unsigned tries = 0;
  while (!over) {
    make_program(1, &plus_one, 0);
    ck_assert(submit(0, 0, false));
    finish(0);
    fake_fail(tries++, cudaErrorInvalidValue, false);
    bool has_times = gpu_times(program, 0, &times);
    over = fake_heal();
    ck_assert(has_times == over);
    tear_down();
    set_up();
  }
  ck_assert_uint_gt(tries, 3);
}
END_TEST

START_TEST(any_order_of_streams_gives_the_same_frames) {
  static const int timed_one_in[] = {1, GPU_TIMED_NEVER, 4, GPU_TIMED_AUTO};
  enum { SLOTS = 4, FRAMES = 2000 };
  unsigned expected_wakes = 0, seed = (unsigned)_i + 1;
  fake_set_seed(seed);
  options.graph = (enum gpu_graph_choice)(_i % 3);
  options.timed_one_in = timed_one_in[_i % 4];
  options.notify = _i % 2 == 0;
  options.order = (enum gpu_order_choice)(_i / 2 % 3);
  options.copy = (enum gpu_copy_choice)(_i / 3 % 3);
  make_program(SLOTS, _i % 5 ? &fickle : &plus_one, 1);
  ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
  for (unsigned frame = 0; frame < FRAMES + SLOTS; frame++) {
    unsigned slot = frame % SLOTS, done = frame - SLOTS;
    if (frame >= SLOTS) {
      finish(slot);
      ck_assert_uint_eq(outputs[slot][1], (done + 1) % 256);
      ck_assert_uint_eq(outputs[slot][WIDTH - 1], (done + 1) % 256);
      ck_assert_uint_eq(outputs[slot][0], done % 1000 == 0 ? 0 : (done - 1) % 256);
    }
    if (frame < FRAMES) {
      bool notify = rand_r(&seed) % 2 == 0, arm = rand_r(&seed) % 3 == 0;
      memset(inputs[slot], (int)frame, WIDTH);
      ck_assert_msg(submit(slot, frame % 1000, notify), "%s", error.text); /* a session of 1000 frames */
      ck_assert(!arm || gpu_arm(program, slot, &error));
      expected_wakes += notify || arm;
    }
  }
  program = gpu_program_free(program);
  ck_assert_uint_eq(wakes, expected_wakes);
}
END_TEST

START_TEST(no_stage_copies_in_and_out) {
  make_program(1, NULL, 0);
  memset(inputs[0], 7, WIDTH);
  memset(outputs[0], 0, WIDTH);
  ck_assert(submit(0, 0, true));
  finish(0);
  ck_assert_mem_eq(inputs[0], outputs[0], WIDTH);
}
END_TEST

/* -- the order of copies ------------------------------------------------------------------------------------------ */

enum { ALL = 100 }; /* operations of a frame */

/* The second frame's copy in waits for the first one's, and its copy out likewise, whatever its own stream has done. */
START_TEST(ordered_copies_wait_for_the_frame_before) {
  options.order = GPU_ORDER_ON;
  make_program(2, &plus_one, 0);
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  ck_assert(submit(1, 1, false));
  ck_assert_uint_eq(fake_run_stream(streams[1], ALL), 0);
  ck_assert_uint_eq(fake_run_stream(streams[0], 3), 3);   /* copy in, event, and the one that the other waits for */
  ck_assert_uint_eq(fake_run_stream(streams[1], ALL), 6); /* wait, copy in, two events, kernel, event */
  ck_assert_int_eq(gpu_ask(program, 1, &error), GPU_PENDING);
  fake_run_stream(streams[0], ALL);
  ck_assert_uint_gt(fake_run_stream(streams[1], ALL), 0);
  ck_assert_int_eq(gpu_ask(program, 1, &error), GPU_DONE);
}
END_TEST

/* What waits only for its turn is not served yet. */
START_TEST(waiting_for_the_order_is_not_service) {
  options.order = GPU_ORDER_ON;
  make_program(2, &plus_one, 0);
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  ck_assert(submit(1, 1, false));
  fake_run_stream(streams[0], ALL);
  fake_run_all();
  struct gpu_times times = {0};
  ck_assert_int_eq(gpu_ask(program, 0, &error), GPU_DONE);
  ck_assert(gpu_times(program, 0, &times));
  ck_assert_int_eq(gpu_ask(program, 1, &error), GPU_DONE);
  ck_assert(gpu_times(program, 1, &times));
  ck_assert_int_eq(times.h2d + times.wait, times.copied_in - times.begin);
  ck_assert_int_ge(times.wait, COPY_NS);
}
END_TEST

/* Of two programs, copies in keep one order; copies out do not, since one program's kernels are not the other's. */
START_TEST(programs_share_the_order_of_copies_in) {
  options.order = GPU_ORDER_ON;
  make_program(1, &plus_one, 0);
  struct gpu_program *other = gpu_program_new(device, chain, &buffers[1], 1, &options, &error);
  ck_assert_ptr_nonnull(other);
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  ck_assert(gpu_submit(other, 0, &(struct gpu_frame){.sequence = 0}, &error));
  let_begin();
  ck_assert_uint_eq(fake_run_stream(streams[1], ALL), 0);
  ck_assert_uint_eq(fake_run_stream(streams[0], 3), 3);
  ck_assert_uint_gt(fake_run_stream(streams[1], ALL), 0);
  ck_assert_int_eq(gpu_ask(other, 0, &error), GPU_DONE);
  ck_assert_int_eq(gpu_ask(program, 0, &error), GPU_PENDING);
  ck_assert_ptr_null(gpu_program_free(other));
}
END_TEST

/* Without being told, large copies are ordered and small ones are not; and never, where it is off. */
START_TEST(large_copies_are_ordered) {
  static const struct {
    uint64_t bytes;
    enum gpu_order_choice order;
    bool ordered;
  } cases[] = {
      {24 << 20, GPU_ORDER_AUTO, true},
      {(24 << 20) - 1, GPU_ORDER_AUTO, false},
      {24 << 20, GPU_ORDER_OFF, false},
      {WIDTH, GPU_ORDER_ON, true},
  };
  struct frame_format format = format_tensor(ELEMENT_UINT8, (uint64_t[]){cases[_i].bytes}, 1);
  struct gpu_stage_request request = {.stage = &plus_one};
  chain = gpu_chain_new(&format, &request, 1, &error);
  unsigned char *memory = aligned_alloc(256, 2 * (cases[_i].bytes + 255) / 256 * 256);
  ck_assert(chain && memory);
  memset(memory, 1, cases[_i].bytes);
  for (int i = 0; i < 2; i++) {
    buffers[i] = (struct gpu_buffers){.input = memory, .output = memory + (cases[_i].bytes + 255) / 256 * 256};
  }
  options.order = cases[_i].order;
  memset(streams, 0, sizeof streams);
  program = gpu_program_new(device, chain, buffers, 2, &options, &error);
  ck_assert_msg(program != NULL, "%s", error.text);
  fake_set_polling(false);
  ck_assert(submit(0, 0, false));
  ck_assert(submit(1, 1, false));
  unsigned ran = fake_run_stream(streams[1], ALL);
  ck_assert_msg(cases[_i].ordered == (ran == 0), "%u operations ran", ran);
  fake_run_all();
  program = gpu_program_free(program);
  free(memory);
}
END_TEST

/* -- graphs ------------------------------------------------------------------------------------------------------- */

static void make_replaying(unsigned slots, const struct stage_descriptor *stage, unsigned state_bytes, bool notify) {
  options.graph = GPU_GRAPH_ON;
  options.notify = notify;
  make_program(slots, stage, state_bytes);
  ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
  ck_assert(gpu_program_graph(program));
  ck_assert_uint_eq(wakes, 0);
}

static unsigned launches_of(uint64_t sequence, bool notify) {
  unsigned before = fake_graph_launches();
  ck_assert_msg(submit(0, sequence, notify), "%s", error.text);
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
  device = cuda_open(0, NULL, &error);
  ck_assert_msg(device != NULL, "%s", error.text);
  options.graph = cases[_i].graph;
  options.copy = cases[_i].copy;
  options.order = cases[_i].order;
  make_program(2, &fickle, 0);
  ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
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
  ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
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
  chain = gpu_chain_new(&format, NULL, 0, &error);
  large[0] = (struct gpu_buffers){.input = memory, .output = memory + (bytes + 255) / 256 * 256};
  options.graph = GPU_GRAPH_ON;
  options.copy = GPU_COPY_KERNEL;
  program = gpu_program_new(device, chain, large, 1, &options, &error);
  ck_assert_msg(program && gpu_program_warm_up(program, &error), "%s", error.text);
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
  ck_assert(gpu_program_warm_up(program, &error));
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
  ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
  ck_assert_uint_eq(fake_alive() - alive, PROGRAM_SLOTS * (_i ? 2 : 1));
}
END_TEST

/* Whatever the warm-up found, frames go that way, and what it found is told. */
START_TEST(the_warm_up_decides) {
  struct gpu_measured measured;
  options.graph = GPU_GRAPH_AUTO;
  options.timed_one_in = GPU_TIMED_AUTO;
  options.notify = _i;
  make_program(3, &plus_one, 0);
  ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
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
  ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
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
  ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
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
  ck_assert_msg(submit(0, 0, false), "%s", error.text);
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
    ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
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
  ck_assert_msg(gpu_program_warm_up(program, &error), "%s", error.text);
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
    ck_assert_int_eq(gpu_ask(program, slot, &error), GPU_DONE);
    ck_assert(gpu_times(program, slot, &times));
    ck_assert_uint_eq(outputs[slot][1], inputs[slot][1] + (cases[_i / 2].stage ? 1U : 0U));
  }
  ck_assert_uint_eq(wakes, notify ? 2 : 0);
}
END_TEST

/* -- times -------------------------------------------------------------------------------------------------------- */

static struct gpu_times times_of(unsigned slot) {
  struct gpu_times times = {0};
  ck_assert_int_eq(gpu_ask(program, slot, &error), GPU_DONE);
  ck_assert(gpu_times(program, slot, &times));
  ck_assert_int_eq(times.h2d + times.kernel + times.d2h + times.wait, times.copied_out - times.begin);
  return times;
}

START_TEST(a_frame_alone_waits_for_nothing) {
  options.graph = _i ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  options.notify = true;
  make_program(1, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &error));
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
  device = cuda_open(0, NULL, &error);
  ck_assert_msg(device != NULL, "%s", error.text);
  options.graph = _i % 2 ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  options.order = _i / 2 ? GPU_ORDER_ON : GPU_ORDER_OFF;
  make_program(1, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &error));
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
  device = cuda_open(0, NULL, &error);
  ck_assert_msg(device != NULL, "%s", error.text);
  options.graph = _i ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  make_program(2, &plus_one, 0);
  ck_assert(gpu_program_warm_up(program, &error));
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
  device = cuda_open(0, NULL, &error);
  ck_assert_msg(device != NULL, "%s", error.text);
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
  device = cuda_open(0, NULL, &error);
  ck_assert_msg(device != NULL, "%s", error.text);
  gpu_calibration(device, &measured);
  ck_assert_int_eq(measured.plain.h2d, 700);
  ck_assert_int_eq(measured.replayed.kernel, 700);
  ck_assert_int_eq(measured.plain_next.h2d, 700);
  ck_assert_int_eq(measured.replayed_next.d2h, 700);
  ck_assert_uint_gt(fake_graph_launches(), 0);
  gpu_close(device);
  fake_reset();
  device = cuda_open(0, &measured, &error);
  ck_assert_msg(device != NULL, "%s", error.text);
  gpu_calibration(device, &taken);
  ck_assert_mem_eq(&taken, &measured, sizeof taken);
  ck_assert_uint_eq(fake_host_functions() + fake_graph_launches(), 0);
}
END_TEST

/* A step shorter than what events take is hardly a service, and never less than that. */
START_TEST(no_service_is_negative) {
  tear_down();
  fake_set_event_ns(5 * COPY_NS);
  device = cuda_open(0, NULL, &error);
  ck_assert_msg(device != NULL, "%s", error.text);
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
  ck_assert(gpu_program_warm_up(program, &error));
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
  ck_assert(gpu_program_warm_up(program, &error));
  ck_assert_uint_eq(gpu_program_timed_one_in(program), 4);
  for (uint64_t frame = 0; timed < 20 || untimed < 20; frame++) {
    bool demanded = frame % 7 == 0;
    struct gpu_frame request = {.sequence = frame, .timed = demanded};
    ck_assert(gpu_submit(program, frame % 2, &request, &error));
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
  ck_assert(gpu_program_warm_up(program, &error));
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
  ck_assert(gpu_submit(program, 0, &(struct gpu_frame){.sequence = 0}, &error));
  ck_assert_uint_eq(fake_run_stream(streams[0], ALL), FRAME_OPERATIONS);
  ck_assert_int_eq(gpu_ask(program, 0, &error), GPU_DONE);
  ck_assert(!gpu_times(program, 0, &times));
  ck_assert(!gpu_is_lost(device));
  let_begin();
  ck_assert(submit(0, 1, false));
  fake_run_all();
  times_of(0);
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
  small = gpu_program_new(device, chain, buffers + 1, 1, &options, &error);
  ck_assert_msg(small && gpu_program_warm_up(small, &error), "%s", error.text);
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
  ck_assert_int_eq(gpu_ask(large, 0, &error), GPU_DONE);
  ck_assert(gpu_times(large, 0, &times));
  ck_assert_int_ge(times.h2d, large_ns);
  gpu_program_free(small);
}
END_TEST

/* A frame keeps the anchor of its submission while newer ones are made, and the axis goes on without a jump. */
START_TEST(new_anchors_change_no_interval) {
  make_program(1, &plus_one, 0);
  for (unsigned frame = 0; frame < 40; frame++) {
    fake_set_polling(true);
    ck_assert(gpu_anchor(device, &error));
    ck_assert(submit(0, frame, false));
    ck_assert(gpu_anchor(device, &error));
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
  ck_assert(gpu_anchor(device, &error));
  ck_assert(gpu_anchor(device, &error));
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
  while (!gpu_anchor(device, &error)) {
    ck_assert_ptr_nonnull(strstr(error.text, "cudaEvent"));
    ck_assert_uint_lt(tries++, MAX_TRIES);
    fake_fail(tries, cudaErrorInvalidValue, false);
  }
  ck_assert_uint_ge(tries, 2);
  fake_heal();
  ck_assert(!gpu_device_is_dead(device, NULL));
}
END_TEST

Suite *cuda_suite(void);

Suite *cuda_suite(void) {
  Suite *suite = suite_create("cuda");
  TCase *group = tcase_create("fake");
  tcase_add_checked_fixture(group, set_up, tear_down);
  tcase_set_timeout(group, 120);
  tcase_add_test(group, everything_is_given_back);
  tcase_add_test(group, opening_fails_cleanly_at_every_call);
  tcase_add_loop_test(group, as_many_queues_as_slots_are_expected, 0, 8);
  tcase_add_test(group, programs_fail_cleanly_at_every_call);
  tcase_add_loop_test(group, warm_ups_fail_cleanly_at_every_call, 0, 4);
  tcase_add_test(group, a_stage_without_a_kernel_is_refused);
  tcase_add_test(group, a_device_knows_its_node);
  tcase_add_test(group, memory_is_pinned_and_unpinned);
  tcase_add_test(group, submitting_fails_for_good_at_every_call);
  tcase_add_test(group, a_bad_launch_names_its_stage);
  tcase_add_loop_test(group, asking_finds_every_fatal_error, 0, 14);
  tcase_add_loop_test(group, a_fatal_error_kills_wherever_it_is_met, 0, 3);
  tcase_add_test(group, host_functions_outlive_a_program_that_was_given_up);
  tcase_add_test(group, a_late_function_tells_nothing_of_the_next_frame);
  tcase_add_test(group, arming_launches_one_function);
  tcase_add_test(group, arming_that_fails_is_the_end);
  tcase_add_loop_test(group, giving_back_goes_on_after_every_call, 0, 2);
  tcase_add_test(group, times_fail_at_every_call);
  tcase_add_loop_test(group, any_order_of_streams_gives_the_same_frames, 0, 24);
  tcase_add_test(group, no_stage_copies_in_and_out);
  tcase_add_test(group, ordered_copies_wait_for_the_frame_before);
  tcase_add_test(group, waiting_for_the_order_is_not_service);
  tcase_add_test(group, programs_share_the_order_of_copies_in);
  tcase_add_loop_test(group, large_copies_are_ordered, 0, 4);
  tcase_add_loop_test(group, a_graph_stands_for_a_frame, 0, 4);
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
  tcase_add_test(group, waiting_for_an_engine_is_not_service);
  tcase_add_test(group, copies_by_kernels_wait_for_no_engine);
  tcase_add_test(group, new_anchors_change_no_interval);
  tcase_add_test(group, a_busy_device_keeps_its_anchor);
  tcase_add_test(group, anchoring_fails_cleanly_at_every_call);
  suite_add_tcase(suite, group);
  return suite;
}
