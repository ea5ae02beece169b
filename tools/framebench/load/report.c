#include "tools/framebench/load/report.h"

#include <math.h>
#include <stdio.h>

enum { LONGER = 4, LONGEST_S = 10 };

const struct section load_section = {"load", "Frames through the daemon; latency from when a frame was due to its last byte",
                                     (const struct column[]){{"asked", "ASKED", COLUMN_TEXT},
                                                             {"frames_per_s", "FRAMES/s", COLUMN_RATE},
                                                             {"in_gb_per_s", "GB/s IN", COLUMN_BANDWIDTH},
                                                             {"out_gb_per_s", "GB/s OUT", COLUMN_BANDWIDTH},
                                                             {"p50_us", "P50", COLUMN_TIME},
                                                             {"p99_us", "P99", COLUMN_TIME},
                                                             {"p999_us", "P99.9", COLUMN_TIME},
                                                             {"p9999_us", "P99.99", COLUMN_TIME},
                                                             {"max_us", "MAX", COLUMN_TIME},
                                                             {"lost", "LOST", COLUMN_COUNT},
                                                             {"cpus", "CPUS", COLUMN_BANDWIDTH},
                                                             {"cpu_us_per_frame", "CPU/FRAME", COLUMN_TIME},
                                                             {0}}};

const struct section load_frames_section = {"frames", "What became of the frames, warm-up included",
                                            (const struct column[]){{"pipeline", "PIPELINE", COLUMN_TEXT},
                                                                    {"in", "IN", COLUMN_COUNT},
                                                                    {"emitted", "EMITTED", COLUMN_COUNT},
                                                                    {"dropped_sum", "DROPPED", COLUMN_COUNT},
                                                                    {"missed", "MISSED", COLUMN_COUNT},
                                                                    {"in_flight", "IN FLIGHT", COLUMN_COUNT},
                                                                    {0}}};

static void set(json_t *row, const char *key, double value) { json_object_set_new(row, key, json_real(value)); }

static void set_count(json_t *row, const char *key, uint64_t value) {
  json_object_set_new(row, key, json_integer((json_int_t)value));
}

static void set_latency(json_t *row, const struct load_figures *figures) {
  static const struct {
    const char *key;
    double share;
  } wanted[] = {{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"p999_us", 0.999}, {"p9999_us", 0.9999}};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    double us = histogram_quantile(&figures->ns, wanted[i].share);
    set(row, wanted[i].key, fmin(us, (double)figures->max_ns / 1e3)); /* the middle of a bucket may exceed the maximum */
  }
  set(row, "mean_us", (double)figures->ns.sum_ns / (double)figures->answered / 1e3);
  set(row, "max_us", (double)figures->max_ns / 1e3);
}

static void set_no_latency(json_t *row, bool is_sure) {
  const char *note =
      is_sure ? "no latency: no result came back while it was measured; a longer --duration may see some"
              : "no latency: frames were lost, and results without a number cannot be matched to frames; protocol: native at "
                "source and sink numbers them, overload: block at both loses none";
  json_object_set_new(row, "note", json_string(note));
}

static void set_cpu(json_t *row, const struct load_outcome *outcome) {
  double seconds = outcome->cpu.user + outcome->cpu.system;
  set(row, "cpu_user_s", outcome->cpu.user);
  set(row, "cpu_system_s", outcome->cpu.system);
  set(row, "cpus", seconds / outcome->seconds);
  if (outcome->figures.arrived > 0) {
    set(row, "cpu_us_per_frame", seconds * 1e6 / (double)outcome->figures.arrived);
  }
}

/* Sets means over the pipelines, which all have the same load. */
static void set_rates(json_t *row, const struct load_target *target, const struct load_outcome *outcome) {
  double rate = (double)outcome->figures.arrived / outcome->seconds, in = 0, out = 0;
  for (unsigned i = 0; i < target->count; i++) {
    in += (double)target->pipelines[i].in.frame_bytes / target->count;
    out += (double)target->pipelines[i].out.frame_bytes / target->count;
  }
  set(row, "frames_per_s", rate);
  set(row, "in_gb_per_s", rate * in / 1e9);
  set(row, "out_gb_per_s", rate * out / 1e9);
}

