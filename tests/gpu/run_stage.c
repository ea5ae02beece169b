/*
 * Runs stages on raw frames, for tests that compare them with other programs, and for measuring them.
 *
 *   run-stage [--backend cpu|cuda] [--repeat N] FORMAT WIDTHxHEIGHT 'NAME: KEY=VALUE,KEY=VALUE' ...
 *   run-stage [--backend cpu|cuda] [--repeat N] --all WIDTHxHEIGHT
 *   run-stage [--backend cpu|cuda] --jobs
 *
 * Frames come from standard input and results go to standard output, until the input ends. Lists of numbers are
 * written 1:2:3. With --repeat each frame runs N times, and the shortest time of the stages alone goes to standard
 * error, in nanoseconds. The chain runs as in the daemon, through a program of a device.
 *
 * With --all a list of stages runs on one made frame each, and a table says what they took beside the floor: the time in
 * which the device's memory could have given their input and taken their output (state: both), at the rate at which it copies a
 * frame.
 *
 * With --jobs standard input is a line of the same arguments, parted by tabs, and one frame, again and again; each is
 * answered with a line that says how many bytes follow, and the result. So many chains cost one device to open.
 */
#include "tests/gpu/run_stage_arguments.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { USAGE = 64 };

/* -- running ------------------------------------------------------------------------------------------------------ */

struct bench {
  struct gpu_device *device;
  struct gpu_chain *chain;
  struct gpu_program *program;
  void *memory; /* the input, and behind it the output */
  size_t memory_bytes, input_bytes, output_bytes, output_offset;
};

static bool complain(const struct gpu_error *error) {
  fprintf(stderr, "run-stage: %s%s%s\n", error->text, error->remedy[0] ? "; " : "", error->remedy);
  return false;
}

static bool take_memory(struct bench *bench, struct gpu_error *error) {
  enum { PAGE = 4096 };
  bench->output_offset = (bench->input_bytes + PAGE - 1) / PAGE * PAGE;
  bench->memory_bytes = bench->output_offset + (bench->output_bytes + PAGE - 1) / PAGE * PAGE;
  bench->memory = mmap(NULL, bench->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bench->memory == MAP_FAILED) {
    bench->memory = NULL;
    perror("run-stage: memory for a frame");
    return false;
  }
  return gpu_pin(bench->device, bench->memory, bench->memory_bytes, error) || complain(error);
}

