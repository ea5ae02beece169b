/*
 * framebench model FILE: a model in the daemon, compared with the same model, instances and slots in a loop of one process.
 *
 * Each question has its own daemon, started before this process uses the device. They measure the memory of instances that many
 * sessions share, the latency of many cameras, and the rate in shared memory, frame by frame and in batches. The CPU backend
 * measures only the last one. The model takes pictures of three planes of floats.
 */
#include "tools/framebench/command.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/common/own_daemon.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/common/targets.h"
#include "tools/framebench/load/report.h"
#include "tools/framebench/model/batches.h"
#include "tools/framebench/model/loop.h"
#include "tools/framectl/common/daemon.h"

#include <stdio.h>
#include <string.h>

enum { RUNS = 5, CAMERAS = 32, RATE = 30, WIDTH = 1920, HEIGHT = 1080, ALONE = 2000, MOST_SLOTS = 8 };

enum way { THREE, EIGHT, ONE, WAYS };

static const struct work {
  const char *pipeline;
  unsigned slots; /* and instances */
} works[WAYS] = {[THREE] = {"three", 3}, [EIGHT] = {"eight", 8}, [ONE] = {"one", 1}};

struct bench {
  const struct options *options;
  struct results *results;
  struct model_tensor input; /* of one frame */
  bool cuda;
  double memory_many, memory_two; /* bytes on the device */
  double cameras_p99, cameras_lost;
  struct samples daemon[WAYS], alone[WAYS]; /* frames per second; for ONE microseconds */
  struct batches *batches;                  /* NULL: the model takes one frame at a time */
};

static const struct section rows_section = {"model", "A model in the daemon, and in a loop of one process",
                                            (const struct column[]){{"way", "WAY", COLUMN_TEXT},
                                                                    {"slots", "SLOTS", COLUMN_COUNT},
                                                                    {"pipelines", "PIPELINES", COLUMN_COUNT},
                                                                    {"frames_per_s", "FRAMES/s", COLUMN_RATE},
                                                                    {"p50_us", "P50", COLUMN_TIME},
                                                                    {"p99_us", "P99", COLUMN_TIME},
                                                                    {"lost", "LOST", COLUMN_COUNT},
                                                                    {"dropped", "DROPPED", COLUMN_COUNT},
                                                                    {"device_bytes", "ON THE DEVICE", COLUMN_SIZE},
                                                                    {0}}};

static double seconds(const struct bench *bench) { return bench->options->quick ? 0.2 : 2.0; }

static void add_row(struct bench *bench, const char *way, unsigned slots, json_t *row) {
  json_object_set_new(row, "way", json_string(way));
  json_object_set_new(row, "slots", json_integer(slots));
  results_row(bench->results, row);
}

static bool keep(struct samples *samples, double figure, struct problem *problem) {
  return samples_add(samples, figure) || problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples");
}

/* -- daemons -------------------------------------------------------------------------------------------------------- */

static json_t *models(const struct bench *bench, const char *name, unsigned instances) {
  return json_pack("{s:{s:s, s:i, s:o}}", name, "file", bench->options->file, "instances", (int)instances, "shape",
                   batches_shape(&bench->input));
}

/* The stages that turn a camera's picture into the model's input: the last two sides of the tensor are its size. */
static json_t *camera_stages(const struct model_tensor *input) {
  const uint64_t *sides = input->format.shape + input->format.rank - 2;
  return json_pack("[{s:{s:s}}, {s:{s:I, s:I}}, {s:{}}, {s:{s:s}}, {s:{}}]", "convert", "to", "rgb24", "resize", "width",
                   (json_int_t)sides[1], "height", (json_int_t)sides[0], "normalize", "model", "name", "shared", "top");
}

static json_t *keys(const struct bench *bench, json_t *models) {
  return json_pack("{s:o, s:o}", "gpu", options_gpu(bench->options), "models", models);
}

static double device_bytes(const struct own_daemon *daemon, struct problem *problem) {
  json_t *status = daemon_status(own_daemon_socket(daemon), DAEMON_PATIENCE_MS, problem);
  double bytes = json_number_value(json_object_get(json_object_get(status, "usage"), "device_bytes"));
  json_decref(status);
  return bytes;
}

/* Measures the device memory of a daemon with `count` pipelines that share the instances. */
static bool weigh(struct bench *bench, json_t *format, unsigned count, unsigned slots, double *bytes, struct problem *problem) {
  char names[CAMERAS][16];
  struct own_pipeline pipelines[CAMERAS];
  json_t *stages = json_pack("[{s:{s:s}}]", "model", "name", "shared");
  for (unsigned i = 0; i < count; i++) {
    snprintf(names[i], sizeof names[i], "cam%u", i);
    pipelines[i] = (struct own_pipeline){
        .name = names[i], .completion = "callback", .slots = slots, .native = true, .format = format, .stages = stages};
  }
  struct own_daemon *daemon = own_daemon_start(pipelines, count, keys(bench, models(bench, "shared", 2)), problem);
  *bytes = daemon ? device_bytes(daemon, problem) : 0;
  own_daemon_stop(daemon);
  json_decref(stages);
  if (daemon) {
    add_row(bench, "memory, 2 instances", slots, json_pack("{s:i, s:f}", "pipelines", (int)count, "device_bytes", *bytes));
  }
  return daemon && *bytes > 0;
}

