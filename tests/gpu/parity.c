/*
 * Whether both backends compute the same: every stage, every format it takes, many sizes and parameters.
 *
 * Each case runs run() of the stage directly (and of those that lead to it, where it takes only what they give), and the same
 * frames through a program of a device, as the daemon does it; so `--cpu` tests the CPU backend's slots and, under a sanitizer,
 * the loops of all stages. How far results may be apart is in compare.h. With `--split` frames are computed in bands of rows on
 * several devices, or on one that is opened several times.
 *
 * Exit status: 0, 1 if anything differs or fails, 77 if there is no GPU (1 with FRAMED_REQUIRE_GPU=1).
 */
#include "gpu/gpu.h"
#include "gpu/stages/blur/blur.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/compare.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

enum { BANDS = 3, SLOTS = 2, FRAMES_WITH_STATE = 5, SKIPPED = 77, ALIGNMENT = 256, MOST_LEADING = 4 };

struct options {
  enum gpu_backend_choice backend;
  bool split;
  bool small; /* small frames only, for tools that slow everything down */
  int first_stage, count;
  char **names;
};

/* Memory for all cases, taken once, because registering it with a device takes long. */
struct arena {
  unsigned char *base;
  size_t bytes, used;
};

struct tally {
  unsigned cases, refused, left_out, failed;
  struct difference bytes, floats;
};

