/*
 * What it takes to compute frames in bands of rows on several GPUs, and that every result is that of one: blur and stats, from
 * small frames to 8K, on 1, 2, 4 and 8 devices, as far as there are so many. Prints a table: microseconds for a frame that is
 * alone, from the call that submits it to the answer that it is done, in the median; and from frame to frame with all slots
 * busy.
 *
 *   gpu-split [--cpu]
 *
 * Exit status: 0, 1 if a result differs or anything fails.
 */
#include "gpu/backend.h"
#include "tests/gpu/cases.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 8, SLOTS = 4, ROUNDS = 101, WAYS = 4 };

static const unsigned ways[WAYS] = {1, 2, 4, 8};
static const uint32_t sizes[][2] = {{256, 256}, {640, 480}, {1280, 720}, {1920, 1080}, {3840, 2160}, {7680, 4320}};

struct bench {
  struct gpu_device *devices[MOST], *joint[WAYS];
  unsigned count;
  unsigned char *memory, *expected;
  size_t bytes;
};

static void require(bool good, const char *what, const struct gpu_error *error) {
  if (!good) {
    fprintf(stderr, "%s: %s\n", what, error->text);
    exit(EXIT_FAILURE);
  }
}

static void finish(struct gpu_program *program, unsigned slot) {
  struct gpu_error error;
  enum gpu_progress progress;
  while ((progress = gpu_ask(program, slot, &error)) == GPU_PENDING) {
    if (program->device->workers > 0) {
      sched_yield();
    }
  }
  require(progress == GPU_DONE, "a frame", &error);
}

static void submit(struct gpu_program *program, unsigned slot, uint64_t sequence) {
  struct gpu_error error;
  require(gpu_submit(program, slot, &(struct gpu_frame){.sequence = sequence}, &error), "a frame", &error);
}

static int compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static double time_alone(struct gpu_program *program) {
  int64_t times[ROUNDS];
  for (unsigned i = 0; i < ROUNDS; i++) {
    const int64_t begin = gpu_now();
    submit(program, 0, i);
    finish(program, 0);
    times[i] = gpu_now() - begin;
  }
  qsort(times, ROUNDS, sizeof times[0], compare);
  return (double)times[ROUNDS / 2] / 1e3;
}

static double time_busy(struct gpu_program *program) {
  const int64_t begin = gpu_now();
  for (unsigned i = 0; i < ROUNDS + SLOTS; i++) {
    if (i >= SLOTS) {
      finish(program, i % SLOTS);
    }
    if (i < ROUNDS) {
      submit(program, i % SLOTS, i);
    }
  }
  return (double)(gpu_now() - begin) / 1e3 / ROUNDS;
}

/* The first of the ways is one device by itself, whose result the others must have. */
static void measure(struct bench *bench, unsigned way, const struct gpu_chain *chain) {
  const struct gpu_options options = {.timed_one_in = GPU_TIMED_NEVER};
  struct gpu_buffers buffers[SLOTS];
  struct gpu_error error;
  unsigned char *next = bench->memory;
  for (unsigned i = 0; i < SLOTS; i++) {
    buffers[i] = (struct gpu_buffers){.input = next, .output = next + bench->bytes / SLOTS / 2};
    next += bench->bytes / SLOTS;
    cases_fill(&chain->input, (void *)(uintptr_t)buffers[i].input, 7, 0);
    memset(buffers[i].output, 0xa5, chain->output_bytes);
  }
  struct gpu_program *program = gpu_program_new(bench->joint[way], chain, buffers, SLOTS, &options, &error);
  require(program && gpu_program_warm_up(program, &error), "a program", &error);
  const double alone = time_alone(program), busy = time_busy(program);
  if (way == 0) {
    memcpy(bench->expected, buffers[0].output, chain->output_bytes);
  }
  for (unsigned i = 0; i < SLOTS; i++) {
    if (memcmp(bench->expected, buffers[i].output, chain->output_bytes) != 0) {
      fprintf(stderr, "on %u devices the result is another one\n", ways[way]);
      exit(EXIT_FAILURE);
    }
  }
  printf("  %9.1f %9.1f", alone, busy);
  gpu_program_free(program);
}

