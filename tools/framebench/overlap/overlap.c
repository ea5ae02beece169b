/*
 * framebench overlap: the same work serially and with slots, each beside the ideal that its own copies and kernels allow.
 *
 * What belongs to the rows stands in overlap_rows.c; here are the timeline of the first frames and the command.
 */
#include "tools/framebench/overlap/overlap.h"
#include "tools/framebench/command.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/overlap/picture.h"
#include "tools/framebench/overlap/workload.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/overlap/cuda_overlap.h"
#endif

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- the timeline --------------------------------------------------------------------------------------------------- */

static const struct section timeline_section = {"timeline",
                                                "The first frames with 3 slots, kernels that take as long as a copy",
                                                (const struct column[]){{"frame", "FRAME", COLUMN_COUNT},
                                                                        {"h2d_begin", "COPY IN AT", COLUMN_TIME},
                                                                        {"h2d_end", "UNTIL", COLUMN_TIME},
                                                                        {"kernel_begin", "KERNEL AT", COLUMN_TIME},
                                                                        {"kernel_end", "UNTIL", COLUMN_TIME},
                                                                        {"d2h_begin", "COPY OUT AT", COLUMN_TIME},
                                                                        {"d2h_end", "UNTIL", COLUMN_TIME},
                                                                        {0}}};
enum { TIMELINE_FRAMES = 8, TIMELINE_SLOTS = 3, TIMELINE_COLUMNS = 110 };

static void timeline_row(struct results *results, const struct overlap_frame *frame, double start) {
  json_t *row = json_pack("{s:I, s:i}", "frame", (json_int_t)frame->number, "slot", (int)frame->slot);
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    char key[RESULTS_TEXT];
    snprintf(key, sizeof key, "%s_begin", overlap_engine_keys[engine]);
    json_object_set_new(row, key, json_real(frame->spans[engine].begin - start));
    snprintf(key, sizeof key, "%s_end", overlap_engine_keys[engine]);
    json_object_set_new(row, key, json_real(frame->spans[engine].end - start));
  }
  results_row(results, row);
}

static FILE *open_svg(const char *path, const char *mode, struct problem *problem) {
  FILE *file = fopen(path, mode);
  if (!file) {
    problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s: %s", path, strerror(errno));
  }
  return file;
}

/* Before anything is measured, since rows of many minutes would be lost with it. */
static bool check_svg(const char *path, struct problem *problem) {
  FILE *file = path ? open_svg(path, "ae", problem) : NULL;
  if (file) {
    fclose(file);
  }
  return !path || file;
}

static bool write_svg(const struct overlap_bench *bench, const struct overlap_frame *frames, size_t bytes, unsigned rounds,
                      struct problem *problem) {
  char title[256], size[RESULTS_TEXT];
  FILE *file = open_svg(bench->options->svg, "we", problem);
  if (!file) {
    return false;
  }
  snprintf(title, sizeof title, "%s: frames of %s, %d slots, work of %u rounds", gpu_device_name(bench->device),
           results_size(size, bytes), TIMELINE_SLOTS, rounds);
  picture_svg(file, frames, TIMELINE_FRAMES, title);
  return fclose(file) == 0 || problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s: %s", bench->options->svg, strerror(errno));
}

static bool show_timeline(const struct overlap_bench *bench, const struct overlap_frame *frames, size_t bytes, unsigned rounds,
                          struct problem *problem) {
  double start = picture_extent(frames, TIMELINE_FRAMES).begin;
  results_section(bench->results, &timeline_section);
  for (int i = 0; i < TIMELINE_FRAMES; i++) {
    timeline_row(bench->results, &frames[i], start);
  }
  if (!bench->options->json) {
    printf("Frames by their numbers, one row an engine\n");
    picture_text(stdout, frames, TIMELINE_FRAMES, TIMELINE_COLUMNS);
  }
  return !bench->options->svg || write_svg(bench, frames, bytes, rounds, problem);
}

static bool measure_timeline(const struct overlap_bench *bench, struct problem *problem) {
  struct workload_costs costs;
  const size_t bytes = bench->options->quick ? 65536 : 4 << 20;
  unsigned rounds;
  struct engine_figures figures;
  struct overlap_frame frames[TIMELINE_FRAMES] = {0};
  struct gpu_chain *chain = workload_measure(bench->device, bytes, &costs, problem)
                                ? workload_chain(WORKLOAD_EQUAL, bytes, &costs, &rounds, problem)
                                : NULL;
  const struct engine_setup setup = {
      .chain = chain, .slots = TIMELINE_SLOTS, .completion = ENGINE_SPIN, .graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  struct engine *engine = chain ? engine_new(bench->device, &setup, problem) : NULL;
  for (unsigned i = 0; i < TIMELINE_FRAMES; i++) {
    frames[i] = (struct overlap_frame){.number = i, .slot = i % TIMELINE_SLOTS};
  }
  bool done = engine && engine_run(engine, TIMELINE_FRAMES, frames, TIMELINE_FRAMES, &figures, problem) &&
              show_timeline(bench, frames, bytes, rounds, problem);
  engine_free(engine);
  gpu_chain_free(chain);
  return done;
}

/* -- the command ---------------------------------------------------------------------------------------------------- */

#ifdef FRAMED_CUDA
static bool measure_cuda(const struct overlap_bench *bench, struct problem *problem) {
  return !bench->cuda || (overlap_order(bench->results, bench->device, bench->options->quick, bench->seconds, problem) &&
                          overlap_cuda_textbooks(bench->results, bench->device, problem) &&
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
    return problem_set(problem, EXIT_STATUS_NO_DAEMON, "leave --witness out", "CUPTI has nothing to say about the cpu backend");
  }
  results_set(bench->results, "backend", json_string(gpu_backend_name(bench->device)));
  results_set(bench->results, "device", json_string(gpu_device_name(bench->device)));
  if (!overlap_rows(bench, problem)) {
    return false;
  }
  overlap_predict(bench->results, bench->kernels);
  return measure_cuda(bench, problem) && measure_timeline(bench, problem) &&
         overlap_targets(bench->results, bench->cuda, problem);
}

bool command_overlap(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, OPTION_SVG | OPTION_WITNESS, &options, problem) || !check_svg(options.svg, problem)) {
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
