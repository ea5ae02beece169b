/*
 * framebench daemon: the rate and latency of framed from socket to socket, compared with sockets and device alone.
 *
 * It starts its own daemon. Limits and daemon are measured in turns, since a machine's speed changes over time, and the median
 * of each counts. Measurements of the device in this process come last, since everything before forks.
 */
#include "tools/framebench/command.h"
#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/common/options.h"
#include "tools/framebench/common/own_daemon.h"
#include "tools/framebench/common/relay.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/common/targets.h"
#include "tools/framebench/load/report.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/common/cuda_bare.h"
#endif

#include <stdlib.h>
#include <string.h>

enum { LARGE = 4 << 20, SMALL = 4096, SHARED = 1 << 20, SLOTS = 4, RUNS = 5, MANY = 64, MANY_QUICK = 6 };
enum own { OWN_CALLBACK, OWN_SPIN, OWN_SMALL, OWN_FIRST, OWN_COUNT = OWN_FIRST + MANY };

struct measuring {
  const struct options *options;
  struct results *results;
  const char *socket, *folder; /* of the daemon: its status socket, and the folder of the pipelines' sockets */
  unsigned many;               /* pipelines that share the device */
  struct own_pipeline pipelines[OWN_COUNT];
  char names[MANY][20];
};

static const struct section rows_section = {"daemon", "Frames from socket to socket: the daemon, and sockets alone",
                                            (const struct column[]){{"what", "WHAT", COLUMN_TEXT},
                                                                    {"bytes", "FRAME", COLUMN_SIZE},
                                                                    {"frames_per_s", "FRAMES/s", COLUMN_RATE},
                                                                    {"in_gb_per_s", "GB/s EACH WAY", COLUMN_BANDWIDTH},
                                                                    {"p50_us", "P50", COLUMN_TIME},
                                                                    {"p99_us", "P99", COLUMN_TIME},
                                                                    {"cpus", "CPUS", COLUMN_BANDWIDTH},
                                                                    {0}}};

/* -- the daemon's pipelines ----------------------------------------------------------------------------------------- */

static struct own_pipeline own_sockets(const char *name, const char *completion, size_t frame_bytes, unsigned slots) {
  return (struct own_pipeline){.name = name, .completion = completion, .frame_bytes = frame_bytes, .slots = slots};
}

static void fill_pipelines(struct measuring *measuring) {
  struct own_pipeline *pipelines = measuring->pipelines;
  pipelines[OWN_CALLBACK] = own_sockets("callback", "callback", LARGE, SLOTS);
  pipelines[OWN_SPIN] = own_sockets("spin", "spin", LARGE, SLOTS);
  pipelines[OWN_SMALL] = own_sockets("small", "spin", SMALL, 2);
  for (unsigned i = 0; i < measuring->many; i++) {
    snprintf(measuring->names[i], sizeof measuring->names[i], "shared%u", i);
    pipelines[OWN_FIRST + i] = own_sockets(measuring->names[i], "callback", SHARED, SLOTS);
  }
}

static double seconds(const struct measuring *measuring) { return measuring->options->quick ? 0.1 : 1.0; }

/* Loads `count` pipelines from `first` on. Returns a row of results, or NULL. */
static json_t *load_own(const struct measuring *measuring, unsigned first, unsigned count, const struct load_plan *plan,
                        struct problem *problem) {
  const char *names[MANY];
  for (unsigned i = 0; i < count; i++) {
    names[i] = measuring->pipelines[first + i].name;
  }
  return load_report_measure(measuring->socket, names, count, plan, seconds(measuring), problem);
}

static double number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

static bool add_row(const struct measuring *measuring, const char *what, size_t bytes, json_t *row) {
  json_object_set_new(row, "what", json_string(what));
  json_object_set_new(row, "bytes", json_integer((json_int_t)bytes));
  results_row(measuring->results, row);
  return true;
}

/* -- large frames: throughput of a client with blocking calls, like the relay's ---------------------------------------- */

enum { LARGE_RUNS = 9, LARGE_RUNS_QUICK = 3, LARGE_WAYS = 3 };

