/*
 * The rows of framebench overlap: the same work serially and with slots.
 *
 * A row's ideal comes from its own service times. With more than one slot, copies count at least as long as they take while
 * both directions of the link are busy. The ideal ignores the host: its work on a frame, which limits small frames, and the
 * time that a sleeping thread takes to wake. So each row also has a bound, from plan's model with the row's own times of host
 * and notice, and the bound's name. Rows whose host sleeps also have the time of a bare loop that sleeps. Speedups are relative
 * to the serial program with pinned memory.
 *
 * Rows that differ only in slots are measured in turns, since the time to wake a thread changes from one moment to the next.
 */
#include "tools/framebench/common/engine.h"
#include "tools/framebench/overlap/overlap.h"
#include "tools/framebench/overlap/workload.h"
#include "tools/framectl/common/forecast.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/common/cuda_bare.h"
#include "tools/framebench/limits/limits.h"
#include "tools/framebench/overlap/cuda_overlap.h"
#endif

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 5, SERIAL_ROWS = 2, WAYS = 4 /* notification methods, with graphs and without */ };

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
                                                                    {"bound_us", "BOUND", COLUMN_TIME},
                                                                    {"of_bound", "BOUND/FRAME", COLUMN_RATIO},
                                                                    {"bound_by", "BOUND BY", COLUMN_TEXT},
                                                                    {"bare_us", "BARE LOOP", COLUMN_TIME},
                                                                    {"overlap", "OVERLAP", COLUMN_RATIO},
                                                                    {"h2d_us", "COPY IN", COLUMN_TIME},
                                                                    {"kernel_us", "KERNEL", COLUMN_TIME},
                                                                    {"d2h_us", "COPY OUT", COLUMN_TIME},
                                                                    {"gb_per_s", "GB/s EACH WAY", COLUMN_BANDWIDTH},
                                                                    {0}}};

struct bench {
  const struct overlap_bench *all;
  size_t bytes;
  enum workload_kind kind;
  unsigned rounds;
  const struct gpu_chain *chain;
  double serial; /* microseconds per frame, serially from pinned memory */
  double copy;   /* microseconds of a copy while both directions are busy; 0 on the CPU */
};

/* A row that is measured in turns. */
struct entry {
  struct engine_setup setup;
  struct engine *engine; /* NULL: graphs are requested, and the backend has none */
  struct engine_figures figures;
  double least, most; /* microseconds per frame, over the turns */
};

/* -- rows ----------------------------------------------------------------------------------------------------------- */

/* The members that every row has. */
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
  double sum = 0, each = engine_each(figures);
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
  double ideal = engine_ideal(figures, slots, bench->all->kernels, bench->copy);
  json_object_set_new(row, "ideal_us", json_real(ideal));
  json_object_set_new(row, "of_ideal", json_real(ideal / each));
  json_object_set_new(row, "overlap", json_real(overlap_ratio(each, sum)));
}

static void add_costs(const struct engine *engine, json_t *row) {
  struct diagnosis_costs costs;
  engine_costs(engine, &costs);
  json_object_set_new(row, "costs",
                      json_pack("{s:f, s:f, s:[f,f,f], s:[f,f,f]}", "alone_us", costs.alone, "lane_us", costs.lane,
                                "service_us", costs.service[OVERLAP_H2D], costs.service[OVERLAP_KERNEL],
                                costs.service[OVERLAP_D2H], "together_us", costs.together[OVERLAP_H2D],
                                costs.together[OVERLAP_KERNEL], costs.together[OVERLAP_D2H]));
}

/* -- measuring ------------------------------------------------------------------------------------------------------ */

/* The CPU has no bare loop. */
static bool add_bare(const struct bench *bench, json_t *row, const struct engine_setup *slots, struct problem *problem) {
#ifdef FRAMED_CUDA
  if (bench->all->cuda) {
    const struct bare_setup setup = {.chain = bench->chain,
                                     .device = bench->all->options->device,
                                     .slots = slots->slots,
                                     .callback = true,
                                     .graph = slots->graph == GPU_GRAPH_ON};
    double each = 0;
    struct bare *bare = bare_new(&setup, problem);
    bool done = bare && bare_run_for(bare, bench->all->seconds, &each, problem);
    bare_free(bare);
    json_object_set_new(row, "bare_us", json_real(each));
    return done;
  }
#else
  (void)bench;
  (void)row;
  (void)slots;
  (void)problem;
#endif
  return true;
}

static void add(struct engine_figures *sum, const struct engine_figures *more) {
  sum->notice = sum->noticed + more->noticed > 0 ? (sum->notice * (double)sum->noticed + more->notice * (double)more->noticed) /
                                                       (double)(sum->noticed + more->noticed)
                                                 : 0;
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    sum->service[engine] += more->service[engine];
  }
  sum->side_by_side = more->side_by_side;
  sum->frames += more->frames;
  sum->wall += more->wall;
  sum->steady_frames += more->steady_frames;
  sum->steady += more->steady;
  sum->wait += more->wait;
  sum->timed += more->timed;
  sum->host += more->host;
  sum->weighed += more->weighed;
  sum->noticed += more->noticed;
}

static bool take_turn(struct entry *entry, double seconds, struct problem *problem) {
  struct engine_figures figures;
  if (!entry->engine) {
    return true;
  }
  if (!engine_run_for(entry->engine, seconds, &figures, problem)) {
    return false;
  }
  double each = engine_each(&figures);
  entry->least = entry->figures.frames > 0 ? fmin(entry->least, each) : each;
  entry->most = fmax(entry->most, each);
  add(&entry->figures, &figures);
  return true;
}

