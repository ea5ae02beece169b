/*
 * Frames back to back: the bare loop of CUDA and framed's engine in turns, so that both see the same machine.
 *
 * Each figure is the median of some runs. The ratio is the engine's rate over that of the bare loop.
 */
#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/common/targets.h"
#include "tools/framebench/limits/limits.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/common/cuda_bare.h"
#endif

#include <string.h>

static const struct section loop_section = {"loop",
                                            "Frames back to back, copy in, affine, copy out: CUDA alone, and framed's engine",
                                            (const struct column[]){{"bytes", "FRAME", COLUMN_SIZE},
                                                                    {"completion", "COMPLETION", COLUMN_TEXT},
                                                                    {"graph", "GRAPH", COLUMN_TEXT},
                                                                    {"slots", "SLOTS", COLUMN_COUNT},
                                                                    {"bare_frames_per_s", "BARE FRAMES/s", COLUMN_RATE},
                                                                    {"bare_gb_per_s", "BARE GB/s", COLUMN_BANDWIDTH},
                                                                    {"engine_frames_per_s", "ENGINE FRAMES/s", COLUMN_RATE},
                                                                    {"engine_gb_per_s", "ENGINE GB/s", COLUMN_BANDWIDTH},
                                                                    {"ratio", "ENGINE/BARE", COLUMN_RATIO},
                                                                    {0}}};

enum { RUNS = 3 };

struct contest {
  struct gpu_device *device;
  unsigned index; /* of the device */
  bool cuda;
  double seconds; /* of a run */
  size_t bytes;
  struct engine_setup setup; /* times frames like the daemon */
};

/* Both return microseconds per frame, or 0 if there is no such loop. */

static bool run_bare(const struct contest *contest, double *each, struct problem *problem) {
  *each = 0;
#ifdef FRAMED_CUDA
  if (contest->cuda) {
    const struct bare_setup setup = {.chain = contest->setup.chain,
                                     .device = contest->index,
                                     .slots = contest->setup.slots,
                                     .callback = contest->setup.completion == ENGINE_CALLBACK,
                                     .graph = contest->setup.graph == GPU_GRAPH_ON};
    struct bare *bare = bare_new(&setup, problem);
    bool done = bare && bare_run_for(bare, contest->seconds, each, problem);
    bare_free(bare);
    return done;
  }
#else
  (void)contest;
  (void)problem;
#endif
  return true;
}

static bool run_engine(const struct contest *contest, double *each, struct problem *problem) {
  struct engine_figures figures = {0};
  *each = 0;
  struct engine *engine = engine_new(contest->device, &contest->setup, problem);
  bool done = engine;
  if (done && engine_graph(engine) == (contest->setup.graph == GPU_GRAPH_ON)) {
    done = engine_run_for(engine, contest->seconds, &figures, problem);
    *each = done ? engine_each(&figures) : 0;
  }
  engine_free(engine);
  return done;
}

static void set_rate(json_t *row, const char *prefix, double each, size_t bytes) {
  char key[RESULTS_TEXT];
  if (each > 0) {
    snprintf(key, sizeof key, "%s_frames_per_s", prefix);
    json_object_set_new(row, key, json_real(1e6 / each));
    snprintf(key, sizeof key, "%s_gb_per_s", prefix);
    json_object_set_new(row, key, json_real((double)bytes / each / 1e3));
  }
}

