/*
 * /metrics: the same figures as /v1/status in Prometheus' text format 0.0.4, as counters since the start.
 *
 * What always holds: all lines of a metric stand together under one HELP and TYPE; a label's value is escaped; a
 * histogram's last bucket equals its count, since both come from the same buckets.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/stream.h"
#include "daemon/measure/clock.h"
#include "daemon/measure/history.h"
#include "daemon/status/cameras.h"
#include "daemon/status/links.h"
#include "daemon/status/metrics_format.h"
#include "daemon/status/status.h"
#include "gpu/record/figures.h"

/* Buckets for Prometheus are the octaves of the fine histogram, so that they cost no accuracy: 4 us to 2 s. */
enum { FIRST_OCTAVE = 5, COARSE_BUCKETS = 20 };

enum { DEVICE_NUMBER = 16 };

struct report {
  FILE *out;
  const struct status_ops *ops;
  struct server_view view;
  struct usage usage;
  struct pipeline_snapshot *pipelines; /* view.pipeline_count of them */
  struct health *health;
};

typedef uint64_t snapshot_figure(const struct pipeline_snapshot *snapshot);

static uint64_t frames_in(const struct pipeline_snapshot *snapshot) { return snapshot->ledger.in; }
static uint64_t frames_in_flight(const struct pipeline_snapshot *snapshot) { return snapshot->ledger.in_flight; }
static uint64_t bytes_in(const struct pipeline_snapshot *snapshot) { return snapshot->ledger.in_bytes; }
static uint64_t bytes_out(const struct pipeline_snapshot *snapshot) { return snapshot->ledger.out_bytes; }
static uint64_t sessions(const struct pipeline_snapshot *snapshot) { return snapshot->sessions; }
static uint64_t readers(const struct pipeline_snapshot *snapshot) { return snapshot->readers; }
static uint64_t missed(const struct pipeline_snapshot *snapshot) { return snapshot->missed; }
static uint64_t refused(const struct pipeline_snapshot *snapshot) { return snapshot->refused; }
static uint64_t graph(const struct pipeline_snapshot *snapshot) { return snapshot->graph; }
static uint64_t copies_by_kernel(const struct pipeline_snapshot *snapshot) { return snapshot->copies_by_kernel; }
static uint64_t timed_one_in(const struct pipeline_snapshot *snapshot) { return snapshot->timed_one_in; }

/* One number a pipeline. */
static const struct {
  const char *name, *type, *help;
  snapshot_figure *figure;
} figures[] = {
    {"framed_frames_in_total", "counter", "Frames whose first byte came in.", frames_in},
    {"framed_frames_in_flight", "gauge", "Frames that came in and have no fate yet.", frames_in_flight},
    {"framed_received_bytes_total", "counter", "Bytes of frames that came in.", bytes_in},
    {"framed_emitted_bytes_total", "counter", "Bytes of results that were emitted.", bytes_out},
    {"framed_sessions", "gauge", "Producers that are connected.", sessions},
    {"framed_readers", "gauge", "Readers that are connected.", readers},
    {"framed_missed_results_total", "counter", "Whole results that slow readers missed.", missed},
    {"framed_refused_clients_total", "counter",
     "Producers and readers that were turned away, or cut off since they broke their protocol.", refused},
    {"framed_graph", "gauge", "1 if frames are replayed from CUDA graphs.", graph},
    {"framed_kernel_copies", "gauge", "1 if kernels copy frames to the device and back, and not the copy engines.",
     copies_by_kernel},
    {"framed_timed_one_in", "gauge", "Of so many frames one has the times of its steps on the device.", timed_one_in},
};

typedef double snapshot_measure(const struct pipeline_snapshot *snapshot);

static double busy_seconds(const struct pipeline_snapshot *snapshot) { return snapshot->busy_s; }
static double overlap_share(const struct pipeline_snapshot *snapshot) { return snapshot->diagnosis.ratio; }
static double overlap_speedup(const struct pipeline_snapshot *snapshot) { return snapshot->diagnosis.speedup; }

