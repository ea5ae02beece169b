/*
 * One case of parity.c: run() of the stage directly (and of those that lead to it, where it takes only what they give), and the
 * same frames through a program of a device, as the daemon does it.
 */
#include "tests/gpu/parity_case.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

enum { SLOTS = 2, FRAMES_WITH_STATE = 5, ALIGNMENT = 256, MOST_LEADING = 4 };

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Memory with a fence behind it, which AddressSanitizer watches. NULL if there is not enough left. */
static void *take(struct parity_arena *arena, size_t bytes) {
  const size_t span = aligned(bytes) + ALIGNMENT;
  if (span > arena->bytes - arena->used) {
    return NULL;
  }
  unsigned char *memory = arena->base + arena->used;
  arena->used += span;
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
  ASAN_POISON_MEMORY_REGION(memory + bytes, span - bytes);
  return memory;
}

struct scene {
  struct gpu_chain *chain;
  const struct stage_plan *plan; /* the last: that of the stage under test */
  unsigned leading;              /* stages before it */
  struct gpu_program *program;
  struct gpu_buffers buffers[SLOTS];
  void *input[SLOTS];
  void *between[2]; /* of stages, where some lead */
  void *expected, *state, *scratch;
  unsigned slots;
};

static void complain(struct parity *test, const struct stage_plan *plan, const char *what) {
  char parameters[256];
  char format[FORMAT_TEXT];
  test->tally.failed++;
  printf("%s of %s {%s}: %s\n", plan->stage->about->name, format_describe(&plan->input, format),
         cases_describe(plan->stage->about, test->values, parameters, sizeof parameters), what);
}

/* Memory for what the stages that lead give, and the scratch memory of all. */
static bool lay_out_between(struct parity *test, struct scene *scene) {
  size_t output = 0;
  size_t scratch = 0;
  for (unsigned i = 0; i <= scene->leading; i++) {
    const struct stage_plan *plan = gpu_chain_stage(scene->chain, i);
    output = i < scene->leading && plan->output_bytes > output ? plan->output_bytes : output;
    scratch = plan->scratch_bytes > scratch ? plan->scratch_bytes : scratch;
  }
  scene->between[0] = take(&test->arena, output);
  scene->between[1] = take(&test->arena, output);
  scene->scratch = take(&test->arena, scratch);
  return scene->between[0] && scene->between[1] && scene->scratch;
}

/* False if the arena is too small for the case. */
static bool lay_out(struct parity *test, struct scene *scene) {
  const struct stage_plan *plan = scene->plan;
  test->arena.used = 0;
  scene->slots = plan->state_bytes ? SLOTS : 1;
  for (unsigned slot = 0; slot < scene->slots; slot++) {
    scene->input[slot] = take(&test->arena, gpu_chain_stage(scene->chain, 0)->input_bytes);
    scene->buffers[slot] = (struct gpu_buffers){scene->input[slot], take(&test->arena, plan->output_bytes)};
    if (!scene->input[slot] || !scene->buffers[slot].output) {
      return false;
    }
  }
  scene->expected = take(&test->arena, plan->output_bytes);
  scene->state = take(&test->arena, plan->state_bytes);
  if (!scene->expected || !scene->state || !lay_out_between(test, scene)) {
    return false;
  }
  memset(scene->state, 0, plan->state_bytes);
  return true;
}

static bool run_on_device(struct scene *scene, unsigned frame, struct gpu_error *error) {
  const unsigned slot = frame % scene->slots;
  enum gpu_progress progress = GPU_PENDING;
  memset(scene->buffers[slot].output, 0xa5, scene->plan->output_bytes);
  if (!gpu_submit(scene->program, slot, &(struct gpu_frame){.sequence = frame, .restart = frame == 0}, error)) {
    return false;
  }
  while ((progress = gpu_ask(scene->program, slot, error)) == GPU_PENDING) {
    sched_yield();
  }
  return progress == GPU_DONE;
}

static void run_here(struct scene *scene, unsigned frame) {
  const void *source = scene->input[frame % scene->slots];
  const void *input = source;
  for (unsigned i = 0; i <= scene->leading; i++) {
    const struct stage_plan *plan = gpu_chain_stage(scene->chain, i);
    void *output = i == scene->leading ? scene->expected : scene->between[i % 2];
    plan->stage->run(plan, &(struct stage_call){.input = input,
                                                .output = output,
                                                .source = source,
                                                .state = plan->state_bytes ? scene->state : NULL,
                                                .scratch = plan->scratch_bytes ? scene->scratch : NULL,
                                                .sequence = frame,
                                                .restart = frame == 0});
    input = output;
  }
}

