/*
 * Whether both backends compute the same: every stage, every format it takes, many sizes and parameters.
 *
 * What a case is stands in parity_case.c, how far results may be apart in compare.h. `--cpu` tests the CPU backend's slots and,
 * under a sanitizer, the loops of all stages.
 *
 * Exit status: 0, 1 if anything differs or fails, 77 if there is no GPU (1 with FRAMED_REQUIRE_GPU=1).
 */
#include "gpu/gpu.h"
#include "gpu/stages/blur/blur.h"
#include "tests/gpu/parity_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SKIPPED = 77 };

struct options {
  enum gpu_backend_choice backend;
  bool small; /* small frames only, for tools that slow everything down */
  int first_stage, count;
  char **names;
};

/* -- all cases ----------------------------------------------------------------------------------------------------- */

static bool run_size(struct parity *test, const struct stage_about *stage, const struct cases_size *size, uint64_t *seed) {
  static struct stage_value sets[CASES_MAX_SETS][STAGE_MAX_PARAMETERS];
  struct frame_format formats[CASES_MAX_FORMATS];
  unsigned format_count = cases_formats(size, formats);
  for (unsigned f = 0; f < format_count; f++) {
    unsigned set_count = cases_values(stage, size, *seed, sets);
    for (unsigned s = 0; s < set_count; s++) {
      memcpy(test->values, sets[s], sizeof test->values);
      if (!parity_run_case(test, stage, formats + f, ++*seed)) {
        return false;
      }
    }
  }
  return true;
}

static void report(const struct stage_about *stage, const struct parity_tally *tally) {
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

static bool run_sizes(struct parity *test, const struct stage_about *stage, const struct cases_size *sizes, bool small,
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
static bool run_as_if_large(struct parity *test, const struct options *options, uint64_t *seed) {
  if (options->backend == GPU_BACKEND_CPU) {
    return true;
  }
  blur_pretended_processors = 2;
  bool good = run_sizes(test, &blur_about, cases_as_if_large, options->small, seed);
  blur_pretended_processors = 0;
  return good;
}

static bool run_stage(struct parity *test, const struct stage_about *stage, const struct options *options) {
  uint64_t seed = 1;
  test->tally = (struct parity_tally){0};
  bool good = run_sizes(test, stage, cases_sizes, options->small, &seed);
  if (good && stage == &blur_about) {
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
  static const char *const left_out[] = {"fault", "model", "kernel", "library"};
  for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
    if (strcmp(name, left_out[i]) == 0) {
      return false;
    }
  }
  return options->first_stage == options->count;
}

static int run_all(struct parity *test, const struct options *options) {
  unsigned checks = 0;
  unsigned failures = 0;
  bool good = true;
  for (const struct stage_about *const *stage = stage_abouts; good && *stage; stage++) {
    if (is_wanted(options, (*stage)->name)) {
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
    } else {
      fprintf(stderr, "usage: %s [--cpu] [--small] [STAGE...]\n", argv[0]);
      return false;
    }
  }
  for (int i = options->first_stage; i < argc; i++) {
    if (!stage_about_find(argv[i])) {
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

static int with_device(struct parity *test, const struct options *options) {
  struct gpu_error error = {0};
  struct parity_arena *arena = &test->arena;
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

int main(int argc, char **argv) {
  static struct parity test;
  struct options options;
  struct gpu_error error = {0};
  const char *required = getenv("FRAMED_REQUIRE_GPU");
  if (!parse(&options, argc, argv)) {
    return EXIT_FAILURE;
  }
  test.exact = options.backend == GPU_BACKEND_CPU;
  test.device = gpu_open(options.backend, 0, 1, &error);
  if (!test.device) {
    say("no device", &error);
    return error.no_device && !(required && strcmp(required, "1") == 0) ? SKIPPED : EXIT_FAILURE;
  }
  int status = with_device(&test, &options);
  gpu_close(test.device);
  return status;
}