/* One measure a pipeline. */
static const struct {
  const char *name, *type, *help;
  snapshot_measure *measure;
} measures[] = {
    {"framed_device_busy_seconds_total", "counter", "Time with frames on the device, of all sessions together.", busy_seconds},
    {"framed_overlap_ratio", "gauge", "Share of the engines' work of the last ten seconds that was hidden behind other work.",
     overlap_share},
    {"framed_overlap_speedup", "gauge", "Work of the engines in the last ten seconds over the time with frames on the device.",
     overlap_speedup},
};

/* -- metrics ---------------------------------------------------------------------------------------------------------- */

static void write_succession(FILE *out, const struct history *history) {
  write_head(out, "framed_handovers_total", "counter",
             "How often a worker (fault) or the daemon's process (other causes) was replaced with all connections.");
  for (int cause = 0; cause < HISTORY_CAUSE_COUNT; cause++) {
    write_count(out, "framed_handovers_total", (struct label[]){{"cause", history_names[cause]}, {0}}, history->counts[cause]);
  }
  write_head(out, "framed_handover_lost_connections_total", "counter",
             "Connections that ended with a process that was killed.");
  fprintf(out, "framed_handover_lost_connections_total %" PRIu64 "\n", history->closed);
  write_head(out, "framed_handover_gap_seconds_total", "counter", "Time in which nothing moved because of that.");
  fprintf(out, "framed_handover_gap_seconds_total %.6f\n", (double)history->total / 1e9);
  write_head(out, "framed_handover_gap_seconds_longest", "gauge", "The longest such time.");
  fprintf(out, "framed_handover_gap_seconds_longest %.6f\n", (double)history->longest / 1e9);
}

static void write_daemon(const struct report *report) {
  FILE *out = report->out;
  const struct server_view *view = &report->view;
  write_head(out, "framed_info", "gauge", "The daemon's version, backend and device.");
  write_count(out, "framed_info",
              (struct label[]){{"version", view->version}, {"backend", view->backend}, {"device", view->device}, {0}}, 1);
  write_head(out, "framed_uptime_seconds", "gauge", "Time since the daemon started.");
  fprintf(out, "framed_uptime_seconds %.3f\n", view->uptime_s);
  write_head(out, "framed_lanes", "gauge", "Threads that carry frames.");
  fprintf(out, "framed_lanes %u\n", view->lanes);
  write_head(out, "framed_reloads_total", "counter", "Reloads of the configuration, by result.");
  write_count(out, "framed_reloads_total", (struct label[]){{"result", "done"}, {0}}, view->reloads);
  write_count(out, "framed_reloads_total", (struct label[]){{"result", "failed"}, {0}}, view->reload_failures);
  write_succession(out, view->history);
}

static void write_usage(FILE *out, const char *name, const char *help, size_t value) {
  write_head(out, name, "gauge", help);
  fprintf(out, "%s %zu\n", name, value);
}

/* What every process tells under names that Prometheus has for it, and what only this one has. */
static void write_usages(const struct report *report) {
  const struct usage *usage = &report->usage;
  write_usage(report->out, "process_resident_memory_bytes", "Resident memory size in bytes.", usage->resident_bytes);
  write_usage(report->out, "process_open_fds", "Number of open file descriptors.", usage->descriptors);
  write_usage(report->out, "framed_pinned_bytes", "Host memory that is registered with devices.", usage->pinned_bytes);
  write_usage(report->out, "framed_device_bytes", "Memory of devices that pipelines have.", usage->device_bytes);
}

static void write_health(const struct report *report) {
  FILE *out = report->out;
  const struct health *health = report->health;
  write_head(out, "framed_live", "gauge", "1 if lanes, devices and what is on them move, as /v1/live says, else 0.");
  fprintf(out, "framed_live %d\n", health->live);
  write_head(out, "framed_healthy", "gauge", "1 if /v1/health says that every pipeline does its job, too, else 0.");
  fprintf(out, "framed_healthy %d\n", health->ok);
  write_head(out, "framed_canary_seconds", "gauge", "How long a device took to answer its last canary.");
  for (unsigned i = 0; i < health->count; i++) {
    if (health->items[i].kind == HEALTH_DEVICE) {
      write_labels(out, "framed_canary_seconds", (struct label[]){{"device", health->items[i].name}, {0}});
      fprintf(out, "%.9f\n", health->items[i].canary_s);
    }
  }
}

