/*
 * Runs stages on raw frames, for tests that compare them with other programs, and for measuring them.
 *
 *   run-stage [--backend cpu|cuda] [--repeat N] FORMAT WIDTHxHEIGHT 'NAME: KEY=VALUE,KEY=VALUE' ...
 *
 * Frames come from standard input and results go to standard output, until the input ends. Lists of numbers are
 * written 1:2:3. With --repeat each frame runs N times, and the shortest time of the stages alone goes to standard
 * error, in nanoseconds. The chain runs as in the daemon, through a program of a device.
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
  options->backend = strcmp(value, "cuda") == 0 ? GPU_BACKEND_CUDA : GPU_BACKEND_CPU;
  return strcmp(name, "--backend") == 0 && (strcmp(value, "cuda") == 0 || strcmp(value, "cpu") == 0);
}

static bool parse(struct options *options, int argc, char **argv) {
  *options = (struct options){.backend = GPU_BACKEND_CPU};
  int i = 1;
  for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
    if (!parse_option(options, argv[i], argv[i + 1])) {
      return false;
    }
  }
  if (i + 1 >= argc || !parse_format(argv[i], argv[i + 1], &options->format)) {
    return false;
  }
  for (i += 2; i < argc; i++, options->count++) {
    if (options->count == GPU_MAX_STAGES || !parse_stage(argv[i], &options->requests[options->count])) {
      fprintf(stderr, "run-stage: stage %u (%s) is unknown, or one of its settings is unknown, missing or out of bounds\n",
              options->count + 1, argv[i]);
      return false;
    }
  }
  return true;
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
  bench->program = gpu_program_new(bench->device, bench->chain, &buffers, 1, NULL, NULL, &error);
  return bench->program || complain(&error);
}

static void tear_down(struct bench *bench) {
  bench->program = gpu_program_free(bench->program);
  if (bench->memory) {
    gpu_unpin(bench->device, bench->memory);
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

int main(int argc, char **argv) {
  struct options options;
  struct bench bench = {0};
  if (!parse(&options, argc, argv)) {
    fprintf(stderr, "usage: %s [--backend cpu|cuda] [--repeat N] FORMAT WIDTHxHEIGHT ['NAME: KEY=VALUE,...']...\n", argv[0]);
    return USAGE;
  }
  bool good = set_up(&bench, &options) && run_all(&bench, options.repeat);
  tear_down(&bench);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
