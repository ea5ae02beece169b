/*
 * framebench overlap: the same work serially and with slots, each beside the ideal that its own copies and kernels allow.
 *
 * The ideal of a row comes from the service times of that very row, but of copies no less than what they take alone while
 * both directions of the link are busy: as one more slot would have it. Speedups are over the serial program with pinned
 * memory. A row whose host sleeps until a callback wakes it is bound by the time that a thread takes to wake, which no ideal
 * knows; beside it stands the bare loop, which sleeps as well.
 */
#include "tools/framebench/overlap.h"
#include "tools/framebench/command.h"
#include "tools/framebench/machine.h"
#include "tools/framebench/options.h"
#include "tools/framebench/picture.h"
#include "tools/framebench/results.h"
#include "tools/framebench/workload.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/cuda_bare.h"
#include "tools/framebench/cuda_overlap.h"
#include "tools/framebench/limits.h"
#endif

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct section rows_section = {"rows", "The same work serially and with slots",
                                            (const struct column[]){{"bytes", "FRAME", COLUMN_SIZE},
                                                                    {"kernel", "KERNEL", COLUMN_TEXT},
                                                                    {"way", "WAY", COLUMN_TEXT},
                                                                    {"slots", "SLOTS", COLUMN_COUNT},
                                                                    {"graph", "GRAPH", COLUMN_TEXT},
                                                                    {"us", "A FRAME", COLUMN_TIME},
                                                                    {"speedup", "SPEEDUP", COLUMN_RATIO},
                                                                    {"ideal_us", "IDEAL", COLUMN_TIME},
                                                                    {"of_ideal", "IDEAL/FRAME", COLUMN_RATIO},
                                                                    {"bare_us", "BARE LOOP", COLUMN_TIME},
                                                                    {"overlap", "OVERLAP", COLUMN_RATIO},
                                                                    {"h2d_us", "COPY IN", COLUMN_TIME},
                                                                    {"kernel_us", "KERNEL", COLUMN_TIME},
                                                                    {"d2h_us", "COPY OUT", COLUMN_TIME},
                                                                    {"gb_per_s", "GB/s EACH WAY", COLUMN_BANDWIDTH},
                                                                    {0}}};

struct bench {
  struct results *results;
  const struct options *options;
  struct gpu_device *device;
  bool cuda;
  unsigned kernels; /* that run at once */
  double seconds;   /* a row */
  size_t bytes;
  enum workload_kind kind;
  unsigned rounds;
  const struct gpu_chain *chain;
  double serial; /* microseconds a frame, serially from pinned memory */
  double copy;   /* microseconds a copy while both directions are busy; 0 on the CPU */
};

/* -- rows ----------------------------------------------------------------------------------------------------------- */

/* What every row says of itself. */
static json_t *new_row(const struct bench *bench, const char *way, double us) {
  json_t *row =
      json_pack("{s:I, s:s, s:i, s:s, s:f, s:f}", "bytes", (json_int_t)bench->bytes, "kernel", workload_names[bench->kind],
                "rounds", (int)bench->rounds, "way", way, "us", us, "gb_per_s", (double)bench->bytes / us / 1e3);
  if (bench->serial > 0) {
    json_object_set_new(row, "speedup", json_real(bench->serial / us));
  }
  return row;
}

static void add_mean(json_t *row, const char *key, double sum, uint64_t count) {
  if (count > 0) {
    json_object_set_new(row, key, json_real(sum / (double)count));
  }
}

static void add_ideal(const struct bench *bench, json_t *row, const struct engine_figures *figures, unsigned slots) {
  double sum = 0, each = figures->wall / (double)figures->frames;
  if (figures->timed == 0) {
    return;
  }
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    char key[RESULTS_TEXT];
    double service = figures->service[engine] / (double)figures->timed;
    sum += service;
    snprintf(key, sizeof key, "%s_us", overlap_engine_keys[engine]);
    json_object_set_new(row, key, json_real(service));
  }
  add_mean(row, "wait_us", figures->wait, figures->timed);
  add_mean(row, "host_us", figures->host, figures->weighed);
  if (figures->noticed > 0) {
    json_object_set_new(row, "notice_us", json_real(figures->notice));
  }
  double ideal = engine_ideal(figures, slots, bench->kernels, bench->copy);
  json_object_set_new(row, "ideal_us", json_real(ideal));
  json_object_set_new(row, "of_ideal", json_real(ideal / each));
  json_object_set_new(row, "overlap", json_real(overlap_ratio(each, sum)));
}

/* No frame at all where the backend has no graphs and they are asked for. */
static bool run_slots(const struct bench *bench, const struct engine_setup *setup, struct engine_figures *figures,
                      struct problem *problem) {
  struct engine *engine = engine_new(bench->device, setup, problem);
  bool done = engine;
  *figures = (struct engine_figures){0};
  if (done && engine_graph(engine) == (setup->graph == GPU_GRAPH_ON)) {
    done = engine_run_for(engine, bench->seconds, figures, problem);
  }
  engine_free(engine);
  return done;
}

