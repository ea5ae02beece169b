/* The parts of engine.h that need no device: chains, the ideal of measured times, and the start of short runs. */
#include "tools/framebench/common/engine.h"

#include "tools/framebench/common/options.h"
#include "tools/framebench/common/samples.h"

#include <math.h>
#include <string.h>

/* -- when a run may begin ------------------------------------------------------------------------------------------- */

int64_t engine_pause(unsigned timed_one_in, int64_t now, int64_t ns) {
  const int64_t period = GPU_TIMED_WINDOW_NS * timed_one_in, at = now % (period > 0 ? period : 1);
  if (ns > period - GPU_TIMED_WINDOW_NS) {
    return 0;
  }
  if (at < GPU_TIMED_WINDOW_NS) {
    return GPU_TIMED_WINDOW_NS - at;
  }
  return period - at < ns ? period - at + GPU_TIMED_WINDOW_NS : 0;
}

void engine_pause_for(unsigned timed_one_in, double us) {
  static const double spare = 1.25; /* a run may take this much longer than estimated */
  int64_t ns = engine_pause(timed_one_in, samples_now(), (int64_t)(us * 1e3 * spare));
  const struct timespec span = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  nanosleep(&span, NULL);
}

/* -- a run's figures ------------------------------------------------------------------------------------------------ */

double engine_each(const struct engine_figures *figures) {
  return figures->steady_frames > 0 ? figures->steady / (double)figures->steady_frames
         : figures->frames > 0      ? figures->wall / (double)figures->frames
                                    : 0;
}

/* -- the ideal ------------------------------------------------------------------------------------------------------ */

static void raise_copies(struct overlap_work *work, double copy) {
  work->service[OVERLAP_H2D] = fmax(work->service[OVERLAP_H2D], copy);
  work->service[OVERLAP_D2H] = fmax(work->service[OVERLAP_D2H], copy);
}

double engine_ideal(const struct engine_figures *figures, unsigned slots, unsigned kernels, double copy) {
  enum { MANY = 500 }; /* makes the first and last frames' waiting negligible */
  struct overlap_work work = {.kernels = kernels, .slots = slots};
  for (int engine = 0; engine < OVERLAP_ENGINES && figures->timed > 0; engine++) {
    work.service[engine] = figures->service[engine] / (double)figures->timed;
    work.succession[engine] = figures->side_by_side ? work.service[engine] / OVERLAP_MAX_SLOTS : 0;
  }
  if (slots > 1 && figures->timed > 0 && !figures->side_by_side) {
    raise_copies(&work, copy);
  }
  return forecast_wall(&work, MANY) / MANY;
}

/* -- chains --------------------------------------------------------------------------------------------------------- */

static void set_parameter(struct gpu_stage_request *request, const char *name, double value) {
  for (unsigned i = 0; i < request->stage->parameter_count; i++) {
    const struct stage_parameter *parameter = &request->stage->parameters[i];
    bool named = name && strcmp(parameter->name, name) == 0;
    request->values[i] = (struct stage_value){.given = named, .count = 1, .numbers = {named ? value : parameter->fallback}};
  }
}

struct gpu_chain *engine_chain(size_t frame_bytes, const char *stage, const char *parameter, double value,
                               struct problem *problem) {
  struct gpu_error error;
  const uint64_t shape[] = {frame_bytes / sizeof(float)};
  struct frame_format format = format_tensor(ELEMENT_FLOAT32, shape, 1);
  struct gpu_stage_request request = {.stage = stage_about_find(stage)};
  if (!request.stage) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "there is no stage '%s'", stage);
    return NULL;
  }
  set_parameter(&request, parameter, value);
  struct gpu_chain *chain = gpu_chain_new(&format, &request, 1, &error);
  if (!chain) {
    options_gpu_problem(&error, problem);
  }
  return chain;
}
