/*
 * framebench transport: frames from a client to the daemon and back in shared memory. They are compared with the same work in
 * one process without a daemon, and with the daemon's sockets.
 *
 * It starts its own daemon before this process uses the device. All are measured in turns, since a machine's speed changes over
 * time, and the median of each counts. Small frames have more turns, since processors limit them, which vary most. The target
 * of small frames is the usual loop with copy engines. A loop with copies by kernels is also shown, since the daemon copies
 * small frames so.
 *
 * A resident kernel takes frames without launches, so no loop of launches limits it. Its target is the ideal of a frame's own
 * copies and kernels, and the link's rate. Calls limit small copies, so the link is also measured with large ones, and the
 * higher rate is the limit.
 */
#include "tools/framebench/command.h"
#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/common/options.h"
#include "tools/framebench/common/own_daemon.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/common/targets.h"
#include "tools/framebench/load/report.h"
#include "tools/framebench/load/trial.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/common/cuda_bare.h"
#include "tools/framebench/limits/limits.h"
#endif

#include <string.h>

enum { LARGE = 4 << 20, MEDIUM = 64 << 10, SMALL = 4096, LARGE_RUNS = 3, RUNS = 5 };

/* The measurements, largest frames first; each is a size and a way of transport. */
enum way {
  LARGE_SHM,
  LARGE_STREAM,
  LARGE_SOCKETS,
  LARGE_ALONE,
  MEDIUM_SHM,
  MEDIUM_ALONE,
  MEDIUM_COPIED,
  MEDIUM_STAYS,
  MEDIUM_LINK,
  LARGE_LINK,
  SMALL_SHM,
  SMALL_ALONE,
  SMALL_COPIED,
  SMALL_STAYS,
  SMALL_STAYS_ALONE,
  SMALL_IDEAL,
  WAYS
};

struct work {
  const char *way;
  size_t bytes;
  unsigned slots;
  const char *pipeline; /* NULL: without the daemon */
  enum load_transport transport;
  unsigned in_flight; /* 1: its latency counts instead of its rate */
  bool copied;        /* by kernels; only with CUDA */
  bool ideal;         /* the ideal of a frame's copies and kernels instead of a measured rate */
  size_t link;        /* the link's rate in both directions at once, with copies of that size; only with CUDA */
};

static const struct work works[WAYS] = {
    [LARGE_SHM] = {.way = "shm", .bytes = LARGE, .slots = 3, .pipeline = "large", .transport = LOAD_SHARED},
    [LARGE_STREAM] = {.way = "stream", .bytes = LARGE, .slots = 3, .pipeline = "large", .transport = LOAD_STREAM},
    [LARGE_SOCKETS] = {.way = "sockets", .bytes = LARGE, .slots = 3, .pipeline = "sockets", .transport = LOAD_ANY},
    [LARGE_ALONE] = {.way = "alone", .bytes = LARGE, .slots = 3},
    [MEDIUM_SHM] = {.way = "shm", .bytes = MEDIUM, .slots = 4, .pipeline = "medium", .transport = LOAD_SHARED},
    [MEDIUM_ALONE] = {.way = "alone", .bytes = MEDIUM, .slots = 4},
    [MEDIUM_COPIED] = {.way = "alone, kernels copy", .bytes = MEDIUM, .slots = 4, .copied = true},
    [MEDIUM_STAYS] =
        {.way = "shm, persistent", .bytes = MEDIUM, .slots = 8, .pipeline = "medium-stays", .transport = LOAD_SHARED},
    [MEDIUM_LINK] = {.way = "link, copies of 64 KiB", .bytes = MEDIUM, .link = MEDIUM},
    [LARGE_LINK] = {.way = "link, copies of 4 MiB", .bytes = MEDIUM, .link = LARGE},
    [SMALL_SHM] = {.way = "shm", .bytes = SMALL, .slots = 2, .pipeline = "small", .transport = LOAD_SHARED, .in_flight = 1},
    [SMALL_ALONE] = {.way = "alone", .bytes = SMALL, .slots = 1, .in_flight = 1},
    [SMALL_COPIED] = {.way = "alone, kernels copy", .bytes = SMALL, .slots = 1, .in_flight = 1, .copied = true},
    [SMALL_STAYS] = {.way = "shm, persistent", .bytes = SMALL, .slots = 8, .pipeline = "small-stays", .transport = LOAD_SHARED},
    [SMALL_STAYS_ALONE] = {.way = "shm, persistent, one at a time",
                           .bytes = SMALL,
                           .slots = 8,
                           .pipeline = "small-stays",
                           .transport = LOAD_SHARED,
                           .in_flight = 1},
    [SMALL_IDEAL] = {.way = "copies and kernels", .bytes = SMALL, .slots = 8, .ideal = true},
};

