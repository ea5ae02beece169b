/*
 * framebench scale: one pipeline on 1, 2, 4 and more devices. It is compared with a multiple of one device's rate, and with
 * loops without a daemon on all these devices at once.
 *
 * Clients and daemon share memory, and each device has the same number of sessions. The target is the multiple of one device's
 * rate, or the rate of the loops if that is lower. All are measured in turns, and the median of each counts.
 */
#include "tools/framebench/scale/scale.h"
#include "tools/framebench/command.h"
#include "tools/framebench/common/machine.h"
#include "tools/framebench/common/samples.h"
#include "tools/framebench/common/targets.h"

#include <stdio.h>

enum { RUNS = 3 };

struct rates { /* frames per second */
  struct samples daemon, alone;
};

struct rows {
  const struct scale *scale;
  struct rates rates[WORK_MOST][SCALE_COUNTS];
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

static double median(struct samples *samples) { return samples_percentile(samples, 0.5); }

/* `one`: frames per second of one device in this turn, which the first row sets. */
static bool measure_row(struct rows *rows, unsigned work, unsigned at, double *one, struct problem *problem) {
  const struct scale *scale = rows->scale;
  unsigned count = scale->counts[at];
  json_t *row = scale_load(scale, work, at, 0, problem);
  double rate = json_number_value(json_object_get(row, "frames_per_s")), alone = 0;
  if (!row || !scale_alone(scale, work, at, &alone, problem)) {
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
  struct rates *rates = &rows->rates[work][at];
  return (samples_add(&rates->daemon, rate) && samples_add(&rates->alone, alone)) ||
         problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for samples");
}

static void add_targets(struct rows *rows) {
  const struct scale *scale = rows->scale;
  targets_begin(scale->results);
  for (unsigned work = 0; work < scale->work_count; work++) {
    for (unsigned at = scale->count_count > 1 ? 1 : 0; at < scale->count_count; at++) {
      unsigned count = scale->counts[at];
      double linear = count * median(&rows->rates[work][0].daemon), alone = median(&rows->rates[work][at].alone);
      bool is_linear = at > 0 && linear < alone;
      char what[64];
      snprintf(what, sizeof what, "%s on %u devices, shared memory", scale->works[work].name, count);
      targets_add(scale->results,
                  &(struct target){what, is_linear ? "so many times one device" : "loops on all without a daemon", "frames/s",
                                   median(&rows->rates[work][at].daemon), is_linear ? linear : alone, 0.95, false});
    }
  }
}

static bool measure_turns(struct rows *rows, struct problem *problem) {
  const struct scale *scale = rows->scale;
  results_section(scale->results, &rows_section);
  for (int run = 0; run < (scale->options->quick ? 1 : RUNS); run++) {
    for (unsigned work = 0; work < scale->work_count; work++) {
      double one = 0;
      for (unsigned at = 0; at < scale->count_count; at++) {
        if (!measure_row(rows, work, at, &one, problem)) {
          return false;
        }
      }
    }
  }
  add_targets(rows);
  return true;
}

static bool measure(const struct scale *scale, struct problem *problem) {
  struct rows rows = {.scale = scale};
  bool done = measure_turns(&rows, problem);
  for (unsigned i = 0; i < WORK_MOST * SCALE_COUNTS; i++) {
    samples_free(&rows.rates[i / SCALE_COUNTS][i % SCALE_COUNTS].daemon);
    samples_free(&rows.rates[i / SCALE_COUNTS][i % SCALE_COUNTS].alone);
  }
  return done;
}

bool command_scale(int count, char **arguments, struct problem *problem) {
  struct options options;
  struct scale scale;
  if (!options_read(count, arguments, OPTION_SCALE, &options, problem)) {
    return false;
  }
  struct results *results = results_new("scale", options.json, machine_describe());
  if (!results) {
    return problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
  }
  bool done = scale_open(&scale, &options, results, problem) && measure(&scale, problem) && results_finish(results, problem);
  scale_close(&scale);
  results_free(results);
  return done;
}