static bool set_up(struct bench *bench, const struct options *options) {
  struct gpu_error error = {0};
  if (!format_bytes(&options->format, &bench->input_bytes)) {
    fprintf(stderr, "run-stage: that is not a size that a frame can have\n");
    return false;
  }
  bench->chain = gpu_chain_new(&options->format, options->requests, options->count, &error);
  bench->device = bench->chain ? gpu_open(options->backend, 0, 1, &error) : NULL;
  if (!bench->device || !format_bytes(gpu_chain_output(bench->chain), &bench->output_bytes)) {
    return complain(&error);
  }
  if (!take_memory(bench, &error)) {
    return false;
  }
  struct gpu_buffers buffers = {bench->memory, (char *)bench->memory + bench->output_offset};
  const struct gpu_options timed = {.graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  bench->program = gpu_program_new(bench->device, bench->chain, &buffers, 1, &timed, &error);
  return bench->program || complain(&error);
}

static void tear_down(struct bench *bench) {
  bench->program = gpu_program_free(bench->program);
  if (bench->memory) {
    gpu_unpin(bench->device, bench->memory, bench->memory_bytes);
    munmap(bench->memory, bench->memory_bytes);
  }
  bench->device = gpu_close(bench->device);
  bench->chain = gpu_chain_free(bench->chain);
}

/* Runs the frame once, and lowers `shortest` to the time that its stages took, where the device knows it. */
static bool run_once(struct bench *bench, uint64_t sequence, int64_t *shortest) {
  struct gpu_error error = {0};
  struct gpu_times times;
  enum gpu_progress progress = GPU_PENDING;
  if (!gpu_submit(bench->program, 0, &(struct gpu_frame){.sequence = sequence, .restart = sequence == 0}, &error)) {
    return complain(&error);
  }
  while ((progress = gpu_ask(bench->program, 0, &error)) == GPU_PENDING) {
    sched_yield();
  }
  if (progress == GPU_DEAD) {
    return complain(&error);
  }
  if (gpu_times(bench->program, 0, &times) && times.kernel < *shortest) {
    *shortest = times.kernel;
  }
  return true;
}

static bool run_all(struct bench *bench, long repeat) {
  uint64_t sequence = 0;
  int64_t shortest = INT64_MAX;
  while (fread(bench->memory, bench->input_bytes, 1, stdin) == 1) {
    for (long i = 0; i < (repeat > 0 ? repeat : 1); i++) {
      if (!run_once(bench, sequence++, &shortest)) {
        return false;
      }
    }
    if (fwrite((char *)bench->memory + bench->output_offset, bench->output_bytes, 1, stdout) != 1) {
      perror("run-stage: standard output");
      return false;
    }
  }
  if (repeat > 0 && shortest < INT64_MAX) {
    fprintf(stderr, "%lld\n", (long long)shortest);
  }
  return fflush(stdout) == 0;
}

/* -- the table ---------------------------------------------------------------------------------------------------- */

struct row {
  const char *format, *stage;
};

/* The first copies a frame, and so says how fast the device's memory is. */
static const struct row rows[] = {
    {"rgb24", "convert: to=rgb24"},
    {"yuv420p", "convert: to=rgb24"},
    {"yuv420p", "convert: to=gray"},
    {"yuv420p", "convert: to=grayf32le"},
    {"yuv420p", "convert: to=nv12"},
    {"nv12", "convert: to=rgb24"},
    {"yuyv422", "convert: to=rgb24"},
    {"yuyv422", "convert: to=gray"},
    {"rgb24", "convert: to=gray"},
    {"rgb24", "convert: to=grayf32le"},
    {"rgb24", "convert: to=yuv420p"},
    {"rgb24", "convert: to=nv12"},
    {"rgb24", "convert: to=yuyv422"},
    {"rgb24", "convert: to=bgr24"},
    {"gray", "convert: to=rgb24"},
    {"gray", "convert: to=yuv420p"},
    {"gray", "convert: to=grayf32le"},
    {"grayf32le", "convert: to=gray"},
    {"gray", "affine: scale=2,offset=1"},
    {"grayf32le", "affine: scale=2,offset=1"},
    {"gray", "threshold"},
    {"grayf32le", "threshold"},
    {"gray", "normalize"},
    {"rgb24", "normalize"},
    {"gray", "sobel"},
    {"gray", "sobel: output=x"},
    {"grayf32le", "sobel"},
    {"gray", "blur: sigma=1"},
    {"gray", "blur: sigma=2"},
    {"gray", "blur: sigma=4"},
    {"gray", "blur: sigma=10"},
    {"gray", "blur: sigma=64"},
    {"rgb24", "blur: sigma=2"},
    {"rgb24", "blur: sigma=10"},
    {"grayf32le", "blur: sigma=2"},
    {"gray", "resize: width=7680,height=4320"},
    {"gray", "resize: width=3840,height=2160"},
    {"rgb24", "resize: width=7680,height=4320"},
    {"rgb24", "resize: width=3840,height=2160"},
    {"nv12", "resize: width=7680,height=4320"},
    {"grayf32le", "resize: width=7680,height=4320"},
    {"gray", "resize: width=7680,height=4320,filter=nearest"},
    {"rgb24", "resize: width=7680,height=4320,filter=nearest"},
    {"gray", "resize: width=3840,height=2160,filter=area"},
    {"gray", "resize: width=1920,height=1080,filter=area"},
    {"rgb24", "resize: width=3840,height=2160,filter=area"},
    {"gray", "motion"},
    {"gray", "motion: output=boxes"},
    {"gray", "stats"},
    {"grayf32le", "stats"},
    {"gray", "work: rounds=1"},
};

/* Any bytes will do, but floats are to be levels. */
static void fill(const struct bench *bench, bool floats) {
  uint32_t random = 1;
  for (size_t i = 0; i < bench->input_bytes / sizeof random; i++) {
    random = random * 1664525U + 1013904223U;
    if (floats) {
      ((float *)bench->memory)[i] = (float)(random >> 8) / 16777216.0F;
    } else {
      ((uint32_t *)bench->memory)[i] = random ^ random >> 13;
    }
  }
}

/* The shortest time of a row's stage in nanoseconds; `bytes` gets what it reads and writes. */
static bool time_row(const struct options *options, const struct row *row, int64_t *shortest, size_t *bytes) {
  struct options one = *options;
  struct bench bench = {0};
  char text[STAGE_TEXT];
  char *stage = text;
  snprintf(text, sizeof text, "%s", row->stage);
  bool good = arguments_parse_format(row->format, options->all, &one.format) && arguments_parse_stages(&one, 1, &stage) &&
              set_up(&bench, &one);
  *shortest = INT64_MAX;
  if (good) {
    fill(&bench, one.format.dtype == ELEMENT_FLOAT32);
  }
  for (long i = 0; good && i < (options->repeat > 0 ? options->repeat : 1); i++) {
    good = run_once(&bench, (uint64_t)i, shortest);
  }
  *bytes = bench.input_bytes + bench.output_bytes;
  if (good) {
    *bytes += 2 * gpu_chain_stage(bench.chain, 0)->state_bytes;
  }
  tear_down(&bench);
  return good;
}

static bool print_table(const struct options *options) {
  double rate = 0; /* bytes a nanosecond */
  printf("%-10s %-48s %10s %10s %8s\n", "input", "stage", "floor us", "time us", "ratio");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t shortest;
    size_t bytes;
    if (!time_row(options, &rows[i], &shortest, &bytes)) {
      return false;
    }
    double nanoseconds = (double)(shortest > 0 ? shortest : 1);
    rate = i == 0 ? (double)bytes / nanoseconds : rate;
    double floor = (double)bytes / rate;
    printf("%-10s %-48s %10.1f %10.1f %8.2f\n", rows[i].format, rows[i].stage, floor / 1e3, nanoseconds / 1e3,
           floor / nanoseconds);
    fflush(stdout);
  }
  printf("copied at %.0f GB/s, reading and writing together\n", rate);
  return true;
}