/* For the fewest slots that targets look at; there is no bare loop on the CPU. */
static bool add_bare(const struct bench *bench, json_t *row, unsigned slots, bool graph, struct problem *problem) {
#ifdef FRAMED_CUDA
  if (bench->cuda && slots == OVERLAP_ENOUGH_SLOTS) {
    const struct bare_setup setup = {
        .chain = bench->chain, .device = bench->options->device, .slots = slots, .callback = true, .graph = graph};
    double each = 0;
    struct bare *bare = bare_new(&setup, problem);
    bool done = bare && bare_run_for(bare, bench->seconds, &each, problem);
    bare_free(bare);
    json_object_set_new(row, "bare_us", json_real(each));
    return done;
  }
#else
  (void)bench;
  (void)row;
  (void)slots;
  (void)graph;
  (void)problem;
#endif
  return true;
}

static bool slots_row(const struct bench *bench, unsigned slots, enum engine_completion completion, bool graph,
                      struct problem *problem) {
  const struct engine_setup setup = {
      .chain = bench->chain, .slots = slots, .completion = completion, .graph = graph ? GPU_GRAPH_ON : GPU_GRAPH_OFF};
  struct engine_figures figures;
  if (!run_slots(bench, &setup, &figures, problem)) {
    return false;
  }
  if (figures.frames == 0) {
    return true;
  }
  json_t *row = new_row(bench, completion == ENGINE_SPIN ? "spin" : "callback", figures.wall / (double)figures.frames);
  json_object_set_new(row, "slots", json_integer(slots));
  json_object_set_new(row, "graph", json_string(graph ? "yes" : "no"));
  add_ideal(bench, row, &figures, slots);
  bool done = completion == ENGINE_SPIN || add_bare(bench, row, slots, graph, problem);
  results_row(bench->results, row);
  return done;
}

/* On a GPU the host waits for each step; on the CPU there is one step, and nothing to pin. */
static bool run_serial(const struct bench *bench, bool pageable, double *each, struct problem *problem) {
#ifdef FRAMED_CUDA
  if (bench->cuda) {
    return overlap_cuda_serial(bench->chain, bench->options->device, pageable, bench->seconds, each, problem);
  }
#endif
  const struct engine_setup setup = {
      .chain = bench->chain, .slots = 1, .completion = ENGINE_SPIN, .pageable = pageable, .graph = GPU_GRAPH_OFF};
  struct engine_figures figures;
  bool done = run_slots(bench, &setup, &figures, problem);
  *each = done ? figures.wall / (double)figures.frames : 0;
  return done;
}

static bool serial_rows(struct bench *bench, struct problem *problem) {
  double pageable, pinned;
  if (!run_serial(bench, false, &pinned, problem) || !run_serial(bench, true, &pageable, problem)) {
    return false;
  }
  bench->serial = pinned;
  results_row(bench->results, new_row(bench, "serial, pageable", pageable));
  results_row(bench->results, new_row(bench, "serial, pinned", pinned));
  return true;
}

static bool kernel_rows(struct bench *bench, struct problem *problem) {
  static const unsigned slots[] = {1, 2, 3, 4, 8};
  const int count = (int)(sizeof slots / sizeof slots[0]) - (bench->options->quick ? 2 : 0);
  bench->serial = 0;
  if (!serial_rows(bench, problem)) {
    return false;
  }
  for (int way = 0; way < 4; way++) {
    for (int i = 0; i < count; i++) {
      if (!slots_row(bench, slots[i], way % 2 ? ENGINE_CALLBACK : ENGINE_SPIN, way / 2, problem)) {
        return false;
      }
    }
  }
  return true;
}

static bool measure_copy(struct bench *bench, struct problem *problem) {
#ifdef FRAMED_CUDA
  double rate = 0;
  if (bench->cuda) {
    bool done = limits_both_ways(bench->bytes, &rate, problem);
    bench->copy = done ? (double)bench->bytes / rate / 1e3 : 0;
    return done;
  }
#else
  (void)problem;
#endif
  bench->copy = 0;
  return true;
}

static bool size_rows(struct bench *bench, struct problem *problem) {
  struct workload_costs costs;
  if (!measure_copy(bench, problem) || !workload_measure(bench->device, bench->bytes, &costs, problem)) {
    return false;
  }
  for (enum workload_kind kind = WORKLOAD_AFFINE; kind < WORKLOAD_KINDS; kind++) {
    struct gpu_chain *chain = workload_chain(kind, bench->bytes, &costs, &bench->rounds, problem);
    bench->kind = kind;
    bench->chain = chain;
    bool done = chain && kernel_rows(bench, problem);
    gpu_chain_free(chain);
    if (!done) {
      return false;
    }
  }
  return true;
}

