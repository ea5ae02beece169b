/*
 * framebench stages: every stage compared with its floor. The floor is the time in which memory could read the input and state,
 * and write the output and state, each once.
 *
 * On the GPU the floor is that of the device's memory, measured by copies. On the CPU it is that of one thread's memcpy of as
 * many bytes, and one worker runs the stage. Compute-bound stages are also compared, but have no target.
 */
#include "tools/framebench/command.h"
#include "tools/framebench/common/engine.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/common/options.h"
#include "tools/framebench/common/results.h"
#include "tools/framebench/common/targets.h"
#include "tools/framebench/stages/ffmpeg.h"
#include "tools/framebench/stages/stage_list.h"
#ifdef FRAMED_CUDA
#include "tools/framebench/stages/cuda_stages.h"
#endif

#include <stdlib.h>
#include <string.h>

static const struct section stages_section = {
    "stages", "Stages beside their floor: bytes in and out once, and state, as fast as memory copies",
    (const struct column[]){{"backend", "BACKEND", COLUMN_TEXT},
                            {"size", "SIZE", COLUMN_TEXT},
                            {"pixels", "INPUT", COLUMN_TEXT},
                            {"stage", "STAGE", COLUMN_TEXT},
                            {"floor_us", "FLOOR", COLUMN_TIME},
                            {"us", "TIME", COLUMN_TIME},
                            {"ratio", "FLOOR/TIME", COLUMN_RATIO},
                            {0}}};

struct size {
  const char *name;
  uint32_t width, height;
};

struct bench {
  struct results *results;
  const struct options *options;
  struct gpu_device *device;
  bool cuda;
  double rate; /* bytes per microsecond, read and written together; 0: measured for each size of frame */
};

/* The shortest mean of some runs on one worker, each with as many frames as take 20 ms. */
static bool time_on_cpu(const struct bench *bench, const struct gpu_chain *chain, const void *frame, double *each,
                        struct problem *problem) {
  enum { RUNS = 3, MOST_FRAMES = 50 };
  uint64_t frames = 1;
  const struct engine_setup setup = {
      .chain = chain, .slots = 1, .completion = ENGINE_SPIN, .graph = GPU_GRAPH_OFF, .timed_one_in = 1, .frame = frame};
  struct engine *engine = engine_new(bench->device, &setup, problem);
  bool done = engine;
  for (int run = 0; run < RUNS && done; run++) {
    struct engine_figures figures;
    done = engine_run(engine, frames, NULL, 0, &figures, problem);
    double now = done ? figures.service[OVERLAP_KERNEL] / (double)figures.timed : 0;
    *each = run == 0 || now < *each ? now : *each;
    frames = bench->options->quick || now > 20e3 ? 1 : now * MOST_FRAMES < 20e3 ? MOST_FRAMES : (uint64_t)(20e3 / now);
  }
  engine_free(engine);
  return done;
}

static bool time_filled(const struct bench *bench, const struct gpu_chain *chain, const void *frame, double *each,
                        struct problem *problem) {
#ifdef FRAMED_CUDA
  if (bench->cuda) {
    return stages_cuda_time(gpu_chain_stage(chain, 0), frame, bench->options->quick, each, problem);
  }
#endif
  return time_on_cpu(bench, chain, frame, each, problem);
}

static bool time_stage(const struct bench *bench, const struct gpu_chain *chain, double *each, struct problem *problem) {
  const struct stage_plan *plan = gpu_chain_stage(chain, 0);
  float *frame = calloc(1, plan->input_bytes);
  if (!frame) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for a frame");
  }
  bool done = time_filled(bench, chain, stage_list_fill(plan, frame) ? frame : NULL, each, problem);
  free(frame);
  return done;
}

/* The copy rate for frames of that size: on the CPU a chain without a stage only copies. */
static bool measure_rate(const struct bench *bench, size_t bytes, double *rate, struct problem *problem) {
#ifdef FRAMED_CUDA
  if (bench->cuda) {
    return stages_cuda_copy_rate(bench->options->quick, rate, problem);
  }
#endif
  struct gpu_error error;
  double each = 0;
  const uint64_t shape[] = {bytes};
  struct frame_format format = format_tensor(ELEMENT_UINT8, shape, 1);
  struct gpu_chain *chain = gpu_chain_new(&format, NULL, 0, &error);
  if (!chain) {
    return options_gpu_problem(&error, problem);
  }
  bool done = time_on_cpu(bench, chain, NULL, &each, problem);
  *rate = each > 0 ? 2.0 * (double)bytes / each : 0;
  gpu_chain_free(chain);
  return done;
}

static bool stage_row(const struct bench *bench, const struct stage_entry *entry, const struct size *size, double rate,
                      struct problem *problem) {
  double each = 0;
  struct gpu_chain *chain = stage_list_chain(entry, size->width, size->height, problem);
  bool done = chain && time_stage(bench, chain, &each, problem);
  if (done) {
    const struct stage_plan *plan = gpu_chain_stage(chain, 0);
    size_t bytes = plan->input_bytes + plan->output_bytes + 2 * plan->state_bytes;
    double floor = (double)bytes / rate;
    results_row(bench->results,
                json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:I, s:b}", "backend", gpu_backend_name(bench->device), "size",
                          size->name, "pixels", stage_list_input(entry), "stage", entry->stage, "floor_us", floor, "us", each,
                          "ratio", floor / each, "bytes", (json_int_t)bytes, "computes", stage_list_computes(entry)));
  }
  gpu_chain_free(chain);
  return done;
}