static const struct large_way { /* through the relay, or through the daemon */
  const char *what;
  enum own own;
} large_ways[LARGE_WAYS] = {{"plain relay, a reading and a writing thread", OWN_COUNT},
                            {"daemon, 4 slots, callback", OWN_CALLBACK},
                            {"daemon, 4 slots, spin", OWN_SPIN}};

static const struct large_buffers { /* of the client's and the relay's sockets */
  size_t bytes;
  const char *row, *spin, *callback;
  double bound;
} large_buffers[] = {{0, "", "daemon, socket to socket, 4 MiB frames, 4 slots, spin",
                      "daemon, socket to socket, 4 MiB frames, 4 slots, callback", 0.95},
                     {8 << 20, ", buffers of 8 MiB", "daemon, socket to socket, 4 MiB frames, buffers of 8 MiB, 4 slots, spin",
                      "daemon, socket to socket, 4 MiB frames, buffers of 8 MiB, 4 slots, callback", 0.9}};

static bool large_once(const struct measuring *measuring, enum own own, size_t buffer, struct samples *rates,
                       struct problem *problem) {
  struct relay_load load = {
      .kind = RELAY_TWO_THREADS, .frame_bytes = LARGE, .socket_buffer = buffer, .seconds = seconds(measuring) / 2};
  char source[120], sink[128];
  double rate = 0;
  if (own != OWN_COUNT) {
    snprintf(source, sizeof source, "%s/%s", measuring->folder, measuring->pipelines[own].name);
    snprintf(sink, sizeof sink, "%s.out", source);
    load.source = source;
    load.sink = sink;
  }
  return relay_throughput(&load, &rate, problem) && samples_add(rates, rate / 1e9);
}

static double add_large_row(const struct measuring *measuring, const char *what, const char *buffers, struct samples *rates) {
  char text[96];
  double rate = samples_percentile(rates, 0.5);
  snprintf(text, sizeof text, "%s%s", what, buffers);
  add_row(measuring, text, LARGE, json_pack("{s:f, s:f}", "frames_per_s", rate * 1e9 / LARGE, "in_gb_per_s", rate));
  return rate;
}

static bool measure_large(const struct measuring *measuring, const struct large_buffers *buffers,
                          struct samples figures[LARGE_WAYS], struct target *target, struct problem *problem) {
  for (int run = 0; run < (measuring->options->quick ? LARGE_RUNS_QUICK : LARGE_RUNS); run++) {
    for (int way = 0; way < LARGE_WAYS; way++) {
      if (!large_once(measuring, large_ways[way].own, buffers->bytes, &figures[way], problem)) {
        return false;
      }
    }
  }
  double rates[LARGE_WAYS];
  for (int way = 0; way < LARGE_WAYS; way++) {
    rates[way] = add_large_row(measuring, large_ways[way].what, buffers->row, &figures[way]);
  }
  bool spin = rates[2] > rates[1];
  *target = (struct target){.what = spin ? buffers->spin : buffers->callback,
                            .limit = "plain relay with a reading and a writing thread",
                            .unit = "GB/s",
                            .value = spin ? rates[2] : rates[1],
                            .limit_value = rates[0],
                            .bound = buffers->bound};
  return true;
}

/* -- one small frame at a time -------------------------------------------------------------------------------------- */

static bool hops_once(const struct measuring *measuring, struct samples *medians, struct problem *problem) {
  const struct relay_load load = {.kind = RELAY_POLLING, .frame_bytes = SMALL, .seconds = seconds(measuring) / 2};
  struct samples round_trips = {0};
  bool done = relay_latency(&load, &round_trips, problem) && samples_add(medians, samples_percentile(&round_trips, 0.5));
  samples_free(&round_trips);
  return done;
}

static bool small_once(const struct measuring *measuring, struct samples *medians, struct problem *problem) {
  const struct load_plan plan = {.clients = 1, .in_flight = 1, .spin = true};
  json_t *row = load_own(measuring, OWN_SMALL, 1, &plan, problem);
  return row && samples_add(medians, number(row, "p50_us")) &&
         add_row(measuring, "daemon, 2 slots, spin, one in flight", SMALL, row);
}