static bool measure_rows(struct bench *bench, struct problem *problem) {
  static const size_t sizes[] = {4096, 65536, 1 << 20, 4 << 20, 24 << 20};
  results_section(bench->results, &rows_section);
  for (size_t i = 0; i < (bench->options->quick ? 2 : sizeof sizes / sizeof sizes[0]); i++) {
    bench->bytes = sizes[i];
    if (!size_rows(bench, problem)) {
      return false;
    }
  }
  return true;
}

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

static bool write_svg(const struct bench *bench, const struct overlap_frame *frames, struct problem *problem) {
  char title[256], size[RESULTS_TEXT];
  FILE *file = fopen(bench->options->svg, "we");
  if (!file) {
    return problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s: %s", bench->options->svg, strerror(errno));
  }
  snprintf(title, sizeof title, "%s: frames of %s, %d slots, work of %u rounds", gpu_device_name(bench->device),
           results_size(size, bench->bytes), TIMELINE_SLOTS, bench->rounds);
  picture_svg(file, frames, TIMELINE_FRAMES, title);
  return fclose(file) == 0 || problem_set(problem, EXIT_STATUS_REFUSED, NULL, "%s: %s", bench->options->svg, strerror(errno));
}

static bool show_timeline(struct bench *bench, const struct overlap_frame *frames, struct problem *problem) {
  double start = picture_extent(frames, TIMELINE_FRAMES).begin;
  results_section(bench->results, &timeline_section);
  for (int i = 0; i < TIMELINE_FRAMES; i++) {
    timeline_row(bench->results, &frames[i], start);
  }
  if (!bench->options->json) {
    printf("Frames by their numbers, one row an engine\n");
    picture_text(stdout, frames, TIMELINE_FRAMES, TIMELINE_COLUMNS);
  }
  return !bench->options->svg || write_svg(bench, frames, problem);
}

static bool measure_timeline(struct bench *bench, struct problem *problem) {
  struct workload_costs costs;
  struct engine_figures figures;
  struct overlap_frame frames[TIMELINE_FRAMES] = {0};
  bench->bytes = bench->options->quick ? 65536 : 4 << 20;
  struct gpu_chain *chain = workload_measure(bench->device, bench->bytes, &costs, problem)
                                ? workload_chain(WORKLOAD_EQUAL, bench->bytes, &costs, &bench->rounds, problem)
                                : NULL;
  const struct engine_setup setup = {
      .chain = chain, .slots = TIMELINE_SLOTS, .completion = ENGINE_SPIN, .graph = GPU_GRAPH_OFF, .timed_one_in = 1};
  struct engine *engine = chain ? engine_new(bench->device, &setup, problem) : NULL;
  for (unsigned i = 0; i < TIMELINE_FRAMES; i++) {
    frames[i] = (struct overlap_frame){.number = i, .slot = i % TIMELINE_SLOTS};
  }
  bool done = engine && engine_run(engine, TIMELINE_FRAMES, frames, TIMELINE_FRAMES, &figures, problem) &&
              show_timeline(bench, frames, problem);
  engine_free(engine);
  gpu_chain_free(chain);
  return done;
}

/* -- the command ---------------------------------------------------------------------------------------------------- */

#ifdef FRAMED_CUDA
static bool measure_cuda(const struct bench *bench, struct problem *problem) {
  return !bench->cuda || (overlap_order(bench->results, bench->device, bench->options->quick, bench->seconds, problem) &&
                          overlap_cuda_textbooks(bench->results, bench->device, problem) &&
                          (!bench->options->witness || overlap_cuda_witness(bench->results, bench->options->device, problem)));
}
#else
static bool measure_cuda(const struct bench *bench, struct problem *problem) {
  (void)bench;
  (void)problem;
  return true;
}
#endif

static bool measure(struct bench *bench, struct problem *problem) {
  if (bench->options->witness && !bench->cuda) {
    return problem_set(problem, EXIT_STATUS_NO_DAEMON, "leave --witness out", "CUPTI has nothing to say about the cpu backend");
  }
  results_set(bench->results, "backend", json_string(gpu_backend_name(bench->device)));
  results_set(bench->results, "device", json_string(gpu_device_name(bench->device)));
  if (!measure_rows(bench, problem)) {
    return false;
  }
  overlap_predict(bench->results, bench->kernels);
  return measure_cuda(bench, problem) && measure_timeline(bench, problem) &&
         overlap_targets(bench->results, bench->cuda, problem);
}

bool command_overlap(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, OPTION_SVG | OPTION_WITNESS, &options, problem)) {
    return false;
  }
  struct bench bench = {.options = &options, .seconds = options.quick ? 0.001 : 0.04};
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