static const struct own_pipeline pipelines[] = {
    {.name = "large", .completion = "spin", .frame_bytes = LARGE, .slots = 3, .native = true},
    {.name = "sockets", .completion = "spin", .frame_bytes = LARGE, .slots = 3},
    {.name = "medium", .completion = "spin", .frame_bytes = MEDIUM, .slots = 4, .native = true, .graph = "on"},
    {.name = "medium-stays", .completion = "persistent", .frame_bytes = MEDIUM, .slots = 8, .native = true},
    {.name = "small", .completion = "spin", .frame_bytes = SMALL, .slots = 2, .native = true},
    {.name = "small-stays", .completion = "persistent", .frame_bytes = SMALL, .slots = 8, .native = true},
};

struct transport {
  const struct options *options;
  struct results *results;
  const char *socket;
  struct gpu_device *device;
  bool cuda;
  struct samples figures[WAYS]; /* frames per second, or microseconds */
};

static const struct section rows_section = {"transport", "From client to daemon to client, and without a daemon",
                                            (const struct column[]){{"way", "WAY", COLUMN_TEXT},
                                                                    {"bytes", "FRAME", COLUMN_SIZE},
                                                                    {"slots", "SLOTS", COLUMN_COUNT},
                                                                    {"frames_per_s", "FRAMES/s", COLUMN_RATE},
                                                                    {"in_gb_per_s", "GB/s EACH WAY", COLUMN_BANDWIDTH},
                                                                    {"p50_us", "P50", COLUMN_TIME},
                                                                    {"p99_us", "P99", COLUMN_TIME},
                                                                    {"cpus", "CPUS", COLUMN_BANDWIDTH},
                                                                    {0}}};

static double seconds(const struct transport *transport) { return transport->options->quick ? 0.1 : 1.0; }

static bool keep(struct transport *transport, enum way way, double figure, json_t *row, struct problem *problem) {
  json_object_set_new(row, "way", json_string(works[way].way));
  json_object_set_new(row, "bytes", json_integer((json_int_t)works[way].bytes));
  if (works[way].slots > 0) {
    json_object_set_new(row, "slots", json_integer(works[way].slots));
  }
  results_row(transport->results, row);
  return samples_add(&transport->figures[way], figure) ||
         problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples");
}

/* -- through the daemon ------------------------------------------------------------------------------------------------ */

static bool go_through(struct transport *transport, enum way way, struct problem *problem) {
  const struct work *work = &works[way];
  const struct load_plan plan = {
      .clients = 1, .in_flight = work->in_flight, .transport = work->transport, .spin = work->transport != LOAD_ANY};
  json_t *row = load_report_measure(transport->socket, &work->pipeline, 1, &plan, seconds(transport), problem);
  const char *key = work->in_flight > 0 ? "p50_us" : "frames_per_s";
  return row && keep(transport, way, json_number_value(json_object_get(row, key)), row, problem);
}

/* -- without it -------------------------------------------------------------------------------------------------------- */