static struct device_view device_at(const struct report *report, unsigned index, char number[DEVICE_NUMBER]) {
  struct device_view view;
  report->ops->device(report->ops->server, index, &view);
  snprintf(number, DEVICE_NUMBER, "%u", view.number);
  return view;
}

/* What the driver says of each device, if it does. */
static void write_devices(const struct report *report) {
  static const struct {
    const char *name, *help;
  } told[NVML_FIGURES] = {
      [NVML_LOAD] = {"framed_device_load_ratio", "Share of the time in which kernels of any process ran on a device."},
      [NVML_MEMORY_USED] = {"framed_device_memory_used_bytes", "Memory of a device that any process has."},
      [NVML_MEMORY_TOTAL] = {"framed_device_memory_total_bytes", "Memory of a device."},
      [NVML_TEMPERATURE] = {"framed_device_temperature_celsius", "Temperature of a device."},
      [NVML_POWER] = {"framed_device_power_watts", "What a device draws."},
      [NVML_CLOCK] = {"framed_device_clock_hertz", "Clock of a device's processors."},
      [NVML_MEMORY_CLOCK] = {"framed_device_memory_clock_hertz", "Clock of a device's memory."},
  };
  for (int figure = 0; figure < NVML_FIGURES; figure++) {
    write_head(report->out, told[figure].name, "gauge", told[figure].help);
    for (unsigned i = 0; i < report->view.device_count; i++) {
      char number[DEVICE_NUMBER];
      struct device_view view = device_at(report, i, number);
      if (view.figures && isfinite(view.figures[figure])) {
        write_labels(report->out, told[figure].name, (struct label[]){{"device", number}, {0}});
        fprintf(report->out, "%.12g\n", view.figures[figure]);
      }
    }
  }
}

static void write_device_states(const struct report *report) {
  static const char *const states[] = {"open", "draining", "drained", "failed"};
  for (int row = 0; row < 2; row++) { /* what is of one name stands together */
    write_head(report->out, row == 0 ? "framed_device_state" : "framed_device_producers", "gauge",
               row == 0 ? "1 for what a device is: open, draining, drained, or failed for good; 0 for what it is not."
                        : "Producers that are connected to sessions on a device.");
    for (unsigned i = 0; i < report->view.device_count; i++) {
      char number[DEVICE_NUMBER];
      struct device_view view = device_at(report, i, number);
      for (size_t state = 0; row == 0 && state < sizeof states / sizeof *states; state++) {
        write_count(report->out, "framed_device_state", (struct label[]){{"device", number}, {"state", states[state]}, {0}},
                    strcmp(view.state, states[state]) == 0);
      }
      if (row == 1) {
        write_count(report->out, "framed_device_producers", (struct label[]){{"device", number}, {0}}, view.producers);
      }
    }
  }
}

static void write_workers(const struct report *report) {
  char number[DEVICE_NUMBER];
  write_head(report->out, "framed_worker_replaced_total", "counter",
             "How often another worker took the place of a device's worker that was lost.");
  for (unsigned i = 0; i < report->view.device_count; i++) {
    struct device_view view = device_at(report, i, number);
    write_count(report->out, "framed_worker_replaced_total", (struct label[]){{"device", number}, {0}}, view.workers->replaced);
  }
  write_head(report->out, "framed_worker_age_seconds", "gauge", "For how long a device's worker has served.");
  for (unsigned i = 0; i < report->view.device_count; i++) {
    struct device_view view = device_at(report, i, number);
    if (view.worker > 0) {
      write_labels(report->out, "framed_worker_age_seconds", (struct label[]){{"device", number}, {0}});
      fprintf(report->out, "%.3f\n", (double)(clock_now() - view.workers->since) / (double)NS_PER_S);
    }
  }
}

