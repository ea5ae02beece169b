/* The bound of a row: the daemon's own diagnosis of the row's times, as for a saturated pipeline. */
#include "daemon/measure/diagnosis.h"
#include "tools/framebench/overlap/overlap.h"
#include "tools/framectl/common/forecast.h"

#include <string.h>

enum { MANY = 2000 /* frames: start and end are negligible */ };

static double number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

static double number_at(const json_t *row, const char *key, size_t index) {
  return json_number_value(json_array_get(json_object_get(row, key), index));
}

static struct diagnosis_costs costs_of(const json_t *row) {
  const json_t *costs = json_object_get(row, "costs");
  struct diagnosis_costs read = {.alone = number(costs, "alone_us"), .lane = number(costs, "lane_us")};
  for (size_t engine = 0; engine < OVERLAP_ENGINES; engine++) {
    read.service[engine] = number_at(costs, "service_us", engine);
    read.together[engine] = number_at(costs, "together_us", engine);
  }
  return read;
}

/* The loop always has a frame for each slot. So any time of a slot outside the engines and their queues belongs to the host. */
static struct diagnosis_figures figures_of(const json_t *row, unsigned kernels) {
  const double us = number(row, "us"), frames = 1e6, slots = number(row, "slots");
  const char *way = json_string_value(json_object_get(row, "way"));
  const char *copies = json_string_value(json_object_get(row, "copies"));
  struct diagnosis_figures figures = {
      .seconds = us * frames / 1e6,
      .busy_s = us * frames / 1e6,
      .frames = frames,
      .step = {[STEP_H2D] = number(row, "h2d_us"),
               [STEP_KERNEL] = number(row, "kernel_us"),
               [STEP_D2H] = number(row, "d2h_us"),
               [STEP_GPU_WAIT] = number(row, "wait_us")},
      .notice = number(row, "notice_us"),
      .slots = (unsigned)slots,
      .kernels = kernels,
      .lane_share = number(row, "host_us") / us,
      .spins = way && strcmp(way, "spin") == 0,
      .copies_by_kernel = copies && strcmp(copies, "kernel") == 0,
      .costs = costs_of(row),
  };
  double device = figures.step[STEP_H2D] + figures.step[STEP_KERNEL] + figures.step[STEP_D2H] + figures.step[STEP_GPU_WAIT];
  figures.step[STEP_WAKE] = slots * us > device ? slots * us - device : 0;
  return figures;
}

static const char *name_of_bound(const struct overlap_work *work) {
  double period = overlap_period(work);
  return overlap_round(work) / work->slots > period ? "slots"
         : work->host >= period                     ? "host"
                                                    : overlap_engine_keys[overlap_longest(work)];
}

void overlap_bound(json_t *row, unsigned kernels) {
  const struct diagnosis_figures figures = figures_of(row, kernels);
  const struct overlap_work work = diagnosis_work(&figures);
  double bound = forecast_wall(&work, MANY) / MANY;
  if (json_object_get(row, "ideal_us")) {
    json_object_set_new(row, "bound_us", json_real(bound));
    json_object_set_new(row, "of_bound", json_real(bound / number(row, "us")));
    json_object_set_new(row, "bound_by", json_string(name_of_bound(&work)));
  }
}