/* `each`: microseconds per frame, or of one frame alone. */
static bool run_engine(const struct transport *transport, const struct work *work, const struct gpu_chain *chain, double *each,
                       struct problem *problem) {
  const struct engine_setup setup = {
      .chain = chain,
      .slots = work->slots,
      .completion = ENGINE_SPIN,
      .graph = work->ideal && transport->cuda ? GPU_GRAPH_ON : GPU_GRAPH_AUTO,
      .weigh = work->ideal,
  };
  struct engine *engine = engine_new(transport->device, &setup, problem);
  struct engine_figures figures;
  struct samples alone = {0};
  const unsigned kernels = transport->cuda ? 1 : machine_processors();
  bool done = engine != NULL;
  if (work->in_flight == 0) {
    done = done && engine_run_for(engine, seconds(transport), &figures, problem);
    *each = !done ? 0 : work->ideal ? engine_ideal(&figures, work->slots, kernels, 0) : engine_each(&figures);
  }
  for (int i = 0; i < (transport->options->quick ? 20 : 2000) && work->in_flight > 0 && done; i++) {
    done = engine_run(engine, 1, NULL, 0, &figures, problem) && samples_add(&alone, figures.wall);
    *each = samples_percentile(&alone, 0.5);
  }
  samples_free(&alone);
  engine_free(engine);
  return done;
}

#ifdef FRAMED_CUDA
static bool run_bare(const struct transport *transport, const struct work *work, const struct gpu_chain *chain, bool graph,
                     double *each, struct problem *problem) {
  const struct bare_setup setup = {
      .chain = chain, .device = transport->options->device, .slots = work->slots, .graph = graph, .copied = work->copied};
  struct bare *bare = bare_new(&setup, problem);
  struct samples alone = {0};
  bool done = bare != NULL;
  if (work->in_flight == 0) {
    done = done && bare_run_for(bare, seconds(transport), each, problem);
  } else {
    done = done && bare_round_trips(bare, transport->options->quick ? 20 : 2000, &alone, problem);
    *each = samples_percentile(&alone, 0.5);
  }
  samples_free(&alone);
  bare_free(bare);
  return done;
}

/* The better of launches and graphs, for any size. */
static bool run_best_bare(const struct transport *transport, const struct work *work, const struct gpu_chain *chain,
                          double *each, struct problem *problem) {
  double launched, replayed;
  if (!run_bare(transport, work, chain, false, &launched, problem) ||
      !run_bare(transport, work, chain, true, &replayed, problem)) {
    return false;
  }
  *each = launched < replayed ? launched : replayed;
  return true;
}

static bool run_link(const struct work *work, double *each, struct problem *problem) {
  double rate = 0;
  bool done = limits_both_ways(work->link, &rate, problem);
  *each = done ? (double)work->bytes / rate / 1e3 : 0;
  return done;
}
#endif

/* On the CPU there is no barer loop than the engine. */
static bool go_alone(struct transport *transport, enum way way, struct problem *problem) {
  const struct work *work = &works[way];
  struct gpu_chain *chain = engine_chain(work->bytes, "affine", "scale", 1, problem);
  double each = 0;
#ifdef FRAMED_CUDA
  bool done = chain && (work->link > 0                    ? run_link(work, &each, problem)
                        : transport->cuda && !work->ideal ? run_best_bare(transport, work, chain, &each, problem)
                                                          : run_engine(transport, work, chain, &each, problem));
#else
  bool done = chain && run_engine(transport, work, chain, &each, problem);
#endif
  gpu_chain_free(chain);
  if (!done) {
    return false;
  }
  if (work->in_flight > 0) {
    return keep(transport, way, each, json_pack("{s:f}", "p50_us", each), problem);
  }
  return keep(transport, way, 1e6 / each,
              json_pack("{s:f, s:f}", "frames_per_s", 1e6 / each, "in_gb_per_s", (double)work->bytes / each / 1e3), problem);
}

/* -- targets ----------------------------------------------------------------------------------------------------------- */

static double median(struct transport *transport, enum way way) { return samples_percentile(&transport->figures[way], 0.5); }

static void add_targets_of_launches(struct transport *transport) {
  double stream = median(transport, LARGE_STREAM), sockets = median(transport, LARGE_SOCKETS);
  double alone = median(transport, SMALL_ALONE);
  const struct target targets[] = {
      {"client to daemon to client in shared memory, 4 MiB frames, 3 slots, spin",
       transport->cuda ? "bare CUDA loop in one process" : "engine in one process", "frames/s", median(transport, LARGE_SHM),
       median(transport, LARGE_ALONE), 0.95, false},
      {"the same", stream > sockets ? "the daemon's native stream" : "the daemon's raw sockets, a client of two threads",
       "frames/s", median(transport, LARGE_SHM), stream > sockets ? stream : sockets, 6.5, false},
      {"client to daemon to client in shared memory, 64 KiB frames, 4 slots, graphs, spin",
       transport->cuda ? "bare CUDA loop with graphs in one process" : "engine in one process", "frames/s",
       median(transport, MEDIUM_SHM), median(transport, MEDIUM_ALONE), 0.80, false},
      {"client to daemon to client in shared memory, 4 KiB frames, one at a time, spin: times the round trip without a daemon",
       "", "", alone > 0 ? median(transport, SMALL_SHM) / alone : 0, 0, 1.4, true}};
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    targets_add(transport->results, &targets[i]);
  }
}