static bool is_degraded(const struct health *health, const char *pipeline, enum health_reason reason) {
  bool found = false;
  for (unsigned i = 0; i < health->count && !found; i++) {
    const struct health_item *item = &health->items[i];
    bool is_pipelines = item->kind == HEALTH_PIPELINE || item->kind == HEALTH_TROUBLE;
    found = is_pipelines && !item->ok && item->reason == reason && strcmp(item->name, pipeline) == 0;
  }
  return found;
}

static void write_degraded(const struct report *report) {
  write_head(report->out, "framed_pipeline_degraded", "gauge",
             "1 for each reason for which a pipeline does not do its job, 0 for all others.");
  for (unsigned p = 0; p < report->view.pipeline_count; p++) {
    const char *name = report->pipelines[p].name;
    for (int reason = 0; reason < HEALTH_REASON_COUNT; reason++) {
      const struct label labels[] = {{"pipeline", name}, {"reason", health_reason_names[reason]}, {0}};
      write_count(report->out, "framed_pipeline_degraded", labels,
                  is_degraded(report->health, name, (enum health_reason)reason));
    }
  }
}

/* Of a way that no frame has gone yet there is no age. */
static void write_age(FILE *out, const char *pipeline, const char *way, int64_t at) {
  int64_t age = clock_now() - at;
  if (at != 0) {
    write_labels(out, "framed_last_frame_age_seconds", (struct label[]){{"pipeline", pipeline}, {"way", way}, {0}});
    fprintf(out, "%.3f\n", age > 0 ? (double)age / (double)NS_PER_S : 0);
  }
}

static void write_ages(const struct report *report) {
  write_head(report->out, "framed_last_frame_age_seconds", "gauge", "How long ago the last frame came in, or was emitted.");
  for (unsigned p = 0; p < report->view.pipeline_count; p++) {
    write_age(report->out, report->pipelines[p].name, "in", report->pipelines[p].last_in);
    write_age(report->out, report->pipelines[p].name, "out", report->pipelines[p].last_out);
  }
}

static void write_figures(const struct report *report) {
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
    write_head(report->out, figures[i].name, figures[i].type, figures[i].help);
    for (unsigned p = 0; p < report->view.pipeline_count; p++) {
      const struct pipeline_snapshot *snapshot = &report->pipelines[p];
      write_count(report->out, figures[i].name, (struct label[]){{"pipeline", snapshot->name}, {0}},
                  figures[i].figure(snapshot));
    }
  }
}

static void write_measures(const struct report *report) {
  for (size_t i = 0; i < sizeof measures / sizeof measures[0]; i++) {
    write_head(report->out, measures[i].name, measures[i].type, measures[i].help);
    for (unsigned p = 0; p < report->view.pipeline_count; p++) {
      const struct pipeline_snapshot *snapshot = &report->pipelines[p];
      write_labels(report->out, measures[i].name, (struct label[]){{"pipeline", snapshot->name}, {0}});
      fprintf(report->out, "%.9g\n", measures[i].measure(snapshot));
    }
  }
}

static void write_bounds(const struct report *report) {
  write_head(report->out, "framed_pipeline_bound", "gauge", "1 for what bounds a pipeline, 0 for all others.");
  for (unsigned p = 0; p < report->view.pipeline_count; p++) {
    const struct pipeline_snapshot *snapshot = &report->pipelines[p];
    for (int bound = 0; bound < BOUND_COUNT; bound++) {
      const struct label labels[] = {{"pipeline", snapshot->name}, {"by", bound_names[bound]}, {0}};
      write_count(report->out, "framed_pipeline_bound", labels, (int)snapshot->diagnosis.bound_by == bound);
    }
  }
}

static void write_states(const struct report *report) {
  write_head(report->out, "framed_pipeline_state", "gauge", "1 for the state in which a pipeline is, 0 for all others.");
  for (unsigned p = 0; p < report->view.pipeline_count; p++) {
    const struct pipeline_snapshot *snapshot = &report->pipelines[p];
    for (int state = PIPELINE_STARTING; state <= PIPELINE_STOPPED; state++) {
      const struct label labels[] = {{"pipeline", snapshot->name}, {"state", pipeline_state_names[state]}, {0}};
      write_count(report->out, "framed_pipeline_state", labels, (int)snapshot->state == state);
    }
  }
}