static bool load_cameras(struct bench *bench, const char *socket, const char *const *names, struct problem *problem) {
  const struct load_plan plan = {.clients = 1, .rate = (double)CAMERAS * RATE, .transport = LOAD_SHARED};
  json_t *row = load_report_measure(socket, names, CAMERAS, &plan, bench->options->quick ? 1 : 10, problem);
  if (!row) {
    return false;
  }
  bench->cameras_p99 = json_number_value(json_object_get(row, "p99_us"));
  bench->cameras_lost = json_number_value(json_object_get(row, "lost")) + json_number_value(json_object_get(row, "dropped"));
  add_row(bench, "cameras, 1080p NV12, 30 frames/s each", 3, row);
  return true;
}

static bool watch_cameras(struct bench *bench, struct problem *problem) {
  char names[CAMERAS][16];
  const char *list[CAMERAS];
  struct own_pipeline pipelines[CAMERAS];
  json_t *stages = camera_stages(&bench->input);
  json_t *format = json_pack("{s:s, s:i, s:i}", "pixels", "nv12", "width", WIDTH, "height", HEIGHT);
  for (unsigned i = 0; i < CAMERAS; i++) {
    snprintf(names[i], sizeof names[i], "cam%u", i);
    list[i] = names[i];
    pipelines[i] = (struct own_pipeline){
        .name = names[i], .completion = "callback", .slots = 3, .native = true, .format = format, .stages = stages};
  }
  struct own_daemon *daemon = own_daemon_start(pipelines, CAMERAS, keys(bench, models(bench, "shared", 4)), problem);
  bool done = daemon && load_cameras(bench, own_daemon_socket(daemon), list, problem);
  own_daemon_stop(daemon);
  json_decref(stages);
  json_decref(format);
  return done;
}

/* -- one process ---------------------------------------------------------------------------------------------------- */

static bool run_engine(struct bench *bench, struct engine *engine, enum way way, struct problem *problem) {
  struct engine_figures figures;
  if (way != ONE) {
    if (!engine_run_time(engine, (int64_t)(seconds(bench) * 1e9), &figures, problem)) {
      return false;
    }
    double rate = 1e6 / engine_each(&figures);
    add_row(bench, "alone", works[way].slots, json_pack("{s:f}", "frames_per_s", rate));
    return keep(&bench->alone[way], rate, problem);
  }
  struct samples trips = {0};
  bool done = true;
  for (int i = 0; i < (bench->options->quick ? 20 : ALONE) && done; i++) {
    done = engine_run(engine, 1, NULL, 0, &figures, problem) && keep(&trips, figures.wall, problem);
  }
  double p50 = samples_percentile(&trips, 0.5), p99 = samples_percentile(&trips, 0.99);
  samples_free(&trips);
  add_row(bench, "alone", 1, json_pack("{s:f, s:f}", "p50_us", p50, "p99_us", p99));
  return done && keep(&bench->alone[way], p50, problem);
}

static bool go_alone(struct bench *bench, struct gpu_device *device, enum way way, struct problem *problem) {
  const struct loop_setup setup = {.file = bench->options->file,
                                   .input = &bench->input,
                                   .rows = 1,
                                   .instances = works[way].slots,
                                   .slots = works[way].slots};
  struct loop *loop = loop_new(device, &setup, problem);
  bool done = loop && run_engine(bench, loop_engine(loop), way, problem);
  loop_free(loop);
  return done;
}

/* -- comparison ----------------------------------------------------------------------------------------------------- */

static bool go_through(struct bench *bench, const char *socket, enum way way, struct problem *problem) {
  const struct load_plan plan = {.clients = 1, .in_flight = way == ONE ? 1 : 0, .transport = LOAD_SHARED, .spin = true};
  json_t *row = load_report_measure(socket, &works[way].pipeline, 1, &plan, seconds(bench), problem);
  if (!row) {
    return false;
  }
  double figure = json_number_value(json_object_get(row, way == ONE ? "p50_us" : "frames_per_s"));
  add_row(bench, "daemon, shared memory", works[way].slots, row);
  return keep(&bench->daemon[way], figure, problem);
}

static bool take_turns(struct bench *bench, const char *socket, struct problem *problem) {
  struct gpu_device *device = options_open(bench->options, 0, problem);
  bool done = device != NULL;
  for (int run = 0; run < (bench->options->quick ? 1 : RUNS) && done; run++) {
    for (int way = 0; way < WAYS && done; way++) {
      done = go_through(bench, socket, (enum way)way, problem) && go_alone(bench, device, (enum way)way, problem);
    }
    done = done && (!bench->batches || batches_measure(bench->batches, socket, device, seconds(bench), problem));
  }
  if (device) {
    results_set(bench->results, "backend", json_string(gpu_backend_name(device)));
    results_set(bench->results, "device", json_string(gpu_device_name(device)));
    gpu_close(device);
  }
  return done;
}