struct test {
  struct gpu_device *device, *parts[BANDS];
  bool split, exact; /* the host's own loops, of other rows */
  struct arena arena;
  struct tally tally; /* of the current stage */
  struct stage_value values[STAGE_MAX_PARAMETERS];
};

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Memory with a fence behind it, which AddressSanitizer watches. NULL if there is not enough left. */
static void *take(struct arena *arena, size_t bytes) {
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

/* -- one case ------------------------------------------------------------------------------------------------------ */

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

static void complain(struct test *test, const struct stage_plan *plan, const char *what) {
  char parameters[256];
  char format[FORMAT_TEXT];
  test->tally.failed++;
  printf("%s of %s {%s}: %s\n", plan->stage->name, format_describe(&plan->input, format),
         cases_describe(plan->stage, test->values, parameters, sizeof parameters), what);
}

/* Memory for what the stages that lead give, and the scratch memory of all. */
static bool lay_out_between(struct test *test, struct scene *scene) {
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
static bool lay_out(struct test *test, struct scene *scene) {
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

static void compare_frame(struct test *test, const struct scene *scene, unsigned frame) {
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
static bool run_frames(struct test *test, struct scene *scene, uint64_t seed) {
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
  struct gpu_stage_request request = {.stage = stage_find(name)};
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
static unsigned lead(const struct stage_descriptor *stage, struct gpu_stage_request requests[MOST_LEADING]) {
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

/* False if the device is of no more use. */
static bool run_case(struct test *test, const struct stage_descriptor *stage, const struct frame_format *format,
                     uint64_t seed) {
  struct gpu_error error = {0};
  struct gpu_stage_request requests[MOST_LEADING + 1] = {0};
  struct scene scene = {.leading = lead(stage, requests)};
  struct gpu_stage_request *request = &requests[scene.leading];
  request->stage = stage;
  memcpy(request->values, test->values, sizeof request->values);
  scene.chain = gpu_chain_new(format, requests, scene.leading + 1, &error);
  if (!scene.chain || (test->split && !gpu_chain_splits(scene.chain, &error))) {
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

/* -- all cases ----------------------------------------------------------------------------------------------------- */

static bool run_size(struct test *test, const struct stage_descriptor *stage, const struct cases_size *size, uint64_t *seed) {
  static struct stage_value sets[CASES_MAX_SETS][STAGE_MAX_PARAMETERS];
  struct frame_format formats[CASES_MAX_FORMATS];
  unsigned format_count = cases_formats(size, formats);
  for (unsigned f = 0; f < format_count; f++) {
    unsigned set_count = cases_values(stage, size, *seed, sets);
    for (unsigned s = 0; s < set_count; s++) {
      memcpy(test->values, sets[s], sizeof test->values);
      if (!run_case(test, stage, formats + f, ++*seed)) {
        return false;
      }
    }
  }
  return true;
}

static void report(const struct stage_descriptor *stage, const struct tally *tally) {
  const struct difference *bytes = &tally->bytes;
  const struct difference *floats = &tally->floats;
  printf("%-10s %5u cases, %5u refused, %3u too large here", stage->name, tally->cases, tally->refused, tally->left_out);
  if (bytes->samples) {
    printf("; 8 bit: at most %g apart, %.4g %% unequal", bytes->worst, 100.0 * (double)bytes->unequal / (double)bytes->samples);
  }
  if (floats->samples) {
    printf("; float: at most %.2g apart, %.4g %% unequal", floats->worst,
           100.0 * (double)floats->unequal / (double)floats->samples);
  }
  printf("%s\n", tally->failed ? "  FAILED" : "");
  fflush(stdout);
}

static bool run_sizes(struct test *test, const struct stage_descriptor *stage, const struct cases_size *sizes, bool small,
                      uint64_t *seed) {
  bool good = true;
  for (const struct cases_size *size = sizes; good && size->width; size++) {
    if (size->effort <= CASES_SMALL || !small) {
      good = run_size(test, stage, size, seed);
    }
  }
  return good;
}

/* With few processors, blocks have work that is long, or in two places. The CPU has no such kernels. */
static bool run_as_if_large(struct test *test, const struct options *options, uint64_t *seed) {
  if (options->backend == GPU_BACKEND_CPU) {
    return true;
  }
  blur_pretended_processors = 2;
  bool good = run_sizes(test, &blur_stage, cases_as_if_large, options->small, seed);
  blur_pretended_processors = 0;
  return good;
}

static bool run_stage(struct test *test, const struct stage_descriptor *stage, const struct options *options) {
  uint64_t seed = 1;
  test->tally = (struct tally){0};
  bool good = run_sizes(test, stage, cases_sizes, options->small, &seed);
  if (good && stage == &blur_stage) {
    good = run_as_if_large(test, options, &seed);
  }
  if (test->tally.cases == 0) {
    printf("%s: no case that the stage takes\n", stage->name);
    test->tally.failed++;
  }
  report(stage, &test->tally);
  return good;
}

static bool is_wanted(const struct options *options, const char *name) {
  for (int i = options->first_stage; i < options->count; i++) {
    if (strcmp(options->names[i], name) == 0) {
      return true;
    }
  }
  /* `fault` kills the device, and is tested where that is expected; the others run what a user's file says. */
  static const char *const left_out[] = {"fault", "model", "kernel", "library", "frei0r"};
  for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
    if (strcmp(name, left_out[i]) == 0) {
      return false;
    }
  }
  return options->first_stage == options->count;
}

static int run_all(struct test *test, const struct options *options) {
  unsigned checks = 0;
  unsigned failures = 0;
  bool good = true;
  for (const struct stage_descriptor *const *stage = stage_descriptors; good && *stage; stage++) {
    if (is_wanted(options, (*stage)->name) && (!options->split || (*stage)->border)) {
      good = run_stage(test, *stage, options);
      checks += test->tally.cases;
      failures += test->tally.failed;
    }
  }
  unsigned passed = checks > failures ? checks - failures : 0;
  printf("%u%%: Checks: %u, Failures: %u, Errors: %u\n", checks ? 100 * passed / checks : 0, checks, failures, good ? 0 : 1);
  return checks > 0 && failures == 0 && good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* -- set-up -------------------------------------------------------------------------------------------------------- */

static bool parse(struct options *options, int argc, char **argv) {
  *options = (struct options){.backend = GPU_BACKEND_CUDA, .first_stage = 1, .count = argc, .names = argv};
  while (options->first_stage < argc && argv[options->first_stage][0] == '-') {
    const char *option = argv[options->first_stage++];
    if (strcmp(option, "--small") == 0) {
      options->small = true;
    } else if (strcmp(option, "--cpu") == 0) {
      options->backend = GPU_BACKEND_CPU;
    } else if (strcmp(option, "--split") == 0) {
      options->split = true;
    } else {
      fprintf(stderr, "usage: %s [--cpu] [--small] [--split] [STAGE...]\n", argv[0]);
      return false;
    }
  }
  for (int i = options->first_stage; i < argc; i++) {
    if (!stage_find(argv[i])) {
      fprintf(stderr, "there is no stage `%s`\n", argv[i]);
      return false;
    }
  }
  return true;
}

static int say(const char *what, const struct gpu_error *error) {
  fprintf(stderr, "%s: %s%s%s\n", what, error->text, error->remedy[0] ? "; " : "", error->remedy);
  return EXIT_FAILURE;
}

static int with_device(struct test *test, const struct options *options) {
  struct gpu_error error = {0};
  struct arena *arena = &test->arena;
  arena->bytes = (size_t)(options->small ? 1 : 64) << 24;
  arena->base = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arena->base == MAP_FAILED) {
    perror("memory for the frames");
    return EXIT_FAILURE;
  }
  printf("%s: %s\n", gpu_backend_name(test->device), gpu_device_name(test->device));
  int status = EXIT_FAILURE;
  if (gpu_pin(test->device, arena->base, arena->bytes, &error)) {
    status = run_all(test, options);
    gpu_unpin(test->device, arena->base, arena->bytes);
  } else {
    say("pinned memory", &error);
  }
  munmap(arena->base, arena->bytes);
  return status;
}

static bool open_devices(struct test *test, const struct options *options, struct gpu_error *error) {
  const unsigned there = gpu_count(options->backend, BANDS), count = options->split ? BANDS : 1;
  test->split = options->split;
  test->exact = options->backend == GPU_BACKEND_CPU;
  for (unsigned i = 0; i < count; i++) {
    test->parts[i] = gpu_open(options->backend, there > 0 ? i % there : 0, 1, error);
    if (!test->parts[i]) {
      return false;
    }
  }
  test->device = test->split ? gpu_join_rows(test->parts, count, error) : test->parts[0];
  return test->device != NULL;
}

static void close_devices(struct test *test) {
  if (test->split) {
    gpu_close(test->device);
  }
  for (unsigned i = 0; i < BANDS; i++) {
    gpu_close(test->parts[i]);
  }
}

int main(int argc, char **argv) {
  static struct test test;
  struct options options;
  struct gpu_error error = {0};
  const char *required = getenv("FRAMED_REQUIRE_GPU");
  if (!parse(&options, argc, argv)) {
    return EXIT_FAILURE;
  }
  if (!open_devices(&test, &options, &error)) {
    say("no device", &error);
    return error.no_device && !(required && strcmp(required, "1") == 0) ? SKIPPED : EXIT_FAILURE;
  }
  int status = with_device(&test, &options);
  close_devices(&test);
  return status;
}
