#include "daemon/server/single.h"

#include <time.h>

#include "daemon/device/formats.h"

static bool single_problem(const struct gpu_error *error, struct failure *failure) {
  return failure_set(failure, error->no_device ? EXIT_STATUS_NO_GPU : EXIT_STATUS_INTERNAL, error->remedy, "%s", error->text);
}

/* The device before the chain, which then knows what to compile for. */
static bool open_device(struct single *single, struct failure *failure) {
  struct gpu_error error = {.stage = -1};
  if (single->owns_device) {
    const struct device_setup setup = {.choice = formats_backend(single->config->gpu.backend),
                                       .index = single->pipeline->device};
    single->device = device_open(&setup, &error);
  }
  single->chain = single->device ? formats_chain(single->device, single->config->gpu.backend, single->pipeline, &error) : NULL;
  return single->chain || single_problem(&error, failure);
}

static bool make_program(struct single *single, struct failure *failure) {
  static const struct gpu_options options = {.graph = GPU_GRAPH_OFF, .timed_one_in = GPU_TIMED_NEVER, .order = GPU_ORDER_OFF};
  static const struct device_caller nobody = {.lane = NULL};
  struct gpu_error error = {.stage = -1};
  format_bytes(&device_chain_record(single->chain)->input, &single->input_bytes);
  format_bytes(&device_chain_record(single->chain)->output, &single->output_bytes);
  size_t stride = arena_stride(single->input_bytes);
  if (!arena_make(&single->memory, "framed:try", stride + arena_stride(single->output_bytes), 1, single->device, failure)) {
    return false;
  }
  single->input = single->memory.base;
  single->output = single->memory.base + stride;
  const struct gpu_buffers buffers = {.input = single->input, .output = single->output};
  single->program = device_program_new(single->device, single->chain, &buffers, 1, &options, false, &nobody, &error);
  return single->program || single_problem(&error, failure);
}

bool single_open(struct single *single, const struct config *config, const struct config_pipeline *pipeline,
                 struct device *device, struct failure *failure) {
  *single = (struct single){
      .config = config, .pipeline = pipeline, .device = device, .owns_device = device == NULL, .memory = ARENA_NONE};
  return open_device(single, failure) && make_program(single, failure);
}

bool single_run(struct single *single, bool restart, struct failure *failure) {
  const struct gpu_frame frame = {.restart = restart};
  const struct timespec nap = {.tv_nsec = 50000};
  const int64_t nap_ns = nap.tv_nsec;
  struct gpu_error error = {.stage = -1};
  enum gpu_progress progress = GPU_PENDING;
  if (!device_submit(single->program, 0, &frame, &error)) {
    return single_problem(&error, failure);
  }
  for (int64_t waited = 0; (progress = device_ask(single->program, 0, &error)) == GPU_PENDING; waited += nap_ns) {
    if (single->config->gpu.timeout_ns > 0 && waited > single->config->gpu.timeout_ns) {
      static const struct gpu_error reason = {
          .stage = -1, .text = "the frame does not finish within gpu.timeout: a stage hangs, or takes longer than that"};
      device_abandon(single->device, &reason);
    }
    nanosleep(&nap, NULL);
  }
  const char *refusal = progress == GPU_DONE ? device_refusal(single->program, 0) : NULL;
  if (refusal) {
    snprintf(error.text, sizeof error.text, "the frame cannot be computed: %s", refusal);
  }
  return (progress == GPU_DONE && !refusal) || single_problem(&error, failure);
}

bool single_close(struct single *single) {
  if (single->device && device_is_lost(single->device)) {
    return false;
  }
  device_program_free(single->program);
  arena_drop(&single->memory);
  device_chain_free(single->chain);
  if (single->owns_device) {
    device_close(single->device);
  }
  return true;
}