static bool compare(struct bench *bench, json_t *format, struct problem *problem) {
  struct own_pipeline pipelines[WAYS + 1];
  json_t *all = json_object(), *stages[WAYS];
  unsigned count = WAYS;
  for (int way = 0; way < WAYS; way++) {
    json_t *one = models(bench, works[way].pipeline, works[way].slots);
    json_object_update(all, one);
    json_decref(one);
    stages[way] = json_pack("[{s:{s:s}}]", "model", "name", works[way].pipeline);
    pipelines[way] = (struct own_pipeline){.name = works[way].pipeline,
                                           .completion = "spin",
                                           .slots = works[way].slots,
                                           .native = true,
                                           .format = format,
                                           .stages = stages[way]};
  }
  if (bench->batches) {
    batches_configure(bench->batches, all, &pipelines[count++]);
  }
  struct own_daemon *daemon = own_daemon_start(pipelines, count, keys(bench, all), problem);
  bool done = daemon && take_turns(bench, own_daemon_socket(daemon), problem);
  own_daemon_stop(daemon);
  for (int way = 0; way < WAYS; way++) {
    json_decref(stages[way]);
  }
  return done;
}

/* -- targets -------------------------------------------------------------------------------------------------------- */

static double median(struct samples *samples) { return samples_percentile(samples, 0.5); }

static void add_targets(struct bench *bench) {
  const struct target targets[] = {{"model, shared memory in and out, 3 instances", "the same in one process", "frames/s",
                                    median(&bench->daemon[THREE]), median(&bench->alone[THREE]), 0.95, false},
                                   {"one frame alone, spin: more than the same in one process", "", "us",
                                    median(&bench->daemon[ONE]) - median(&bench->alone[ONE]), 0, 12, true},
                                   {"p99 of 32 cameras of 1080p at 30 frames/s", "", "us", bench->cameras_p99, 0, 15000, true},
                                   {"frames of these that were lost or dropped", "", "", bench->cameras_lost, 0, 0, true},
                                   {"memory on the device: 32 pipelines of 3 slots with 2 instances, times one of 2 slots", "",
                                    "", bench->memory_two > 0 ? bench->memory_many / bench->memory_two : 0, 0, 1.3, true}};
  size_t count = bench->cuda ? sizeof targets / sizeof targets[0] : 2;
  targets_begin(bench->results);
  for (size_t i = 0; i < count; i++) {
    targets_add(bench->results, &targets[i]);
  }
  if (bench->batches) {
    batches_add_targets(bench->batches);
  }
}

static bool measure(struct bench *bench, struct problem *problem) {
  json_t *format = own_daemon_format(&bench->input.format);
  results_section(bench->results, &rows_section);
  bool done = !bench->cuda || (weigh(bench, format, CAMERAS, 3, &bench->memory_many, problem) &&
                               weigh(bench, format, 1, 2, &bench->memory_two, problem) && watch_cameras(bench, problem));
  done = done && compare(bench, format, problem);
  json_decref(format);
  if (done) {
    add_targets(bench);
  }
  return done && results_finish(bench->results, problem);
}

static bool with_batches(struct bench *bench, bool takes_batches, struct problem *problem) {
  bench->batches = takes_batches ? batches_new(bench->options, bench->results, &bench->input, problem) : NULL;
  bool done = (!takes_batches || bench->batches) && measure(bench, problem);
  batches_free(bench->batches);
  return done;
}

/* Opens the model on the CPU to read its input, and closes it before daemons are started. */
static bool with_model(struct bench *bench, struct problem *problem) {
  struct gpu_error error = {0};
  struct model_settings settings = {.file = bench->options->file, .batch.most = BATCHES_MOST};
  struct model *model = model_open(&settings, &error);
  struct model_summary summary = {0};
  if (model) {
    model_summary(model, &summary);
  }
  if (!summary.takes_rows) {
    model_release(model);
    settings.batch.most = 0;
    model = model_open(&settings, &error);
  }
  if (!model) {
    return options_gpu_problem(&error, problem);
  }
  bench->input = *model_input(model);
  model_release(model);
  if (bench->input.format.rank < 3 || bench->input.format.dtype != ELEMENT_FLOAT32) {
    return problem_set(problem, EXIT_STATUS_USAGE, "give one whose input is 1x3xHEIGHTxWIDTH, float32",
                       "%s does not take pictures as planes of floats", bench->options->file);
  }
  return with_batches(bench, summary.takes_rows, problem);
}

bool command_model(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, OPTION_FILE, &options, problem)) {
    return false;
  }
  struct bench bench = {.options = &options,
                        .results = results_new("model", options.json, machine_describe()),
                        .cuda = options.backend != GPU_BACKEND_CPU};
  if (!bench.results) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  }
  bool done = with_model(&bench, problem);
  for (int way = 0; way < WAYS; way++) {
    samples_free(&bench.daemon[way]);
    samples_free(&bench.alone[way]);
  }
  results_free(bench.results);
  return done;
}