static bool loop_row(struct results *results, const struct contest *contest, struct problem *problem) {
  struct samples bare = {0}, engine = {0};
  bool done = true;
  for (int run = 0; run < RUNS && done; run++) {
    double bare_each = 0, engine_each = 0;
    done = run_bare(contest, &bare_each, problem) && run_engine(contest, &engine_each, problem) &&
           ((samples_add(&bare, bare_each) && samples_add(&engine, engine_each)) ||
            problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples"));
  }
  double bare_each = samples_percentile(&bare, 0.5), engine_each = samples_percentile(&engine, 0.5);
  if (bare_each <= 0 && engine_each <= 0) { /* a backend without graphs */
    samples_free(&bare);
    samples_free(&engine);
    return done;
  }
  json_t *row = json_pack("{s:I, s:s, s:s, s:i}", "bytes", (json_int_t)contest->bytes, "completion",
                          contest->setup.completion == ENGINE_SPIN ? "spin" : "callback", "graph",
                          contest->setup.graph == GPU_GRAPH_ON ? "yes" : "no", "slots", (int)contest->setup.slots);
  set_rate(row, "bare", bare_each, contest->bytes);
  set_rate(row, "engine", engine_each, contest->bytes);
  if (bare_each > 0 && engine_each > 0) {
    json_object_set_new(row, "ratio", json_real(bare_each / engine_each));
  }
  results_row(results, row);
  samples_free(&bare);
  samples_free(&engine);
  return done;
}

/* Measures frames of one size with each notification method and number of slots. */
static bool loop_rows(struct results *results, struct contest *contest, struct problem *problem) {
  static const unsigned slots[] = {1, 2, 3, 4, 8};
  for (int way = 0; way < 4; way++) {
    contest->setup.completion = way % 2 ? ENGINE_CALLBACK : ENGINE_SPIN;
    contest->setup.graph = way / 2 ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
      contest->setup.slots = slots[i];
      if (!loop_row(results, contest, problem)) {
        return false;
      }
    }
  }
  return true;
}

/* -- targets -------------------------------------------------------------------------------------------------------- */

static const struct aim {
  size_t bytes;
  const char *completion, *graph;
  unsigned slots;
  double least;
  const char *what, *limit;
} aims[] = {
    {4 << 20, "spin", "no", 3, 0.98, "engine, no socket, 4 MiB frames, 3 slots, spin", "bare CUDA loop, event polled"},
    {65536, "spin", "yes", 4, 0.90, "engine, no socket, 64 KiB frames, 4 slots, graphs", "bare CUDA loop, event polled"},
    {4 << 20, "callback", "no", 2, 0.97, "engine, no socket, 4 MiB frames, 2 slots, callback",
     "bare CUDA loop, callback and eventfd"},
};

static bool is_aim(const struct aim *aim, const json_t *row) {
  return (size_t)json_integer_value(json_object_get(row, "bytes")) == aim->bytes &&
         strcmp(json_string_value(json_object_get(row, "completion")), aim->completion) == 0 &&
         strcmp(json_string_value(json_object_get(row, "graph")), aim->graph) == 0 &&
         (unsigned)json_integer_value(json_object_get(row, "slots")) == aim->slots;
}

void limits_targets(struct results *results) {
  size_t index;
  const json_t *row, *rows = results_rows(results, loop_section.name);
  targets_begin(results);
  for (const struct aim *aim = aims; aim < aims + sizeof aims / sizeof aims[0]; aim++) {
    json_array_foreach(rows, index, row) {
      if (is_aim(aim, row) && json_object_get(row, "ratio")) {
        targets_add(results, &(struct target){aim->what, aim->limit, "frames/s",
                                              json_number_value(json_object_get(row, "engine_frames_per_s")),
                                              json_number_value(json_object_get(row, "bare_frames_per_s")), aim->least, false});
      }
    }
  }
  limits_timing_targets(results);
}

bool limits_loop(struct results *results, const struct options *options, struct gpu_device *device, struct problem *problem) {
  static const size_t sizes[] = {4096, 65536, 4 << 20};
  struct contest contest = {.device = device,
                            .index = options->device,
                            .cuda = strcmp(gpu_backend_name(device), "cuda") == 0,
                            .seconds = options->quick ? 0.001 : 0.04};
  bool done = true;
  results_section(results, &loop_section);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] - (options->quick ? 1 : 0) && done; i++) {
    struct gpu_chain *chain = engine_chain(sizes[i], "affine", "scale", 2, problem);
    contest.bytes = sizes[i];
    contest.setup.chain = chain;
    done = chain && loop_rows(results, &contest, problem);
    gpu_chain_free(chain);
  }
  return done;
}
