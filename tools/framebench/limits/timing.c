/*
 * The cost of frame times: the same frames, small and large ones, with no frame timed, with as many as the daemon times, and
 * with all.
 *
 * The difference is small, and a machine's speed changes from one second to the next. So engines of the three kinds take turns.
 * There are several engines of each kind, since streams and memory at other places differ in speed, too. Each figure is the
 * median of all turns. A single turn of the daemon's kind may have too many timed frames or none; all turns together have the
 * right share.
 */
#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/common/targets.h"
#include "tools/framebench/limits/limits.h"

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
enum { SMALL_BYTES = 65536, SMALL_ENGINES = 5, LARGE_ENGINES = 2, TURNS = 8 };
#define TURN_NS  INT64_C(125000000)
#define QUICK_NS INT64_C(1000000)

struct trial {
  struct gpu_device *device;
  const struct gpu_chain *chain;
  size_t bytes;
  unsigned slots;
  bool graph;
  bool quick;
  int engines; /* of each kind */
};

static struct engine *open_engine(const struct trial *trial, enum way way, struct problem *problem) {
  static const int timed[WAYS] = {GPU_TIMED_NEVER, GPU_TIMED_AUTO, 1};
  struct engine_figures unused;
  const struct engine_setup setup = {.chain = trial->chain,
                                     .slots = trial->slots,
                                     .completion = ENGINE_SPIN,
                                     .graph = trial->graph ? GPU_GRAPH_ON : GPU_GRAPH_OFF,
                                     .timed_one_in = timed[way]};
  struct engine *engine = engine_new(trial->device, &setup, problem);
  return engine && engine_run(engine, 4 * (uint64_t)trial->slots, NULL, 0, &unused, problem) ? engine : engine_free(engine);
}

/* Adds one sample of microseconds per frame. */
static bool take_turn(const struct trial *trial, struct engine *engine, struct samples *samples, struct problem *problem) {
  struct engine_figures figures;
  return engine_run_time(engine, trial->quick ? QUICK_NS : TURN_NS, &figures, problem) &&
         (samples_add(samples, engine_each(&figures)) ||
          problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples"));
}

/* Runs one engine of each kind. Measures nothing if graphs are requested and the backend has none. */
static bool run_engines(const struct trial *trial, struct samples samples[WAYS], unsigned *one_in, struct problem *problem) {
  struct engine *engines[WAYS] = {NULL};
  bool done = true;
  for (int way = 0; way < WAYS && done; way++) {
    engines[way] = open_engine(trial, (enum way)way, problem);
    done = engines[way];
  }
  bool is_asked_for = done && engine_graph(engines[WAY_DAEMON]) == trial->graph;
  for (int i = 0; i < WAYS * (trial->quick ? 1 : TURNS) && done && is_asked_for; i++) {
    done = take_turn(trial, engines[i % WAYS], &samples[i % WAYS], problem);
  }
  *one_in = done ? engine_timed_one_in(engines[WAY_DAEMON]) : 0;
  for (int way = 0; way < WAYS; way++) {
    engine_free(engines[way]);
  }
  return done;
}

static bool timing_row(struct results *results, const struct trial *trial, struct problem *problem) {
  struct samples samples[WAYS] = {0};
  unsigned one_in = 0;
  bool done = true;
  double each[WAYS];
  for (int i = 0; i < trial->engines && done; i++) {
    done = run_engines(trial, samples, &one_in, problem);
  }
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
                                .engines = options->quick         ? 1
                                           : bytes == SMALL_BYTES ? SMALL_ENGINES
                                                                  : LARGE_ENGINES};
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
      continue; /* only small frames have a target */
    }
    bool graph = strcmp(json_string_value(json_object_get(row, "graph")), "yes") == 0;
    targets_add(results,
                &(struct target){graph ? "times of frames taken, 64 KiB frames, 4 slots, graphs"
                                       : "times of frames taken, 64 KiB frames, 4 slots",
                                 "no times taken", "frames/s", json_number_value(json_object_get(row, "daemon_frames_per_s")),
                                 json_number_value(json_object_get(row, "none_frames_per_s")), 0.98, false});
  }
}