static void compare_frame(struct parity *test, const struct scene *scene, unsigned frame) {
  const void *output = scene->buffers[frame % scene->slots].output;
  const bool floats = scene->plan->output.dtype == ELEMENT_FLOAT32;
  struct difference *difference = floats ? &test->tally.floats : &test->tally.bytes;
  const size_t unequal = difference->unequal;
  difference->beyond = false;
  if (floats) {
    compare_floats(difference, scene->expected, output, format_samples(&scene->plan->output));
  } else {
    compare_bytes(difference, scene->expected, output, scene->plan->output_bytes);
  }
  if (difference->beyond || (test->exact && difference->unequal > unequal)) {
    char text[128];
    size_t i = difference->first;
    double expected = floats ? (double)((const float *)scene->expected)[i] : ((const uint8_t *)scene->expected)[i];
    double result = floats ? (double)((const float *)output)[i] : ((const uint8_t *)output)[i];
    snprintf(text, sizeof text, "frame %u, sample %zu is %.9g and not %.9g", frame, i, result, expected);
    complain(test, scene->plan, text);
  }
}

/* Every other case replays its frames from graphs, which the warm-up makes; every third one has a kernel that stays, if it can.
 */
static bool run_frames(struct parity *test, struct scene *scene, uint64_t seed) {
  struct gpu_error error = {0};
  const unsigned frames = scene->plan->state_bytes ? FRAMES_WITH_STATE : 1;
  const bool stays = seed % 3 == 0 && gpu_chain_resides(scene->chain, &error), replays = seed % 2 == 0;
  const struct gpu_options options = {
      .graph = replays ? GPU_GRAPH_ON : GPU_GRAPH_OFF, .timed_one_in = GPU_TIMED_NEVER, .resident = stays, .linger_ns = 20000};
  scene->program = gpu_program_new(test->device, scene->chain, scene->buffers, scene->slots, &options, &error);
  bool good = scene->program && ((!replays && !stays) || gpu_program_warm_up(scene->program, &error));
  for (unsigned frame = 0; good && frame < frames; frame++) {
    cases_fill(gpu_chain_input(scene->chain), scene->input[frame % scene->slots], seed, frame);
    good = run_on_device(scene, frame, &error);
    if (good) {
      run_here(scene, frame);
      compare_frame(test, scene, frame);
    }
  }
  if (!good) {
    complain(test, scene->plan, error.text);
  }
  scene->program = gpu_program_free(scene->program);
  return good;
}

static struct gpu_stage_request request_of(const char *name) {
  struct gpu_stage_request request = {.stage = stage_about_find(name)};
  for (unsigned i = 0; i < request.stage->parameter_count; i++) {
    request.values[i] = (struct stage_value){.count = 1, .numbers = {request.stage->parameters[i].fallback}};
  }
  return request;
}

static void set(struct gpu_stage_request *request, const char *name, double number) {
  for (unsigned i = 0; i < request->stage->parameter_count; i++) {
    if (strcmp(request->stage->parameters[i].name, name) == 0) {
      request->values[i] = (struct stage_value){.given = true, .count = 1, .numbers = {number}};
    }
  }
}

/* What draw draws must come from detect: the picture itself, made small, is a table of boxes. Returns how many stages it takes.
 */
static unsigned lead(const struct stage_about *stage, struct gpu_stage_request requests[MOST_LEADING]) {
  if (strcmp(stage->name, "draw") != 0) {
    return 0;
  }
  requests[0] = request_of("convert");
  set(&requests[0], "to", 0); /* gray */
  requests[1] = request_of("resize");
  set(&requests[1], "width", 6);
  set(&requests[1], "height", 12);
  requests[2] = request_of("normalize");
  set(&requests[2], "scale", 6.0 / 255);
  requests[3] = request_of("detect");
  set(&requests[3], "layout", 3); /* end2end */
  return MOST_LEADING;
}

bool parity_run_case(struct parity *test, const struct stage_about *stage, const struct frame_format *format, uint64_t seed) {
  struct gpu_error error = {0};
  struct gpu_stage_request requests[MOST_LEADING + 1] = {0};
  struct scene scene = {.leading = lead(stage, requests)};
  struct gpu_stage_request *request = &requests[scene.leading];
  request->stage = stage;
  memcpy(request->values, test->values, sizeof request->values);
  scene.chain = gpu_chain_new(format, requests, scene.leading + 1, &error);
  if (!scene.chain) {
    test->tally.refused++;
    gpu_chain_free(scene.chain);
    return true;
  }
  scene.plan = gpu_chain_stage(scene.chain, scene.leading);
  bool good = true;
  if (!lay_out(test, &scene)) {
    test->tally.left_out++;
  } else {
    test->tally.cases++;
    good = run_frames(test, &scene, seed);
  }
  gpu_chain_free(scene.chain);
  return good;
}
