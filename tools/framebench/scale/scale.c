/*
 * framebench scale: one pipeline on 1, 2, 4 and more devices, beside that many times one device, and beside loops without a
 * daemon on all these devices at once.
 *
 * Clients and daemon share memory, and each device has the same sessions. A daemon that has a pipeline for each number of
 * devices is started before anything here uses a device. What it can be held to is that many times its rate on one device,
 * or what the host lets all devices do together, where that is less. All take turns, and the median of each counts.
 */
#include "tools/framebench/command.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/common/own_daemon.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/common/targets.h"
#include "tools/framebench/load/report.h"
#include "tools/framebench/scale/alone.h"
#include "tools/framebench/scale/work.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS = 3, CPUS = 4, MOST_COUNTS = 8, NAME = 16 };

struct scale {
  const struct options *options;
  struct results *results;
  bool cuda;
  const char *socket; /* the daemon's */
  struct work works[WORK_MOST];
  unsigned work_count;
  unsigned counts[MOST_COUNTS], count_count; /* of devices */
  struct gpu_device *devices[OPTIONS_MOST_DEVICES];
  struct samples daemon[WORK_MOST][MOST_COUNTS], alone[WORK_MOST][MOST_COUNTS]; /* frames a second */
};

static const struct section rows_section = {"scale", "Sessions on several devices, and loops without a daemon on all of them",
                                            (const struct column[]){{"work", "WORK", COLUMN_TEXT},
                                                                    {"bytes", "FRAME", COLUMN_SIZE},
                                                                    {"devices", "DEVICES", COLUMN_COUNT},
                                                                    {"clients", "SESSIONS", COLUMN_COUNT},
                                                                    {"frames_per_s", "FRAMES/s", COLUMN_RATE},
                                                                    {"linear", "OF LINEAR", COLUMN_RATIO},
                                                                    {"p50_us", "P50", COLUMN_TIME},
                                                                    {"p99_us", "P99", COLUMN_TIME},
                                                                    {"lost", "LOST", COLUMN_COUNT},
                                                                    {"cpus", "CPUS", COLUMN_BANDWIDTH},
                                                                    {"alone_frames_per_s", "ALONE FRAMES/s", COLUMN_RATE},
                                                                    {"of_alone", "OF ALONE", COLUMN_RATIO},
                                                                    {0}}};

static double seconds(const struct scale *scale) { return scale->options->quick ? 0.1 : 1.0; }

static unsigned most_devices(const struct scale *scale) { return scale->counts[scale->count_count - 1]; }

/* -- how many devices ----------------------------------------------------------------------------------------------- */

/* Of CUDA. Asked in a process of its own: one that has asked CUDA is not to fork. */
static unsigned devices_there(enum gpu_backend_choice choice) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    _exit((int)gpu_count(choice, 0));
  }
  bool told = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
  return told ? (unsigned)WEXITSTATUS(status) : 0;
}

/* Powers of two, and all of them. */
static bool choose_counts(struct scale *scale, struct problem *problem) {
  unsigned wanted = scale->options->devices, there = devices_there(scale->options->backend);
  scale->cuda = there > 0;
  if (!scale->cuda && scale->options->backend == GPU_BACKEND_CUDA) {
    return problem_set(problem, EXIT_STATUS_NO_DAEMON, "--backend cpu needs none", "there is no CUDA device");
  }
  there = there > OPTIONS_MOST_DEVICES ? OPTIONS_MOST_DEVICES : there;
  unsigned most = wanted > 0 && (wanted < there || !scale->cuda) ? wanted : scale->cuda ? there : CPUS;
  for (unsigned count = 1; count < most; count *= 2) {
    scale->counts[scale->count_count++] = count;
  }
  scale->counts[scale->count_count++] = most;
  return true;
}

/* -- through the daemon --------------------------------------------------------------------------------------------- */

static const char *pipeline_name(const struct scale *scale, unsigned work, unsigned at, char name[NAME]) {
  snprintf(name, NAME, "%s%u", scale->works[work].name, scale->counts[at]);
  return name;
}

static struct own_daemon *start_daemon(const struct scale *scale, struct problem *problem) {
  struct own_pipeline pipelines[WORK_MOST * MOST_COUNTS];
  char names[WORK_MOST * MOST_COUNTS][NAME];
  unsigned count = 0;
  for (unsigned i = 0; i < scale->work_count * scale->count_count; i++) {
    unsigned which = i / scale->count_count, at = i % scale->count_count;
    const struct work *work = &scale->works[which];
    pipelines[count++] = (struct own_pipeline){.name = pipeline_name(scale, which, at, names[i]),
                                               .completion = scale->cuda ? "spin" : "callback",
                                               .frame_bytes = work->bytes,
                                               .slots = WORK_SLOTS,
                                               .native = true,
                                               .format = work->format,
                                               .stages = work->stages,
                                               .clients = WORK_SESSIONS * scale->counts[at],
                                               .devices = scale->counts[at]};
  }
  json_t *gpu = options_gpu(scale->options);
  if (!scale->cuda) {
    json_object_set_new(gpu, "count", json_integer(most_devices(scale)));
  }
  json_t *keys = json_pack("{s:o, s:i, s:o}", "gpu", gpu, "lanes", (int)most_devices(scale), "models",
                           works_models(scale->works, scale->work_count));
  return own_daemon_start(pipelines, count, keys, problem);
}

