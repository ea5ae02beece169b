/*
 * What `framectl plan --from` foretells, held beside what was measured: the rows with 2 slots go through the daemon's own
 * diagnosis, as a saturated pipeline would, and the model that comes out of it gives the time of a frame with other numbers.
 */
#include "daemon/diagnosis.h"
#include "tools/framebench/overlap.h"

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

/* A frame is never without a slot here: where it is on no engine and does not wait for one, the host has it. */
static struct overlap_work model_of(const json_t *base, unsigned kernels) {
  const double us = number(base, "us"), frames = 1e6;
  const char *way = json_string_value(json_object_get(base, "way"));
  struct diagnosis_figures figures = {
      .seconds = us * frames / 1e6,
      .busy_s = us * frames / 1e6,
      .frames = frames,
      .step = {[STEP_H2D] = number(base, "h2d_us"),
               [STEP_KERNEL] = number(base, "kernel_us"),
               [STEP_D2H] = number(base, "d2h_us"),
               [STEP_GPU_WAIT] = number(base, "wait_us")},
      .notice = number(base, "notice_us"),
      .slots = BASE_SLOTS,
      .kernels = kernels,
      .lane_share = number(base, "host_us") / us,
      .spins = way && strcmp(way, "spin") == 0,
  };
  double device = figures.step[STEP_H2D] + figures.step[STEP_KERNEL] + figures.step[STEP_D2H] + figures.step[STEP_GPU_WAIT];
  figures.step[STEP_WAKE] = BASE_SLOTS * us > device ? BASE_SLOTS * us - device : 0;
  struct diagnosis diagnosis;
  diagnose(&figures, &diagnosis);
  return diagnosis.work;
}

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
