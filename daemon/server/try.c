#include "daemon/server/try.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/formats.h"
#include "daemon/frame/arena.h"
#include "daemon/server/footprint.h"

struct try {
  const struct config *config;
  struct gpu_device *device;
  struct gpu_chain *chain;
  struct gpu_program *program;
  struct arena memory;
  unsigned char *input, *output;
  size_t input_bytes, output_bytes;
};

static bool gpu_problem(const struct gpu_error *error, struct failure *failure) {
  return failure_set(failure, error->no_device ? EXIT_STATUS_NO_GPU : EXIT_STATUS_INTERNAL, error->remedy, "%s", error->text);
}

/* -- the frame ---------------------------------------------------------------------------------------------------- */

static bool read_frame(const struct try *try, struct failure *failure) {
  size_t count = fread(try->input, 1, try->input_bytes, stdin);
  bool more = count == try->input_bytes && getchar() != EOF;
  if (count == try->input_bytes && !more) {
    return true;
  }
  return failure_set(failure, EXIT_STATUS_USAGE, "give one whole frame of the format that was named",
                     "standard input has %s the %zu bytes of the frame", more ? "more than" : "less than", try->input_bytes);
}

static bool run_frame(const struct try *try, struct gpu_error *error) {
  const struct gpu_frame frame = {.restart = true};
  const struct timespec nap = {.tv_nsec = 50000};
  const int64_t nap_ns = nap.tv_nsec;
  enum gpu_progress progress = GPU_PENDING;
  if (!gpu_submit(try->program, 0, &frame, error)) {
    return false;
  }
  for (int64_t waited = 0; (progress = gpu_ask(try->program, 0, error)) == GPU_PENDING; waited += nap_ns) {
    if (try->config->gpu.timeout_ns > 0 && waited > try->config->gpu.timeout_ns) {
      gpu_abandon(try->device, "the frame does not finish: a stage hangs");
    }
    nanosleep(&nap, NULL);
  }
  const char *refusal = progress == GPU_DONE ? gpu_refusal(try->program, 0) : NULL;
  if (refusal) {
    snprintf(error->text, sizeof error->text, "the frame cannot be computed: %s", refusal);
  }
  return progress == GPU_DONE && !refusal;
}

static bool write_result(const struct try *try, struct failure *failure) {
  char text[FORMAT_TEXT];
  printf("%s\n", format_describe(gpu_chain_output(try->chain), text));
  bool left = fwrite(try->output, 1, try->output_bytes, stdout) == try->output_bytes && fflush(stdout) == 0;
  return left || failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "cannot write to standard output");
}

/* -- its surroundings --------------------------------------------------------------------------------------------- */

/* The device before the chain, which then knows what to compile for. */
static bool open_device(struct try *try, struct failure *failure) {
  const struct config_pipeline *pipeline = &try->config->pipelines[0];
  struct gpu_error error = {.stage = -1};
  try->device = gpu_open(formats_backend(try->config->gpu.backend), pipeline->device, 0, &error);
  try->chain = try->device ? formats_chain(pipeline, &error) : NULL;
  return try->chain || gpu_problem(&error, failure);
}

static bool make_program(struct try *try, struct failure *failure) {
  static const struct gpu_options options = {.graph = GPU_GRAPH_OFF, .timed_one_in = GPU_TIMED_NEVER, .order = GPU_ORDER_OFF};
  struct gpu_error error = {.stage = -1};
  format_bytes(gpu_chain_input(try->chain), &try->input_bytes);
  format_bytes(gpu_chain_output(try->chain), &try->output_bytes);
  size_t stride = arena_stride(try->input_bytes);
  if (!arena_make(&try->memory, "framed:try", stride + arena_stride(try->output_bytes), try->device, failure)) {
    return false;
  }
  try->input = try->memory.base;
  try->output = try->memory.base + stride;
  const struct gpu_buffers buffers = {.input = try->input, .output = try->output};
  try->program = gpu_program_new(try->device, try->chain, &buffers, 1, &options, &error);
  return try->program || gpu_problem(&error, failure);
}

/* After a fault nothing is given back: the process ends. */
static void close_all(struct try *try) {
  if (try->device && gpu_is_lost(try->device)) {
    return;
  }
  gpu_program_free(try->program);
  arena_drop(&try->memory);
  gpu_chain_free(try->chain);
  gpu_close(try->device);
}

static enum exit_status run(const struct config *config) {
  struct try try = {.config = config, .memory = ARENA_NONE};
  struct failure failure = {0};
  struct gpu_error error = {.stage = -1};
  bool good = open_device(&try, &failure) && make_program(&try, &failure) && read_frame(&try, &failure) &&
              (run_frame(&try, &error) || gpu_problem(&error, &failure)) && write_result(&try, &failure);
  if (!good) {
    fprintf(stderr, "framed: %s\n", failure.text);
    fprintf(stderr, failure.remedy[0] ? "  %s\n" : "%s", failure.remedy);
  }
  bool lost = try.device && gpu_is_lost(try.device);
  close_all(&try);
  if (lost) { /* a worker may be in a stage for ever */
    fflush(NULL);
    _exit(EXIT_STATUS_GPU_LOST);
  }
  return good ? EXIT_STATUS_OK : failure.status;
}

enum exit_status try_run(const char *text) {
  struct config_errors *errors = config_errors_new();
  struct config *config = errors ? footprint_parse("try", text, errors) : NULL;
  enum exit_status status = EXIT_STATUS_CONFIG;
  if (!config) {
    fputs(errors ? config_errors_text(errors) : "framed: not enough memory\n", stderr);
  } else if (config->pipeline_count != 1) {
    fputs("framed: --try takes a configuration with one pipeline\n", stderr);
  } else {
    status = run(config);
  }
  config_free(config);
  config_errors_free(errors);
  return status;
}