static void set_asked(json_t *row, const struct load_plan *plan) {
  char text[64];
  if (plan->rate > 0) {
    snprintf(text, sizeof text, "%.6g/s", plan->rate);
    set(row, "rate", plan->rate);
  } else if (plan->in_flight > 0) {
    snprintf(text, sizeof text, "%u in flight", plan->in_flight);
    set_count(row, "in_flight", plan->in_flight);
  } else {
    snprintf(text, sizeof text, "max");
  }
  json_object_set_new(row, "asked", json_string(text));
}

json_t *load_report_row(const struct load_target *target, const struct load_plan *plan, const struct load_outcome *outcome) {
  const struct load_figures *figures = &outcome->figures;
  json_t *row = json_pack("{s:i, s:i, s:b, s:f, s:s, s:s}", "pipelines", (int)target->count, "clients",
                          (int)(plan->clients * target->count), "spin", plan->spin, "seconds", outcome->seconds, "numbered",
                          figures->by_order ? "by order" : "by stamp", "transport", figures->shared ? "shm" : "stream");
  set_asked(row, plan);
  set_rates(row, target, outcome);
  set_count(row, "offered", figures->offered);
  set_count(row, "answered", figures->answered);
  set_count(row, "lost", load_outcome_lost(outcome));
  set_count(row, "dropped", outcome->dropped);
  set_count(row, "missed", outcome->missed);
  set_count(row, "disordered", figures->disordered);
  if (figures->answered > 0 && load_outcome_is_sure(outcome)) {
    set_latency(row, figures);
  } else {
    set_no_latency(row, load_outcome_is_sure(outcome));
  }
  set(row, "generator_late_p99_us", histogram_quantile(&figures->lag_ns, 0.99));
  set(row, "generator_late_p999_us", histogram_quantile(&figures->lag_ns, 0.999));
  if (outcome->cpu_known) {
    set_cpu(row, outcome);
  }
  return row;
}

static json_t *measure_window(const struct load_target *target, const struct load_plan *wanted, double seconds,
                              struct problem *problem) {
  struct load_outcome outcome;
  struct load_plan plan = *wanted;
  plan.duration_ns = (int64_t)(seconds * 1e9);
  plan.warm_up_ns = plan.duration_ns / 4;
  json_t *row = NULL;
  if (load_trial(target, &plan, &outcome, problem)) {
    row = load_report_row(target, &plan, &outcome);
    if (!row) {
      problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for the results");
    }
  }
  load_outcome_clear(&outcome);
  return row;
}

json_t *load_report_measure(const char *socket, const char *const *names, unsigned count, const struct load_plan *wanted,
                            double seconds, struct problem *problem) {
  struct load_target target;
  if (!load_target_open(&target, socket, names, count, problem)) {
    return NULL;
  }
  json_t *row = measure_window(&target, wanted, seconds, problem);
  while (row && json_integer_value(json_object_get(row, "answered")) == 0) { /* percentiles need at least one frame */
    json_decref(row);
    row = NULL;
    if (seconds >= LONGEST_S) {
      problem_set(problem, EXIT_STATUS_REFUSED, NULL, "no result of %s came back in a window of %.3g s", names[0], seconds);
    } else {
      seconds = fmin(seconds * LONGER, LONGEST_S);
      row = measure_window(&target, wanted, seconds, problem);
    }
  }
  load_target_close(&target);
  return row;
}

void load_report_frames(struct results *results, const struct load_target *target, const struct load_outcome *outcome) {
  results_section(results, &load_frames_section);
  for (unsigned i = 0; i < target->count; i++) {
    const struct load_ledger *ledger = &outcome->ledgers[i];
    json_t *row = json_pack("{s:s}", "pipeline", target->pipelines[i].name), *dropped = json_object();
    set_count(row, "in", ledger->in);
    set_count(row, "emitted", ledger->fates[FATE_EMITTED]);
    set_count(row, "dropped_sum", load_ledger_dropped(ledger));
    set_count(row, "missed", ledger->missed);
    set_count(row, "in_flight", ledger->in_flight);
    for (int fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
      set_count(dropped, fate_names[fate], ledger->fates[fate]);
    }
    json_object_set_new(row, "dropped", dropped);
    results_row(results, row);
  }
}
