/*
 * What times cost: the same frames, small and large ones, with the times of none taken, of as many as the daemon takes, and of
 * all.
 *
 * The three take turns, and each figure is the median of its runs, since the difference is small. A run of the second kind
 * lasts at least as long as the daemon takes from one time in which it times all frames to the next: it has its share of them.
 */
#include "tools/framebench/engine.h"
#include "tools/framebench/limits.h"
#include "tools/framebench/samples.h"
#include "tools/framebench/targets.h"

#include <string.h>

static const struct section timing_section = {"timing", "What the times of frames cost: affine, spin",
                                              (const struct column[]){{"bytes", "FRAME", COLUMN_SIZE},
                                                                      {"slots", "SLOTS", COLUMN_COUNT},
                                                                      {"graph", "GRAPH", COLUMN_TEXT},
                                                                      {"timed_one_in", "DAEMON TIMES ONE IN", COLUMN_COUNT},
                                                                      {"none_frames_per_s", "NONE TIMED", COLUMN_RATE},
                                                                      {"daemon_frames_per_s", "AS THE DAEMON", COLUMN_RATE},
                                                                      {"all_frames_per_s", "ALL TIMED", COLUMN_RATE},
                                                                      {"ratio", "DAEMON/NONE", COLUMN_RATIO},
                                                                      {0}}};

enum way { WAY_NONE, WAY_DAEMON, WAY_ALL, WAYS };
enum { SMALL_BYTES = 65536, SMALL_RUNS = 5, LARGE_RUNS = 3 };
#define RUN_NS   INT64_C(250000000)
#define QUICK_NS INT64_C(1000000)

struct trial {
  struct gpu_device *device;
  const struct gpu_chain *chain;
  size_t bytes;
  unsigned slots;
  bool graph;
  bool quick;
  int runs; /* of each way */
};

static int64_t run_ns(const struct trial *trial, unsigned one_in) {
  int64_t whole = one_in * GPU_TIMED_WINDOW_NS;
  return trial->quick ? QUICK_NS : whole > RUN_NS ? whole : RUN_NS;
}

/* Microseconds a frame, 0 where the backend has no graphs and they are asked for; `one_in` gets of how many frames one was
 * timed. */
static bool run(const struct trial *trial, enum way way, double *each, unsigned *one_in, struct problem *problem) {
  static const int timed[WAYS] = {GPU_TIMED_NEVER, GPU_TIMED_AUTO, 1};
  struct engine_figures figures = {0};
  const struct engine_setup setup = {.chain = trial->chain,
                                     .slots = trial->slots,
                                     .completion = ENGINE_SPIN,
                                     .graph = trial->graph ? GPU_GRAPH_ON : GPU_GRAPH_OFF,
                                     .timed_one_in = timed[way]};
  struct engine *engine = engine_new(trial->device, &setup, problem);
  bool done = engine;
  if (done && engine_graph(engine) == trial->graph) {
    done = engine_run(engine, 4 * (uint64_t)trial->slots, NULL, 0, &figures, problem) &&
           engine_run_time(engine, run_ns(trial, engine_timed_one_in(engine)), &figures, problem);
    *each = done ? figures.wall / (double)figures.frames : 0;
    *one_in = engine_timed_one_in(engine);
  }
  engine_free(engine);
  return done;
}

static bool run_all(const struct trial *trial, struct samples samples[WAYS], unsigned *one_in, struct problem *problem) {
  unsigned unused;
  for (int i = 0; i < trial->runs * WAYS; i++) {
    enum way way = (enum way)(i % WAYS);
    double each = 0;
    if (!run(trial, way, &each, way == WAY_DAEMON ? one_in : &unused, problem)) {
      return false;
    }
    if (!samples_add(&samples[way], each)) {
      return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples");
    }
  }
  return true;
}

static bool timing_row(struct results *results, const struct trial *trial, struct problem *problem) {
  struct samples samples[WAYS] = {0};
  unsigned one_in = 0;
  bool done = run_all(trial, samples, &one_in, problem);
  double each[WAYS];
  for (int way = 0; way < WAYS; way++) {
    each[way] = samples_percentile(&samples[way], 0.5);
    samples_free(&samples[way]);
  }
  if (done && each[WAY_NONE] > 0) {
    results_row(results, json_pack("{s:I, s:i, s:s, s:i, s:f, s:f, s:f, s:f}", "bytes", (json_int_t)trial->bytes, "slots",
                                   (int)trial->slots, "graph", trial->graph ? "yes" : "no", "timed_one_in", (int)one_in,
                                   "none_frames_per_s", 1e6 / each[WAY_NONE], "daemon_frames_per_s", 1e6 / each[WAY_DAEMON],
                                   "all_frames_per_s", 1e6 / each[WAY_ALL], "ratio", each[WAY_NONE] / each[WAY_DAEMON]));
  }
  return done;
}

bool limits_timing(struct results *results, const struct options *options, struct gpu_device *device, struct problem *problem) {
  static const struct {
    size_t bytes;
    unsigned slots;
  } loads[] = {{SMALL_BYTES, 4}, {4 << 20, 3}};
  bool done = true;
  results_section(results, &timing_section);
  for (size_t i = 0; i < (options->quick ? 2 : 4) && done; i++) {
    const size_t bytes = loads[i / 2].bytes;
    struct gpu_chain *chain = engine_chain(bytes, "affine", "scale", 2, problem);
    const struct trial trial = {.device = device,
                                .chain = chain,
                                .bytes = bytes,
                                .slots = loads[i / 2].slots,
                                .graph = i % 2 == 1,
                                .quick = options->quick,
                                .runs = bytes == SMALL_BYTES ? SMALL_RUNS : LARGE_RUNS};
    done = chain && timing_row(results, &trial, problem);
    gpu_chain_free(chain);
  }
  return done;
}

void limits_timing_targets(struct results *results) {
  size_t index;
  const json_t *row;
  json_array_foreach(results_rows(results, timing_section.name), index, row) {
    if (json_integer_value(json_object_get(row, "bytes")) != SMALL_BYTES) {
      continue; /* only small ones are held to it */
    }
    bool graph = strcmp(json_string_value(json_object_get(row, "graph")), "yes") == 0;
    targets_add(results,
                &(struct target){graph ? "times of frames taken, 64 KiB frames, 4 slots, graphs"
                                       : "times of frames taken, 64 KiB frames, 4 slots",
                                 "no times taken", "frames/s", json_number_value(json_object_get(row, "daemon_frames_per_s")),
                                 json_number_value(json_object_get(row, "none_frames_per_s")), 0.98, false});
  }
}
