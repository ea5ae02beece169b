#include "tools/framebench/scale/scale.h"

#include "tools/framebench/load/report.h"
#include "tools/framebench/scale/alone.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CPUS = 4 };

/* The duration of a measurement. */
static double seconds(const struct scale *scale) { return scale->options->quick ? 0.1 : 1.0; }

static unsigned most_devices(const struct scale *scale) { return scale->counts[scale->count_count - 1]; }

/* -- how many devices ----------------------------------------------------------------------------------------------- */

/* Counts CUDA's devices in a child process, since a process that has used CUDA must not fork. */
static unsigned devices_there(enum gpu_backend_choice choice) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    _exit((int)gpu_count(choice, 0));
  }
  bool told = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
  return told ? (unsigned)WEXITSTATUS(status) : 0;
}

/* Chooses powers of two, and the number of all devices. */
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

const char *scale_pipeline(const struct scale *scale, unsigned work, unsigned at, char name[SCALE_NAME]) {
  snprintf(name, SCALE_NAME, "%s%u", scale->works[work].name, scale->counts[at]);
  return name;
}

static struct own_daemon *start_daemon(const struct scale *scale, struct problem *problem) {
  struct own_pipeline pipelines[WORK_MOST * SCALE_COUNTS];
  char names[WORK_MOST * SCALE_COUNTS][SCALE_NAME];
  unsigned count = 0;
  for (unsigned i = 0; i < scale->work_count * scale->count_count; i++) {
    unsigned which = i / scale->count_count, at = i % scale->count_count;
    const struct work *work = &scale->works[which];
    pipelines[count++] = (struct own_pipeline){.name = scale_pipeline(scale, which, at, names[i]),
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

static json_t *load(const struct scale *scale, unsigned work, unsigned at, struct load_plan *plan, struct problem *problem) {
  char text[SCALE_NAME];
  const char *name = scale_pipeline(scale, work, at, text);
  plan->transport = LOAD_SHARED;
  plan->spin = scale->cuda;
  return load_report_measure(own_daemon_socket(scale->daemon), &name, 1, plan, seconds(scale), problem);
}

json_t *scale_load(const struct scale *scale, unsigned work, unsigned at, double rate, struct problem *problem) {
  struct load_plan plan = {.rate = rate, .clients = WORK_SESSIONS * scale->counts[at]};
  return load(scale, work, at, &plan, problem);
}

json_t *scale_load_one(const struct scale *scale, unsigned work, struct problem *problem) {
  struct load_plan plan = {.in_flight = 1, .clients = 1};
  return load(scale, work, 0, &plan, problem);
}

/* -- without it ----------------------------------------------------------------------------------------------------- */

bool scale_alone(const struct scale *scale, unsigned which, unsigned at, double *rate, struct problem *problem) {
  const struct work *work = &scale->works[which];
  const unsigned count = scale->counts[at];
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

/* -- life ------------------------------------------------------------------------------------------------------------ */

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

bool scale_open(struct scale *scale, const struct options *options, struct results *results, struct problem *problem) {
  *scale = (struct scale){.options = options, .results = results};
  if (!choose_counts(scale, problem) || !works_init(scale->works, &scale->work_count, options, scale->cuda, problem)) {
    return false;
  }
  scale->daemon = start_daemon(scale, problem);
  return scale->daemon && open_devices(scale, problem);
}

void scale_close(struct scale *scale) {
  for (unsigned number = 0; number < OPTIONS_MOST_DEVICES; number++) {
    if (scale->devices[number]) {
      gpu_close(scale->devices[number]);
    }
  }
  own_daemon_stop(scale->daemon);
  works_clear(scale->works, scale->work_count);
}