/* Adds the targets of the resident kernel. */
static void add_targets_of_stays(struct transport *transport) {
  double alone = median(transport, SMALL_ALONE);
  double small = median(transport, MEDIUM_LINK), large = median(transport, LARGE_LINK);
  targets_add(transport->results,
              &(struct target){"client to daemon to client in shared memory, 4 KiB frames, 8 slots, persistent",
                               "what their own copies and kernels allow", "frames/s", median(transport, SMALL_STAYS),
                               median(transport, SMALL_IDEAL), 0.5, false});
  if (transport->cuda) {
    targets_add(transport->results,
                &(struct target){"client to daemon to client in shared memory, 64 KiB frames, 8 slots, persistent",
                                 small > large ? "what the link carries both ways at once, in copies of 64 KiB"
                                               : "what the link carries both ways at once, in copies of 4 MiB",
                                 "frames/s", median(transport, MEDIUM_STAYS), small > large ? small : large, 0.85, false});
  }
  targets_add(
      transport->results,
      &(struct target){"client to daemon to client in shared memory, 4 KiB frames, one at a time, persistent: times the "
                       "round trip without a daemon",
                       "", "", alone > 0 ? median(transport, SMALL_STAYS_ALONE) / alone : 0, 0, 0.45, true});
}

/* -- all of it --------------------------------------------------------------------------------------------------------- */

static bool measure_way(struct transport *transport, enum way way, struct problem *problem) {
  if ((works[way].copied || works[way].link > 0) && !transport->cuda) {
    return true;
  }
  return works[way].pipeline ? go_through(transport, way, problem) : go_alone(transport, way, problem);
}

static bool measure_all(struct transport *transport, struct problem *problem) {
  bool done = true;
  results_section(transport->results, &rows_section);
  for (int run = 0; run < RUNS; run++) {
    for (int way = run < LARGE_RUNS ? 0 : MEDIUM_SHM; way < WAYS && done; way++) {
      done = measure_way(transport, (enum way)way, problem);
    }
  }
  if (done) {
    targets_begin(transport->results);
    add_targets_of_launches(transport);
    add_targets_of_stays(transport);
  }
  return done;
}

static bool with_device(struct transport *transport, struct problem *problem) {
  transport->device = options_open(transport->options, 0, problem);
  if (!transport->device) {
    return false;
  }
  transport->cuda = strcmp(gpu_backend_name(transport->device), "cuda") == 0;
  results_set(transport->results, "backend", json_string(gpu_backend_name(transport->device)));
  results_set(transport->results, "device", json_string(gpu_device_name(transport->device)));
  bool done = measure_all(transport, problem);
  gpu_close(transport->device);
  return done;
}

static bool with_daemon(struct transport *transport, struct problem *problem) {
  json_t *keys = json_pack("{s:o}", "gpu", options_gpu(transport->options));
  struct own_daemon *daemon = own_daemon_start(pipelines, sizeof pipelines / sizeof pipelines[0], keys, problem);
  if (!daemon) {
    return false;
  }
  transport->socket = own_daemon_socket(daemon);
  bool done = with_device(transport, problem);
  own_daemon_stop(daemon);
  return done;
}

bool command_transport(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, 0, &options, problem)) {
    return false;
  }
  struct transport transport = {.options = &options, .results = results_new("transport", options.json, machine_describe())};
  if (!transport.results) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  }
  bool done = with_daemon(&transport, problem) && results_finish(transport.results, problem);
  for (int way = 0; way < WAYS; way++) {
    samples_free(&transport.figures[way]);
  }
  results_free(transport.results);
  return done;
}
