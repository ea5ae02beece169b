/* Metrics of models: frames of their instances, and their batches. */
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

void metrics_write_models(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count) {
  const struct report report = {out, pipelines, count};
  write_models(&report);
  write_batches(&report);
}