/* -- jobs --------------------------------------------------------------------------------------------------------- */

static bool answer_job(struct options *options, char *line) {
  struct bench bench = {0};
  int64_t unused = INT64_MAX;
  bool good = arguments_parse_job(options, line) && set_up(&bench, options) &&
              fread(bench.memory, bench.input_bytes, 1, stdin) == 1 && run_once(&bench, 0, &unused) &&
              printf("%zu\n", bench.output_bytes) > 0 &&
              fwrite((char *)bench.memory + bench.output_offset, bench.output_bytes, 1, stdout) == 1 && fflush(stdout) == 0;
  tear_down(&bench);
  return good;
}

/* The device stays open from the first job to the last. */
static bool run_jobs(struct options *options) {
  struct gpu_error error = {0};
  struct gpu_device *device = gpu_open(options->backend, 0, 1, &error);
  char *line = NULL;
  size_t size = 0;
  bool good = device || complain(&error);
  while (good && getline(&line, &size, stdin) > 0) {
    good = answer_job(options, line);
  }
  free(line);
  gpu_close(device);
  return good;
}

int main(int argc, char **argv) {
  struct options options;
  struct bench bench = {0};
  if (!arguments_parse(&options, argc, argv)) {
    fprintf(stderr,
            "usage: %s [--backend cpu|cuda] [--repeat N] FORMAT WIDTHxHEIGHT ['NAME: KEY=VALUE,...']...\n"
            "       %s [--backend cpu|cuda] [--repeat N] --all WIDTHxHEIGHT\n"
            "       %s [--backend cpu|cuda] --jobs\n",
            argv[0], argv[0], argv[0]);
    return USAGE;
  }
  if (options.jobs) {
    return run_jobs(&options) ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  if (options.all) {
    return print_table(&options) ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  bool good = set_up(&bench, &options) && run_all(&bench, options.repeat);
  tear_down(&bench);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