static bool measure_small(const struct measuring *measuring, struct samples figures[2], double *hops, double *daemon,
                          struct problem *problem) {
  for (int run = 0; run < RUNS; run++) {
    if (!hops_once(measuring, &figures[0], problem) || !small_once(measuring, &figures[1], problem)) {
      return false;
    }
  }
  *hops = samples_percentile(&figures[0], 0.5);
  *daemon = samples_percentile(&figures[1], 0.5);
  return add_row(measuring, "two socket hops that never sleep, one in flight", SMALL,
                 json_pack("{s:f, s:f}", "frames_per_s", 1e6 / *hops, "p50_us", *hops));
}

/* -- many pipelines over one ---------------------------------------------------------------------------------------- */

static bool shared_once(const struct measuring *measuring, unsigned count, struct samples *rates, struct problem *problem) {
  const struct load_plan plan = {.clients = 1};
  char what[64];
  snprintf(what, sizeof what, "daemon, %u pipeline%s, 4 slots, callback", count, count > 1 ? "s" : "");
  json_t *row = load_own(measuring, OWN_FIRST, count, &plan, problem);
  return row && samples_add(rates, number(row, "frames_per_s")) && add_row(measuring, what, SHARED, row);
}

static bool measure_shared(const struct measuring *measuring, struct samples figures[2], struct target *target,
                           struct problem *problem) {
  for (int run = 0; run < RUNS; run++) {
    if (!shared_once(measuring, 1, &figures[0], problem) || !shared_once(measuring, measuring->many, &figures[1], problem)) {
      return false;
    }
  }
  *target = (struct target){.what = measuring->many == MANY ? "daemon, 64 pipelines together, 1 MiB frames, all saturated"
                                                            : "daemon, 6 pipelines together, 1 MiB frames, all saturated",
                            .limit = "1 pipeline",
                            .unit = "frames/s",
                            .value = samples_percentile(&figures[1], 0.5),
                            .limit_value = samples_percentile(&figures[0], 0.5),
                            .bound = 0.9};
  return true;
}

/* -- one frame alone on the device ---------------------------------------------------------------------------------- */

