#include "tools/framebench/model/batches.h"

#include "tools/framebench/common/samples.h"
#include "tools/framebench/common/targets.h"
#include "tools/framebench/load/report.h"
#include "tools/framebench/model/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum { CAMERAS = 64, FEW_CAMERAS = 4, SLOTS = 3, INSTANCES = 2, LESS_LOAD = 3 };

/* Slots of the bare loop: one per instance, or a second one that is copied meanwhile. The faster setup is the limit. */
static const unsigned loop_slots[] = {INSTANCES, 2 * INSTANCES};

struct batches {
  const struct options *options;
  struct results *results;
  const struct model_tensor *input;
  json_t *format, *stages;
  struct samples daemon, alone, p99; /* frames per second, frames per second, and microseconds */
};

static unsigned cameras(const struct batches *batches) { return batches->options->quick ? FEW_CAMERAS : CAMERAS; }

/* -- life ------------------------------------------------------------------------------------------------------------- */

struct batches *batches_new(const struct options *options, struct results *results, const struct model_tensor *input,
                            struct problem *problem) {
  struct batches *batches = calloc(1, sizeof *batches);
  if (!batches) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for batches");
    return NULL;
  }
  *batches = (struct batches){.options = options,
                              .results = results,
                              .input = input,
                              .format = own_daemon_format(&input->format),
                              .stages = json_pack("[{s:{s:s}}]", "model", "name", "batches")};
  return batches;
}

struct batches *batches_free(struct batches *batches) {
  if (batches) {
    json_decref(batches->format);
    json_decref(batches->stages);
    samples_free(&batches->daemon);
    samples_free(&batches->alone);
    samples_free(&batches->p99);
    free(batches);
  }
  return NULL;
}

/* -- the daemon -------------------------------------------------------------------------------------------------------- */

json_t *batches_shape(const struct model_tensor *input) {
  json_t *sides = json_array();
  for (unsigned i = 0; i < input->rank; i++) {
    json_array_append_new(sides, json_integer((json_int_t)input->shape[i]));
  }
  return json_pack("{s:o}", input->name, sides);
}

void batches_configure(struct batches *batches, json_t *models, struct own_pipeline *pipeline) {
  json_object_set_new(models, "batches",
                      json_pack("{s:s, s:i, s:o, s:{s:i}}", "file", batches->options->file, "instances", (int)INSTANCES,
                                "shape", batches_shape(batches->input), "batch", "most", (int)BATCHES_MOST));
  *pipeline = (struct own_pipeline){.name = "batches",
                                    .completion = "callback",
                                    .slots = SLOTS,
                                    .native = true,
                                    .format = batches->format,
                                    .stages = batches->stages,
                                    .clients = cameras(batches)};
}

static bool keep(struct samples *samples, double figure, struct problem *problem) {
  return samples_add(samples, figure) || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples");
}

/* `rate`: frames per second of all cameras, 0: as fast as possible. `figure` receives the row's member `key`. */
static bool load(struct batches *batches, const char *socket, double rate, double seconds, const char *key, double *figure,
                 struct problem *problem) {
  static const char *const name = "batches";
  const struct load_plan plan = {.rate = rate, .clients = cameras(batches), .transport = LOAD_SHARED};
  char way[64];
  json_t *row = load_report_measure(socket, &name, 1, &plan, seconds, problem);
  if (!row) {
    return false;
  }
  *figure = json_number_value(json_object_get(row, key));
  snprintf(way, sizeof way, "daemon, %u cameras, batches%s", cameras(batches), rate > 0 ? ", a third of that" : "");
  json_object_set_new(row, "way", json_string(way));
  json_object_set_new(row, "slots", json_integer(SLOTS));
  results_row(batches->results, row);
  return true;
}

/* -- the bare loop ----------------------------------------------------------------------------------------------------- */

static bool run_loop(struct batches *batches, struct gpu_device *device, unsigned slots, double seconds, double *rate,
                     struct problem *problem) {
  const struct loop_setup setup = {
      .file = batches->options->file, .input = batches->input, .rows = BATCHES_MOST, .instances = INSTANCES, .slots = slots};
  struct engine_figures figures;
  struct loop *loop = loop_new(device, &setup, problem);
  bool done = loop && engine_run_time(loop_engine(loop), (int64_t)(seconds * 1e9), &figures, problem);
  *rate = done ? BATCHES_MOST * 1e6 / engine_each(&figures) : 0;
  loop_free(loop);
  if (done) {
    results_row(batches->results,
                json_pack("{s:s, s:i, s:f}", "way", "alone, batches", "slots", (int)slots, "frames_per_s", *rate));
  }
  return done;
}

static bool run_loops(struct batches *batches, struct gpu_device *device, double seconds, struct problem *problem) {
  double most = 0;
  for (size_t i = 0; i < sizeof loop_slots / sizeof loop_slots[0]; i++) {
    double rate;
    if (!run_loop(batches, device, loop_slots[i], seconds, &rate, problem)) {
      return false;
    }
    most = rate > most ? rate : most;
  }
  return keep(&batches->alone, most, problem);
}

bool batches_measure(struct batches *batches, const char *socket, struct gpu_device *device, double seconds,
                     struct problem *problem) {
  double rate, p99;
  return load(batches, socket, 0, seconds, "frames_per_s", &rate, problem) && keep(&batches->daemon, rate, problem) &&
         run_loops(batches, device, seconds, problem) &&
         load(batches, socket, rate / LESS_LOAD, seconds, "p99_us", &p99, problem) && keep(&batches->p99, p99, problem);
}

/* -- targets ----------------------------------------------------------------------------------------------------------- */

static double median(struct samples *samples) { return samples_percentile(samples, 0.5); }

void batches_add_targets(struct batches *batches) {
  char what[96];
  snprintf(what, sizeof what, "model, %u cameras, batches of up to %d, 2 instances", cameras(batches), (int)BATCHES_MOST);
  targets_add(batches->results, &(struct target){what, "a bare loop of such batches", "frames/s", median(&batches->daemon),
                                                 median(&batches->alone), 0.92, false});
  targets_add(batches->results,
              &(struct target){"p99 of these cameras at a third of that load", "", "us", median(&batches->p99), 0, 6000, true});
}