static json_t *go_through(const struct scale *scale, unsigned work, unsigned at, struct problem *problem) {
  char text[NAME];
  const char *name = pipeline_name(scale, work, at, text);
  const struct load_plan plan = {.clients = WORK_SESSIONS * scale->counts[at], .transport = LOAD_SHARED, .spin = scale->cuda};
  return load_report_measure(scale->socket, &name, 1, &plan, seconds(scale), problem);
}

/* -- without it, and both ------------------------------------------------------------------------------------------- */

static bool go_alone(const struct scale *scale, const struct work *work, unsigned count, double *rate,
                     struct problem *problem) {
  struct model *model;
  const unsigned slots = WORK_SESSIONS * WORK_SLOTS;
  struct gpu_chain *chain = work_chain(work, slots * count, &model, problem);
  const struct alone_setup setup = {.chain = chain,
                                    .devices = scale->devices,
                                    .count = count,
                                    .slots = slots,
                                    .bare = work->bare && scale->cuda,
                                    .spin = scale->cuda,
                                    .seconds = seconds(scale)};
  bool done = chain && alone_run(&setup, rate, problem);
  gpu_chain_free(chain);
  model_release(model);
  return done;
}

static double median(struct samples *samples) { return samples_percentile(samples, 0.5); }

/* `one`: frames a second of one device in this turn; the first row gives it. */
static bool measure_row(struct scale *scale, unsigned work, unsigned at, double *one, struct problem *problem) {
  unsigned count = scale->counts[at];
  json_t *row = go_through(scale, work, at, problem);
  double rate = json_number_value(json_object_get(row, "frames_per_s")), alone = 0;
  if (!row || !go_alone(scale, &scale->works[work], count, &alone, problem)) {
    json_decref(row);
    return false;
  }
  *one = at == 0 ? rate : *one;
  json_t *more = json_pack("{s:s, s:I, s:i, s:f, s:f, s:f}", "work", scale->works[work].name, "bytes",
                           (json_int_t)scale->works[work].bytes, "devices", (int)count, "linear", rate / (*one * count),
                           "alone_frames_per_s", alone, "of_alone", rate / alone);
  json_object_update(row, more);
  json_decref(more);
  results_row(scale->results, row);
  return (samples_add(&scale->daemon[work][at], rate) && samples_add(&scale->alone[work][at], alone)) ||
         problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples");
}

/* -- what it is held to --------------------------------------------------------------------------------------------- */

static void add_targets(struct scale *scale) {
  targets_begin(scale->results);
  for (unsigned work = 0; work < scale->work_count; work++) {
    for (unsigned at = scale->count_count > 1 ? 1 : 0; at < scale->count_count; at++) {
      unsigned count = scale->counts[at];
      double linear = count * median(&scale->daemon[work][0]), alone = median(&scale->alone[work][at]);
      char what[64];
      snprintf(what, sizeof what, "%s on %u devices, shared memory", scale->works[work].name, count);
      targets_add(scale->results,
                  &(struct target){
                      what, at > 0 && linear < alone ? "so many times one device" : "loops on all without a daemon", "frames/s",
                      median(&scale->daemon[work][at]), at > 0 && linear < alone ? linear : alone, 0.95, false});
    }
  }
}

/* -- all of it ------------------------------------------------------------------------------------------------------ */

static bool measure_all(struct scale *scale, struct problem *problem) {
  results_section(scale->results, &rows_section);
  for (int run = 0; run < (scale->options->quick ? 1 : RUNS); run++) {
    for (unsigned work = 0; work < scale->work_count; work++) {
      double one = 0;
      for (unsigned at = 0; at < scale->count_count; at++) {
        if (!measure_row(scale, work, at, &one, problem)) {
          return false;
        }
      }
    }
  }
  add_targets(scale);
  return true;
}

static bool open_devices(struct scale *scale, struct problem *problem) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned most = most_devices(scale), workers = processors > most ? (unsigned)processors / most : 1;
  for (unsigned number = 0; number < most; number++) {
    struct options options = *scale->options;
    options.device = number;
    scale->devices[number] = options_open(&options, workers, problem);
    if (!scale->devices[number]) {
      return false;
    }
  }
  results_set(scale->results, "backend", json_string(gpu_backend_name(scale->devices[0])));
  results_set(scale->results, "device", json_string(gpu_device_name(scale->devices[0])));
  return true;
}

static bool with_daemon(struct scale *scale, struct problem *problem) {
  struct own_daemon *daemon = start_daemon(scale, problem);
  if (!daemon) {
    return false;
  }
  scale->socket = own_daemon_socket(daemon);
  bool done = open_devices(scale, problem) && measure_all(scale, problem);
  for (unsigned number = 0; number < most_devices(scale); number++) {
    if (scale->devices[number]) {
      gpu_close(scale->devices[number]);
    }
  }
  own_daemon_stop(daemon);
  return done;
}

static void clear(struct scale *scale) {
  for (unsigned i = 0; i < WORK_MOST * MOST_COUNTS; i++) {
    samples_free(&scale->daemon[i / MOST_COUNTS][i % MOST_COUNTS]);
    samples_free(&scale->alone[i / MOST_COUNTS][i % MOST_COUNTS]);
  }
  works_clear(scale->works, scale->work_count);
  results_free(scale->results);
}

bool command_scale(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, OPTION_SCALE, &options, problem)) {
    return false;
  }
  struct scale scale = {.options = &options, .results = results_new("scale", options.json, machine_describe())};
  if (!scale.results) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  }
  bool done = choose_counts(&scale, problem) && works_init(scale.works, &scale.work_count, &options, problem) &&
              with_daemon(&scale, problem) && results_finish(scale.results, problem);
  clear(&scale);
  return done;
}