static bool engine_alone(const struct measuring *measuring, struct gpu_device *device, const struct gpu_chain *chain,
                         double *us, struct problem *problem) {
  const struct engine_setup setup = {.chain = chain, .slots = 1, .completion = ENGINE_SPIN};
  struct samples samples = {0};
  struct engine *engine = engine_new(device, &setup, problem);
  bool done = engine != NULL;
  for (int i = 0; i < (measuring->options->quick ? 20 : 2000) && done; i++) {
    struct engine_figures figures;
    done = engine_run(engine, 1, NULL, 0, &figures, problem) && samples_add(&samples, figures.wall);
  }
  *us = samples_percentile(&samples, 0.5);
  samples_free(&samples);
  engine_free(engine);
  return done || (!problem->text && problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory"));
}

#ifdef FRAMED_CUDA
/* The better of launches and a graph. */
static bool bare_alone(const struct measuring *measuring, const struct gpu_chain *chain, double *us, struct problem *problem) {
  for (int graph = 0; graph < 2; graph++) {
    const struct bare_setup setup = {.chain = chain, .device = measuring->options->device, .slots = 1, .graph = graph == 1};
    struct samples samples = {0};
    struct bare *bare = bare_new(&setup, problem);
    bool done = bare && bare_round_trips(bare, measuring->options->quick ? 20 : 2000, &samples, problem);
    double median = samples_percentile(&samples, 0.5);
    samples_free(&samples);
    bare_free(bare);
    if (!done) {
      return false;
    }
    *us = graph == 0 || median < *us ? median : *us;
  }
  return true;
}
#endif

/* On the CPU there is no barer loop than the engine. */
static bool measure_alone(const struct measuring *measuring, double *us, struct problem *problem) {
  struct gpu_device *device = options_open(measuring->options, 0, problem);
  struct gpu_chain *chain = device ? engine_chain(SMALL, "affine", "scale", 1, problem) : NULL;
  bool done = false;
  if (chain) {
#ifdef FRAMED_CUDA
    bool bare = strcmp(gpu_backend_name(device), "cuda") == 0;
    done = bare ? bare_alone(measuring, chain, us, problem) : engine_alone(measuring, device, chain, us, problem);
#else
    done = engine_alone(measuring, device, chain, us, problem);
#endif
  }
  gpu_chain_free(chain);
  gpu_close(device);
  return done;
}

/* -- all of it ------------------------------------------------------------------------------------------------------ */

enum { LARGE_FIGURES, WIDE_FIGURES = 3, SMALL_FIGURES = 6, SHARED_FIGURES = 8, FIGURES = 10 };
enum { TARGETS = 3 };

static bool measure_daemon(const struct measuring *measuring, struct target targets[TARGETS], double *hops, double *total,
                           struct problem *problem) {
  struct samples figures[FIGURES] = {{0}};
  bool done = measure_large(measuring, &large_buffers[0], figures + LARGE_FIGURES, &targets[0], problem) &&
              measure_large(measuring, &large_buffers[1], figures + WIDE_FIGURES, &targets[1], problem) &&
              measure_small(measuring, figures + SMALL_FIGURES, hops, total, problem) &&
              measure_shared(measuring, figures + SHARED_FIGURES, &targets[2], problem);
  for (int i = 0; i < FIGURES; i++) {
    samples_free(&figures[i]);
  }
  return done || (!problem->text && problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory"));
}

static bool describe(const struct measuring *measuring, struct problem *problem) {
  struct load_target target;
  if (!load_target_open(&target, measuring->socket, &measuring->pipelines[OWN_SMALL].name, 1, problem)) {
    return false;
  }
  results_set(measuring->results, "backend", json_incref(json_object_get(target.daemon, "backend")));
  results_set(measuring->results, "device", json_incref(json_object_get(target.daemon, "device")));
  results_set(measuring->results, "lanes", json_incref(json_object_get(target.daemon, "lanes")));
  load_target_close(&target);
  return true;
}

static bool with_daemon(struct measuring *measuring, struct target targets[TARGETS], double *hops, double *total,
                        struct problem *problem) {
  json_t *keys = json_pack("{s:o, s:{s:i}}", "gpu", options_gpu(measuring->options), "limits", "readers_per_user", 0);
  struct own_daemon *daemon = own_daemon_start(measuring->pipelines, OWN_FIRST + measuring->many, keys, problem);
  if (!daemon) {
    return false;
  }
  measuring->socket = own_daemon_socket(daemon);
  measuring->folder = own_daemon_folder(daemon);
  results_section(measuring->results, &rows_section);
  bool done = describe(measuring, problem) && measure_daemon(measuring, targets, hops, total, problem);
  own_daemon_stop(daemon);
  return done;
}

static bool measure(struct measuring *measuring, struct problem *problem) {
  struct target targets[TARGETS];
  double hops = 0, total = 0, alone = 0;
  if (!with_daemon(measuring, targets, &hops, &total, problem) || !measure_alone(measuring, &alone, problem)) {
    return false;
  }
  add_row(measuring, "affine on the device, one frame alone", SMALL, json_pack("{s:f}", "p50_us", alone));
  const struct target added = {.what = "daemon, 4 KiB frames, one in flight, spin: p50 beyond device and two hops",
                               .limit = "bare round trip and two socket hops",
                               .unit = "us",
                               .value = total - hops - alone,
                               .limit_value = hops + alone,
                               .bound = 10,
                               .at_most = true};
  targets_begin(measuring->results);
  targets_add(measuring->results, &targets[0]);
  targets_add(measuring->results, &targets[1]);
  targets_add(measuring->results, &added);
  targets_add(measuring->results, &targets[2]);
  return true;
}

bool command_daemon(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, 0, &options, problem)) {
    return false;
  }
  struct measuring measuring = {.options = &options,
                                .results = results_new("daemon", options.json, machine_describe()),
                                .many = options.quick ? MANY_QUICK : MANY};
  if (!measuring.results) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  }
  fill_pipelines(&measuring);
  bool done = measure(&measuring, problem) && results_finish(measuring.results, problem);
  results_free(measuring.results);
  return done;
}