static void measure_sizes(struct bench *bench, const char *name, double sigma) {
  struct gpu_stage_request request = {.stage = stage_find(name)};
  struct gpu_error error;
  for (unsigned i = 0; i < request.stage->parameter_count; i++) {
    request.values[i] = (struct stage_value){.count = 1, .numbers = {request.stage->parameters[i].fallback}};
  }
  if (sigma > 0) {
    request.values[0] = (struct stage_value){.given = true, .count = 1, .numbers = {sigma}};
  }
  printf("%s (%g) of gray; us alone and busy on 1, 2, 4 and 8 devices\n", name, request.values[0].numbers[0]);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const struct frame_format format = format_image(PIXELS_GRAY, sizes[i][0], sizes[i][1]);
    struct gpu_chain *chain = gpu_chain_new(&format, &request, 1, &error);
    require(chain != NULL, name, &error);
    printf("  %5ux%-5u", sizes[i][0], sizes[i][1]);
    for (unsigned way = 0; way < WAYS && ways[way] <= bench->count; way++) {
      measure(bench, way, chain);
    }
    printf("\n");
    fflush(stdout);
    gpu_chain_free(chain);
  }
}

/* What the host takes to add up what so many devices counted. */
static void measure_merge(void) {
  static uint64_t levels[MOST][256];
  const void *bands[MOST];
  float result[260];
  struct gpu_error error;
  const struct frame_format format = format_image(PIXELS_GRAY, 7680, 4320);
  const struct gpu_stage_request request = {.stage = stage_find("stats"),
                                            .values = {{.count = 1}, {.count = 1, .numbers = {256}}}};
  struct gpu_chain *chain = gpu_chain_new(&format, &request, 1, &error);
  require(chain != NULL, "stats", &error);
  for (unsigned i = 0; i < MOST; i++) {
    bands[i] = levels[i];
  }
  for (unsigned way = 1; way < WAYS; way++) {
    const int64_t begin = gpu_now();
    for (unsigned i = 0; i < 10000; i++) {
      levels[0][i % 256]++;
      request.stage->merge(&chain->plans[0], bands, ways[way], result);
    }
    printf("the host merges stats of %u devices in %.2f us\n", ways[way], (double)(gpu_now() - begin) / 1e7);
  }
  gpu_chain_free(chain);
}

int main(int argc, char **argv) {
  const enum gpu_backend_choice backend = argc > 1 && strcmp(argv[1], "--cpu") == 0 ? GPU_BACKEND_CPU : GPU_BACKEND_CUDA;
  static struct bench bench = {.bytes = (size_t)7680 * 4320 * 2 * SLOTS};
  struct gpu_error error = {0};
  bench.count = gpu_count(backend, 4) < MOST ? gpu_count(backend, 4) : MOST;
  bench.expected = malloc(bench.bytes / SLOTS);
  bench.memory = mmap(NULL, bench.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(bench.expected && bench.memory != MAP_FAILED && bench.count > 0, "memory or devices", &error);
  gpu_expect(SLOTS);
  for (unsigned i = 0; i < bench.count; i++) {
    bench.devices[i] = gpu_open(backend, i, 1, &error);
    require(bench.devices[i] != NULL, "a device", &error);
  }
  for (unsigned way = 0; way < WAYS && ways[way] <= bench.count; way++) {
    bench.joint[way] = way == 0 ? bench.devices[0] : gpu_join_rows(bench.devices, ways[way], &error);
    require(bench.joint[way] != NULL, "joined devices", &error);
  }
  printf("%u devices: %s\n", bench.count, gpu_device_name(bench.devices[0]));
  require(gpu_pin(bench.devices[0], bench.memory, bench.bytes, &error), "pinned memory", &error);
  measure_merge();
  measure_sizes(&bench, "blur", 2);
  measure_sizes(&bench, "blur", 16);
  measure_sizes(&bench, "stats", 0);
  gpu_unpin(bench.devices[0], bench.memory, bench.bytes);
  for (unsigned way = 1; way < WAYS; way++) {
    gpu_close(bench.joint[way]);
  }
  for (unsigned i = 0; i < bench.count; i++) {
    gpu_close(bench.devices[i]);
  }
  return EXIT_SUCCESS;
}