static bool open_entry(const struct bench *bench, struct entry *entry, struct problem *problem) {
  struct engine *engine = engine_new(bench->all->device, &entry->setup, problem);
  bool is_asked_for = engine && engine_graph(engine) == (entry->setup.graph == GPU_GRAPH_ON);
  entry->engine = is_asked_for ? engine : NULL;
  if (engine && !is_asked_for) {
    engine_free(engine);
  }
  return engine;
}

static bool add_entry(const struct bench *bench, const struct entry *entry, struct problem *problem) {
  const struct engine_figures *figures = &entry->figures;
  const struct engine_setup *setup = &entry->setup;
  if (!entry->engine) {
    return true;
  }
  bool spins = setup->completion == ENGINE_SPIN;
  json_t *row = new_row(bench, spins ? "spin" : "callback", engine_each(figures));
  json_object_set_new(row, "slots", json_integer(setup->slots));
  json_object_set_new(row, "graph", json_string(setup->graph == GPU_GRAPH_ON ? "yes" : "no"));
  json_object_set_new(row, "copies", json_string(figures->side_by_side ? "kernel" : "engine"));
  json_object_set_new(row, "spread", json_real(entry->most / entry->least));
  add_costs(entry->engine, row);
  add_ideal(bench, row, figures, setup->slots);
  overlap_bound(row, bench->all->kernels);
  bool done = spins || setup->slots != OVERLAP_ENOUGH_SLOTS || add_bare(bench, row, setup, problem);
  results_row(bench->all->results, row);
  return done;
}

static bool measure_entries(const struct bench *bench, struct entry *entries, int count, struct problem *problem) {
  for (int i = 0; i < count; i++) {
    if (!open_entry(bench, &entries[i], problem)) {
      return false;
    }
  }
  for (int turn = 0; turn < (bench->all->options->quick ? 1 : OVERLAP_TURNS); turn++) {
    for (int i = 0; i < count; i++) {
      if (!take_turn(&entries[i], bench->all->seconds / OVERLAP_TURNS, problem)) {
        return false;
      }
    }
  }
  for (int i = 0; i < count; i++) {
    if (!add_entry(bench, &entries[i], problem)) {
      return false;
    }
  }
  return true;
}

/* The number of different slots. */
static size_t slots_count(bool quick) { return MOST_ROWS - (quick ? 2 : 0); }

/* Adds rows that differ in their slots. */
static bool slots_rows(const struct bench *bench, enum engine_completion completion, bool graph, struct problem *problem) {
  static const unsigned slots[MOST_ROWS] = {1, 2, 3, 4, 8};
  const int count = (int)slots_count(bench->all->options->quick);
  struct entry entries[MOST_ROWS] = {0};
  for (int i = 0; i < count; i++) {
    entries[i].setup = (struct engine_setup){.chain = bench->chain,
                                             .slots = slots[i],
                                             .completion = completion,
                                             .graph = graph ? GPU_GRAPH_ON : GPU_GRAPH_OFF,
                                             .weigh = true};
  }
  bool done = measure_entries(bench, entries, count, problem);
  for (int i = 0; i < count; i++) {
    engine_free(entries[i].engine);
  }
  return done;
}

/* On a GPU the host waits for each step. The CPU has only one step, and no pinned memory. */
static bool run_serial(const struct bench *bench, bool pageable, double *each, struct problem *problem) {
#ifdef FRAMED_CUDA
  if (bench->all->cuda) {
    return overlap_cuda_serial(bench->chain, bench->all->options->device, pageable, bench->all->seconds, each, problem);
  }
#endif
  struct entry entry = {
      .setup = {.chain = bench->chain, .slots = 1, .completion = ENGINE_SPIN, .pageable = pageable, .graph = GPU_GRAPH_OFF}};
  bool done = open_entry(bench, &entry, problem) && take_turn(&entry, bench->all->seconds, problem);
  engine_free(entry.engine);
  *each = done ? engine_each(&entry.figures) : 0;
  return done;
}

static bool serial_rows(struct bench *bench, struct problem *problem) {
  double pageable, pinned;
  if (!run_serial(bench, false, &pinned, problem) || !run_serial(bench, true, &pageable, problem)) {
    return false;
  }
  bench->serial = pinned;
  results_row(bench->all->results, new_row(bench, "serial, pageable", pageable));
  results_row(bench->all->results, new_row(bench, "serial, pinned", pinned));
  return true;
}

static bool kernel_rows(struct bench *bench, struct problem *problem) {
  bench->serial = 0;
  if (!serial_rows(bench, problem)) {
    return false;
  }
  for (int way = 0; way < WAYS; way++) {
    if (!slots_rows(bench, way % 2 ? ENGINE_CALLBACK : ENGINE_SPIN, way / 2, problem)) {
      return false;
    }
  }
  return true;
}

static bool measure_copy(struct bench *bench, struct problem *problem) {
#ifdef FRAMED_CUDA
  double rate = 0;
  if (bench->all->cuda) {
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
  if (!measure_copy(bench, problem) || !workload_measure(bench->all->device, bench->bytes, &costs, problem)) {
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

bool overlap_rows(const struct overlap_bench *all, struct problem *problem) {
  static const size_t sizes[] = {4096, 65536, 1 << 20, 4 << 20, 24 << 20};
  struct bench bench = {.all = all};
  const size_t count = all->options->quick ? 2 : sizeof sizes / sizeof sizes[0];
  results_section(all->results, &rows_section);
  results_expect(all->results, count * WORKLOAD_KINDS * (SERIAL_ROWS + WAYS * slots_count(all->options->quick)));
  for (size_t i = 0; i < count; i++) {
    bench.bytes = sizes[i];
    if (!size_rows(&bench, problem)) {
      return false;
    }
  }
  return true;
}
