/* Metrics of models: frames of their instances, their batches, and what their shadows found. */
#include "daemon/status/metrics_format.h"

struct report {
  FILE *out;
  const struct pipeline_snapshot *pipelines;
  unsigned count;
};

static void write_models(const struct report *report) {
  static const char *const name = "framed_model_frames_total";
  char number[16];
  write_head(report->out, name, "counter",
             "Frames that each instance of a pipeline's model computed, for all pipelines that run it.");
  for (unsigned p = 0; p < report->count; p++) {
    const struct pipeline_snapshot *snapshot = &report->pipelines[p];
    for (unsigned i = 0; i < snapshot->instances; i++) {
      snprintf(number, sizeof number, "%u", i + 1);
      write_count(report->out, name, (struct label[]){{"pipeline", snapshot->name}, {"instance", number}, {0}},
                  snapshot->served[i]);
    }
  }
}

static void write_batches_of(FILE *out, const struct pipeline_snapshot *snapshot) {
  const struct label labels[] = {{"pipeline", snapshot->name}, {0}};
  uint64_t below = 0, frames = 0;
  char edge[16];
  for (unsigned i = 0; i < snapshot->most_batched; i++) {
    const unsigned size = i + 1;
    below += snapshot->batches[i];
    frames += snapshot->batches[i] * size;
    if ((size & (size - 1)) == 0) {
      snprintf(edge, sizeof edge, "%u", size);
      write_count(out, "framed_model_batch_frames_bucket", (struct label[]){{"pipeline", snapshot->name}, {"le", edge}, {0}},
                  below);
    }
  }
  write_count(out, "framed_model_batch_frames_bucket", (struct label[]){{"pipeline", snapshot->name}, {"le", "+Inf"}, {0}},
              below);
  write_count(out, "framed_model_batch_frames_sum", labels, frames);
  write_count(out, "framed_model_batch_frames_count", labels, below);
}

static void write_batches(const struct report *report) {
  write_head(report->out, "framed_model_batch_frames", "histogram",
             "Frames that went through a pipeline's model together, for all pipelines that run it.");
  for (unsigned p = 0; p < report->count; p++) {
    if (report->pipelines[p].most_batched > 0) {
      write_batches_of(report->out, &report->pipelines[p]);
    }
  }
}

/* Only of pipelines that have one. */
static void write_shadow_measures(const struct report *report, const char *name, const char *help,
                                  double (*measure)(const struct shadow_report *)) {
  write_head(report->out, name, "gauge", help);
  for (unsigned p = 0; p < report->count; p++) {
    const struct pipeline_snapshot *snapshot = &report->pipelines[p];
    if (snapshot->shadow.file) {
      write_labels(report->out, name, (struct label[]){{"pipeline", snapshot->name}, {0}});
      fprintf(report->out, "%.9g\n", measure(&snapshot->shadow));
    }
  }
}

static double shadow_largest(const struct shadow_report *shadow) { return shadow->largest; }
static double shadow_mean(const struct shadow_report *shadow) { return shadow->mean; }
static double shadow_agreement(const struct shadow_report *shadow) { return shadow->agreement; }

static void write_shadows(const struct report *report) {
  static const char *const name = "framed_shadow_frames_total";
  write_head(report->out, name, "counter", "Frames of a model with a shadow, by what that did with them.");
  for (unsigned p = 0; p < report->count; p++) {
    const struct pipeline_snapshot *snapshot = &report->pipelines[p];
    const struct shadow_report *shadow = &snapshot->shadow;
    const struct {
      const char *result;
      uint64_t count;
    } results[] = {{"compared", shadow->compared}, {"skipped", shadow->skipped}, {"failed", shadow->failed}};
    for (size_t i = 0; i < sizeof results / sizeof results[0] && shadow->file; i++) {
      write_count(report->out, name, (struct label[]){{"pipeline", snapshot->name}, {"result", results[i].result}, {0}},
                  results[i].count);
    }
  }
  write_shadow_measures(report, "framed_shadow_difference_largest", "Of two elements of the outputs.", shadow_largest);
  write_shadow_measures(report, "framed_shadow_difference_mean", "Of all elements of the outputs.", shadow_mean);
  write_shadow_measures(report, "framed_shadow_agreement", "Share of results whose largest element is at the same place.",
                        shadow_agreement);
}

void metrics_write_models(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count) {
  const struct report report = {out, pipelines, count};
  write_models(&report);
  write_batches(&report);
  write_shadows(&report);
}
