/*
 * framebench overlap: the same work serially and with slots, each compared with the ideal of its own copies and kernels.
 *
 * rows.c has the rows; this file has the command.
 */
#include "tools/framebench/overlap/overlap.h"
#include "tools/framebench/command.h"
#include "tools/framebench/common/machine.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/overlap/cuda_overlap.h"
#endif

#include <string.h>

#ifdef FRAMED_CUDA
static bool measure_cuda(const struct overlap_bench *bench, struct problem *problem) {
  return !bench->cuda || (overlap_cuda_textbooks(bench->results, bench->device, problem) &&
                          (!bench->options->witness || overlap_cuda_witness(bench->results, bench->options->device, problem)));
}
#else
static bool measure_cuda(const struct overlap_bench *bench, struct problem *problem) {
  (void)bench;
  (void)problem;
  return true;
}
#endif

static bool measure(struct overlap_bench *bench, struct problem *problem) {
  if (bench->options->witness && !bench->cuda) {
    return problem_set(problem, EXIT_STATUS_NO_DAEMON, "leave --witness out", "CUPTI cannot record the cpu backend");
  }
  results_set(bench->results, "backend", json_string(gpu_backend_name(bench->device)));
  results_set(bench->results, "device", json_string(gpu_device_name(bench->device)));
  return overlap_rows(bench, problem) && measure_cuda(bench, problem) && overlap_targets(bench->results, bench->cuda, problem);
}

bool command_overlap(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, OPTION_WITNESS, &options, problem)) {
    return false;
  }
  struct overlap_bench bench = {.options = &options, .seconds = options.quick ? 0.001 : 0.03};
  bench.device = options_open(&options, 0, problem);
  if (!bench.device) {
    return false;
  }
  bench.cuda = strcmp(gpu_backend_name(bench.device), "cuda") == 0;
  bench.kernels = bench.cuda ? 1 : machine_processors();
  bench.results = results_new("overlap", options.json, machine_describe());
  bool done = bench.results ? measure(&bench, problem) && results_finish(bench.results, problem)
                            : problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  results_free(bench.results);
  gpu_close(bench.device);
  return done;
}
