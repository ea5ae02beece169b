/*
 * What `framectl plan --from` foretells, held beside what was measured: the rows with 2 slots go through the daemon's own
 * diagnosis, as a saturated pipeline would, and the model that comes out of it gives the time of a frame with other numbers of
 * slots.
 */
#include "daemon/measure/diagnosis.h"
#include "tools/framebench/overlap/overlap.h"

#include <math.h>
#include <string.h>

enum { BASE_SLOTS = 2, MANY = 2000 };

static const struct section predictions_section = {"predictions",
                                                   "From the times with 2 slots: what the daemon foretells of others",
                                                   (const struct column[]){{"bytes", "FRAME", COLUMN_SIZE},
                                                                           {"kernel", "KERNEL", COLUMN_TEXT},
                                                                           {"way", "WAY", COLUMN_TEXT},
                                                                           {"graph", "GRAPH", COLUMN_TEXT},
                                                                           {"slots", "SLOTS", COLUMN_COUNT},
                                                                           {"us", "A FRAME", COLUMN_TIME},
                                                                           {"predicted_us", "FORETOLD", COLUMN_TIME},
                                                                           {"ratio", "FORETOLD/FRAME", COLUMN_RATIO},
                                                                           {0}}};

static double number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

/* Rows of one group differ in their slots alone. */
static bool same_group(const json_t *a, const json_t *b) {
  static const char *const keys[] = {"bytes", "kernel", "way", "graph"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i]))) {
      return false;
    }
  }
  return true;
}

static const json_t *base_of(const json_t *rows, const json_t *row) {
  size_t index;
  const json_t *other;
  json_array_foreach(rows, index, other) {
    if (number(other, "slots") == BASE_SLOTS && json_object_get(other, "ideal_us") && same_group(other, row)) {
      return other;
    }
  }
  return NULL;
}

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

/* A frame is never without a slot here: where it is on no engine and does not wait for one, the host has it. */
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

static struct overlap_work model_of(const json_t *base, unsigned kernels) {
  const struct diagnosis_figures figures = figures_of(base, kernels);
  struct diagnosis diagnosis;
  diagnose(&figures, &diagnosis);
  return diagnosis.work;
}

/* -- the bound of a row --------------------------------------------------------------------------------------------- */

static const char *name_of_bound(const struct overlap_work *work) {
  double period = overlap_period(work);
  return overlap_round(work) / work->slots > period ? "slots"
         : work->host >= period                     ? "host"
                                                    : overlap_engine_keys[overlap_longest(work)];
}

void overlap_bound(json_t *row, unsigned kernels) {
  const struct diagnosis_figures figures = figures_of(row, kernels);
  const struct overlap_work work = diagnosis_work(&figures);
  double bound = overlap_wall(&work, MANY) / MANY;
  if (json_object_get(row, "ideal_us")) {
    json_object_set_new(row, "bound_us", json_real(bound));
    json_object_set_new(row, "of_bound", json_real(bound / number(row, "us")));
    json_object_set_new(row, "bound_by", json_string(name_of_bound(&work)));
  }
}

/* -- predictions ---------------------------------------------------------------------------------------------------- */

static void add_prediction(struct results *results, const json_t *row, const json_t *base, unsigned kernels) {
  struct overlap_work work = model_of(base, kernels);
  work.slots = (unsigned)number(row, "slots");
  double predicted = overlap_wall(&work, MANY) / MANY, us = number(row, "us");
  json_t *prediction = json_object();
  static const char *const keys[] = {"bytes", "kernel", "way", "graph", "slots", "us"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    json_object_set(prediction, keys[i], json_object_get(row, keys[i]));
  }
  json_object_set_new(prediction, "predicted_us", json_real(predicted));
  json_object_set_new(prediction, "ratio", json_real(predicted / us));
  json_object_set_new(prediction, "turnaround_us", json_real(work.turnaround));
  json_object_set_new(prediction, "host_us", json_real(work.host));
  json_object_set_new(prediction, "spread", json_real(fmax(number(row, "spread"), number(base, "spread"))));
  results_row(results, prediction);
}

void overlap_predict(struct results *results, unsigned kernels) {
  size_t index;
  const json_t *row, *rows = results_rows(results, "rows");
  results_section(results, &predictions_section);
  json_array_foreach(rows, index, row) {
    const json_t *base = json_object_get(row, "slots") ? base_of(rows, row) : NULL;
    if (base && base != row) {
      add_prediction(results, row, base, kernels);
    }
  }
}
