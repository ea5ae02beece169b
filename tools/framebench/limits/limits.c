/*
 * framebench limits: measures what this machine allows.
 *
 * Parts without a GPU come first, since their processes must be forked before a driver is loaded.
 */
#include "tools/framebench/limits/limits.h"
#include "tools/framebench/command.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/common/samples.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const struct section opening_section = {
    "opening", "Opening the device", (const struct column[]){{"what", "WHAT", COLUMN_TEXT}, {"us", "TIME", COLUMN_TIME}, {0}}};

static void opening_row(struct results *results, const char *what, int64_t ns) {
  results_row(results, json_pack("{s:s, s:f}", "what", what, "us", (double)ns / 1e3));
}

/* Measures the parts of the daemon's start that take time: the context with its kernels, and pinned memory. */
static struct gpu_device *measure_opening(struct results *results, const struct options *options, struct problem *problem) {
  const size_t bytes = options->quick ? 1 << 20 : 64 << 20;
  struct gpu_error error;
  int64_t start = samples_now();
  struct gpu_device *device = options_open(options, 0, problem);
  int64_t opened = samples_now();
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  int64_t mapped = samples_now();
  if (!device || memory == MAP_FAILED) {
    if (memory != MAP_FAILED) {
      munmap(memory, bytes);
    }
    return gpu_close(device);
  }
  results_section(results, &opening_section);
  opening_row(results, "device opened, first use in this process", opened - start);
  if (gpu_pin(device, memory, bytes, &error)) {
    opening_row(results, options->quick ? "1 MiB of touched memory registered" : "64 MiB of touched memory registered",
                samples_now() - mapped);
    gpu_unpin(device, memory, bytes);
  }
  munmap(memory, bytes);
  return device;
}

#ifdef FRAMED_CUDA
static bool measure_cuda(struct results *results, const struct options *options, const struct gpu_device *device,
                         struct problem *problem) {
  return strcmp(gpu_backend_name(device), "cuda") != 0 ||
         (limits_copies(results, options, problem) && limits_calls(results, options, problem) &&
          limits_round_trips(results, options, problem));
}
#else
static bool measure_cuda(struct results *results, const struct options *options, const struct gpu_device *device,
                         struct problem *problem) {
  (void)results;
  (void)options;
  (void)device;
  (void)problem;
  return true;
}
#endif

static bool measure(struct results *results, const struct options *options, struct problem *problem) {
  if (!limits_host(results, options, problem)) {
    return false;
  }
  struct gpu_device *device = measure_opening(results, options, problem);
  if (!device) {
    return !problem->text && problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory to pin");
  }
  results_set(results, "backend", json_string(gpu_backend_name(device)));
  results_set(results, "device", json_string(gpu_device_name(device)));
  bool done = measure_cuda(results, options, device, problem) && limits_loop(results, options, device, problem) &&
              limits_timing(results, options, device, problem);
  gpu_close(device);
  if (done) {
    limits_targets(results);
  }
  return done;
}

bool command_limits(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, 0, &options, problem)) {
    return false;
  }
  struct results *results = results_new("limits", options.json, machine_describe());
  if (!results) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  }
  bool done = measure(results, &options, problem) && results_finish(results, problem);
  results_free(results);
  return done;
}
