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
#include "gpu/gpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

enum { USAGE = 64 };

struct options {
  enum gpu_backend_choice backend;
  long repeat;
  const char *all; /* size of the frames; NULL: one chain */
  bool jobs;
  struct frame_format format;
  struct gpu_stage_request requests[GPU_MAX_STAGES];
  unsigned count;
};

/* -- arguments ---------------------------------------------------------------------------------------------------- */

static bool parse_number(const struct stage_parameter *parameter, const char *text, double *number) {
  if (parameter->type == STAGE_CHOICE) {
    for (unsigned i = 0; parameter->choices[i]; i++) {
      if (strcmp(parameter->choices[i], text) == 0) {
        *number = i;
        return true;
      }
    }
    return false;
  }
  char *end = NULL;
  *number = strtod(text, &end);
  return end != text && *end == '\0' && *number >= parameter->minimum && *number <= parameter->maximum;
}

static bool parse_value(const struct stage_parameter *parameter, char *text, struct stage_value *value) {
  char *rest = NULL;
  *value = (struct stage_value){.given = true};
  for (char *part = strtok_r(text, ":", &rest); part; part = strtok_r(NULL, ":", &rest)) {
    if (value->count == STAGE_MAX_NUMBERS || !parse_number(parameter, part, &value->numbers[value->count++])) {
      return false;
    }
  }
  return value->count > 0;
}

static bool parse_setting(char *text, struct gpu_stage_request *request) {
  char *equals = strchr(text, '=');
  for (unsigned i = 0; equals && i < request->stage->parameter_count; i++) {
    const struct stage_parameter *parameter = &request->stage->parameters[i];
    if (strlen(parameter->name) == (size_t)(equals - text) && strncmp(parameter->name, text, (size_t)(equals - text)) == 0) {
      return parse_value(parameter, equals + 1, &request->values[i]);
    }
  }
  return false;
}

static bool all_required(const struct gpu_stage_request *request) {
  for (unsigned i = 0; i < request->stage->parameter_count; i++) {
    if (request->stage->parameters[i].required && !request->values[i].given) {
      return false;
    }
  }
  return true;
}

/* "NAME" or "NAME: KEY=VALUE,KEY=VALUE"; the text is cut up. */
static bool parse_stage(char *text, struct gpu_stage_request *request) {
  char *colon = strchr(text, ':');
  if (colon) {
    *colon++ = '\0';
  }
  request->stage = stage_find(text);
  if (!request->stage) {
    return false;
  }
  for (unsigned i = 0; i < request->stage->parameter_count; i++) {
    request->values[i] = (struct stage_value){.count = 1, .numbers = {request->stage->parameters[i].fallback}};
  }
  char *rest = NULL;
  for (char *part = colon ? strtok_r(colon, ", ", &rest) : NULL; part; part = strtok_r(NULL, ", ", &rest)) {
    if (!parse_setting(part, request)) {
      return false;
    }
  }
  return all_required(request);
}

static bool parse_format(const char *name, const char *size, struct frame_format *format) {
  unsigned width = 0;
  unsigned height = 0;
  if (sscanf(size, "%ux%u", &width, &height) != 2) {
    return false;
  }
  for (int pixels = PIXELS_NONE + 1; pixels < PIXELS_COUNT; pixels++) {
    if (strcmp(pixel_format_names[pixels], name) == 0) {
      *format = format_image((enum pixel_format)pixels, width, height);
      return true;
    }
  }
  return false;
}

static bool parse_option(struct options *options, const char *name, const char *value) {
  if (strcmp(name, "--repeat") == 0) {
    options->repeat = strtol(value, NULL, 10);
    return options->repeat > 0;
  }
  if (strcmp(name, "--all") == 0) {
    options->all = value;
    return true;
  }
  options->backend = strcmp(value, "cuda") == 0 ? GPU_BACKEND_CUDA : GPU_BACKEND_CPU;
  return strcmp(name, "--backend") == 0 && (strcmp(value, "cuda") == 0 || strcmp(value, "cpu") == 0);
}

/* The chain, cut up as parse_stage() does. */
static bool parse_stages(struct options *options, int count, char **stages) {
  for (options->count = 0; count > 0; count--, stages++, options->count++) {
    if (options->count == GPU_MAX_STAGES || !parse_stage(*stages, &options->requests[options->count])) {
      fprintf(stderr, "run-stage: stage %u (%s) is unknown, or one of its settings is unknown, missing or out of bounds\n",
              options->count + 1, *stages);
      return false;
    }
  }
  return true;
}

static bool parse(struct options *options, int argc, char **argv) {
  *options = (struct options){.backend = GPU_BACKEND_CPU};
  int i = 1;
  for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
    if (!parse_option(options, argv[i], argv[i + 1])) {
      return false;
    }
  }
  if (i + 1 == argc && strcmp(argv[i], "--jobs") == 0) {
    options->jobs = true;
    return true;
  }
  if (options->all) {
    return i == argc;
  }
  return i + 1 < argc && parse_format(argv[i], argv[i + 1], &options->format) &&
         parse_stages(options, argc - i - 2, argv + i + 2);
}

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
  bool good = parse_format(row->format, options->all, &one.format) && parse_stages(&one, 1, &stage) && set_up(&bench, &one);
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

static bool parse_job(struct options *options, char *line) {
  char *arguments[2 + GPU_MAX_STAGES];
  int count = 0;
  char *rest = NULL;
  for (char *part = strtok_r(line, "\t\n", &rest); part; part = strtok_r(NULL, "\t\n", &rest)) {
    if (count == 2 + GPU_MAX_STAGES) {
      return false;
    }
    arguments[count++] = part;
  }
  return count >= 2 && parse_format(arguments[0], arguments[1], &options->format) &&
         parse_stages(options, count - 2, arguments + 2);
}

static bool answer_job(struct options *options, char *line) {
  struct bench bench = {0};
  int64_t unused = INT64_MAX;
  bool good = parse_job(options, line) && set_up(&bench, options) && fread(bench.memory, bench.input_bytes, 1, stdin) == 1 &&
              run_once(&bench, 0, &unused) && printf("%zu\n", bench.output_bytes) > 0 &&
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
  if (!parse(&options, argc, argv)) {
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