static void write_fates(const struct report *report) {
  write_head(report->out, "framed_frames_total", "counter", "Frames by what became of them.");
  for (unsigned p = 0; p < report->view.pipeline_count; p++) {
    const struct pipeline_snapshot *snapshot = &report->pipelines[p];
    for (int fate = 0; fate < FATE_COUNT; fate++) {
      const struct label labels[] = {{"pipeline", snapshot->name}, {"fate", fate_names[fate]}, {0}};
      write_count(report->out, "framed_frames_total", labels, snapshot->ledger.fates[fate]);
    }
  }
}

static void write_histogram(FILE *out, const char *pipeline, const char *step, const struct histogram_view *view) {
  uint64_t below = 0;
  unsigned fine = 0;
  for (unsigned coarse = 0; coarse < COARSE_BUCKETS; coarse++) {
    unsigned end = (FIRST_OCTAVE + coarse + 1) * HISTOGRAM_STEPS;
    for (; fine < end; fine++) {
      below += view->counts[fine];
    }
    char edge[32];
    snprintf(edge, sizeof edge, "%.10g", (double)histogram_upper_edge(end - 1) / 1e9);
    write_count(out, "framed_latency_seconds_bucket",
                (struct label[]){{"pipeline", pipeline}, {"step", step}, {"le", edge}, {0}}, below);
  }
  for (; fine < HISTOGRAM_BUCKETS; fine++) {
    below += view->counts[fine];
  }
  write_count(out, "framed_latency_seconds_bucket",
              (struct label[]){{"pipeline", pipeline}, {"step", step}, {"le", "+Inf"}, {0}}, below);
  const struct label labels[] = {{"pipeline", pipeline}, {"step", step}, {0}};
  write_labels(out, "framed_latency_seconds_sum", labels);
  fprintf(out, "%.9f\n", (double)view->sum_ns / 1e9);
  write_count(out, "framed_latency_seconds_count", labels, below);
}

static void write_latencies(const struct report *report) {
  write_head(report->out, "framed_latency_seconds", "histogram", "Time that frames took, by step of their road.");
  for (unsigned p = 0; p < report->view.pipeline_count; p++) {
    for (int step = 0; step < STEP_COUNT; step++) {
      write_histogram(report->out, report->pipelines[p].name, step_names[step], &report->pipelines[p].cumulative[step]);
    }
  }
}

static struct pipeline_snapshot *take_snapshots(const struct status_ops *ops, unsigned total) {
  struct pipeline_snapshot *snapshots = calloc(total > 0 ? total : 1, sizeof *snapshots);
  for (unsigned i = 0; snapshots && i < total; i++) {
    pipeline_snapshot(ops->pipeline(ops->server, i), &snapshots[i]);
  }
  return snapshots;
}

char *metrics_text(const struct status_ops *ops) {
  char *text = NULL;
  struct stream stream;
  struct report report;
  ops->read(ops->server, &report.view);
  ops->usage(ops->server, &report.usage);
  report.pipelines = take_snapshots(ops, report.view.pipeline_count);
  report.health = ops->health(ops->server);
  if (report.pipelines && report.health && stream_open(&stream)) {
    report.out = stream.out;
    report.ops = ops;
    write_daemon(&report);
    write_usages(&report);
    write_devices(&report);
    write_device_states(&report);
    write_workers(&report);
    write_health(&report);
    write_degraded(&report);
    write_ages(&report);
    write_figures(&report);
    write_measures(&report);
    write_states(&report);
    write_bounds(&report);
    write_fates(&report);
    metrics_write_models(report.out, report.pipelines, report.view.pipeline_count);
    cameras_write_metrics(report.out, report.pipelines, report.view.pipeline_count);
    links_write_metrics(report.out, report.pipelines, report.view.pipeline_count);
    write_latencies(&report);
    text = stream_close(&stream);
  }
  free(report.pipelines);
  free(report.health);
  return text;
}