static bool size_rows(const struct bench *bench, const struct size *size, struct problem *problem) {
  double rate = bench->rate;
  if (rate <= 0 && !measure_rate(bench, (size_t)size->width * size->height, &rate, problem)) {
    return false;
  }
  for (unsigned i = 0; i < stage_list_length; i++) {
    if (!stage_row(bench, &stage_list[i], size, rate, problem)) {
      return false;
    }
  }
  return true;
}

static bool measure_backend(struct bench *bench, struct problem *problem) {
  static const struct size sizes[] = {{"640x480", 640, 480},
                                      {"1280x720", 1280, 720},
                                      {"1920x1080", 1920, 1080},
                                      {"3840x2160", 3840, 2160},
                                      {"7680x4320", 7680, 4320}};
  const size_t count = bench->options->quick ? 1 : sizeof sizes / sizeof sizes[0];
  results_expect(bench->results,
                 json_array_size(results_rows(bench->results, stages_section.name)) + count * stage_list_length);
  bench->rate = 0;
  if (bench->cuda && !measure_rate(bench, 0, &bench->rate, problem)) {
    return false;
  }
  if (bench->cuda) {
    results_set(bench->results, "device_copy_gb_per_s", json_real(bench->rate / 1e3));
  }
  for (size_t i = 0; i < count; i++) {
    if (!size_rows(bench, &sizes[i], problem)) {
      return false;
    }
  }
  return true;
}

/* The row with the lowest ratio, of those with that backend and size that have a target. NULL: none. */
static const json_t *find_worst(const json_t *rows, const char *backend, const char *size) {
  size_t index;
  const json_t *row, *worst = NULL;
  json_array_foreach(rows, index, row) {
    bool fits = (!backend || strcmp(json_string_value(json_object_get(row, "backend")), backend) == 0) &&
                (!size || strcmp(json_string_value(json_object_get(row, "size")), size) == 0) &&
                !json_is_true(json_object_get(row, "computes"));
    if (fits &&
        (!worst || json_number_value(json_object_get(row, "ratio")) < json_number_value(json_object_get(worst, "ratio")))) {
      worst = row;
    }
  }
  return worst;
}

static double find_time(const json_t *rows, const char *backend, const char *stage) {
  size_t index;
  const json_t *row;
  json_array_foreach(rows, index, row) {
    if (strcmp(json_string_value(json_object_get(row, "backend")), backend) == 0 &&
        strcmp(json_string_value(json_object_get(row, "stage")), stage) == 0) {
      return json_number_value(json_object_get(row, "us"));
    }
  }
  return 0;
}

static void add_targets(struct results *results) {
  char what[256];
  targets_begin(results);
  double detected = find_time(results_rows(results, stages_section.name), "cuda", "detect: layout=yolo8");
  if (detected > 0) {
    targets_add(results, &(struct target){.what = "detect, 40 objects in 8,400 candidates of 80 classes",
                                          .limit = "",
                                          .unit = "us",
                                          .value = detected,
                                          .bound = 60,
                                          .at_most = true});
  }
  const json_t *worst = find_worst(results_rows(results, stages_section.name), "cuda", "7680x4320");
  if (worst) {
    double time = json_number_value(json_object_get(worst, "us")),
           floor = json_number_value(json_object_get(worst, "floor_us"));
    snprintf(what, sizeof what, "slowest stage on 8K images: %s of %s", json_string_value(json_object_get(worst, "stage")),
             json_string_value(json_object_get(worst, "pixels")));
    targets_add(results, &(struct target){what, "memory: bytes in and out once, and state", "frames/s", 1e6 / time, 1e6 / floor,
                                          0.6, false});
  }
  worst = find_worst(results_rows(results, "ffmpeg"), NULL, NULL);
  if (worst) {
    snprintf(what, sizeof what, "slowest stage on the CPU, 1080p: %s of %s", json_string_value(json_object_get(worst, "stage")),
             json_string_value(json_object_get(worst, "pixels")));
    targets_add(results, &(struct target){what, "ffmpeg's filter, as many threads", "frames/s",
                                          json_number_value(json_object_get(worst, "frames_per_s")),
                                          json_number_value(json_object_get(worst, "ffmpeg_frames_per_s")), 0.7, false});
  }
}

/* Opens the device of the chosen backend first, since only that may make measuring impossible. */
static bool measure(struct bench *bench, struct problem *problem) {
  const struct options cpu = {.backend = GPU_BACKEND_CPU};
  results_section(bench->results, &stages_section);
  bench->device = options_open(bench->options, 1, problem);
  bool done = bench->device;
  if (done) {
    bench->cuda = strcmp(gpu_backend_name(bench->device), "cuda") == 0;
    results_set(bench->results, "backend", json_string(gpu_backend_name(bench->device)));
    results_set(bench->results, "device", json_string(gpu_device_name(bench->device)));
    done = measure_backend(bench, problem);
    bench->device = gpu_close(bench->device);
  }
  if (done && bench->cuda) {
    bench->device = options_open(&cpu, 1, problem);
    bench->cuda = false;
    done = bench->device && measure_backend(bench, problem);
    gpu_close(bench->device);
  }
  if (!done || !ffmpeg_rows(bench->results, bench->options, problem)) {
    return false;
  }
  add_targets(bench->results);
  return true;
}

bool command_stages(int count, char **arguments, struct problem *problem) {
  struct options options;
  if (!options_read(count, arguments, 0, &options, problem)) {
    return false;
  }
  struct bench bench = {.options = &options, .results = results_new("stages", options.json, machine_describe())};
  bool done = bench.results ? measure(&bench, problem) && results_finish(bench.results, problem)
                            : problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  results_free(bench.results);
  return done;
}
