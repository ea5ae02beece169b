/* Prometheus' text format 0.0.4, as the files of metrics write it. */
#ifndef FRAMED_STATUS_METRICS_FORMAT_H
#define FRAMED_STATUS_METRICS_FORMAT_H

#include <stdint.h>
#include <stdio.h>

#include "daemon/pipeline/pipeline.h"

static inline void write_head(FILE *out, const char *name, const char *type, const char *help) {
  fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static inline void write_label_value(FILE *out, const char *value) {
  for (; *value; value++) {
    if (*value == '\n') {
      fputs("\\n", out);
      continue;
    }
    if (*value == '"' || *value == '\\') {
      fputc('\\', out);
    }
    fputc(*value, out);
  }
}

/* Labels go as name, value pairs up to a NULL name. */
struct label {
  const char *name, *value;
};

static inline void write_labels(FILE *out, const char *metric, const struct label *labels) {
  fputs(metric, out);
  for (const struct label *label = labels; label->name; label++) {
    fprintf(out, "%c%s=\"", label == labels ? '{' : ',', label->name);
    write_label_value(out, label->value);
    fputc('"', out);
  }
  fputs("} ", out);
}

static inline void write_count(FILE *out, const char *metric, const struct label *labels, uint64_t value) {
  write_labels(out, metric, labels);
  fprintf(out, "%llu\n", (unsigned long long)value);
}

/* metrics_models.c. */
void metrics_write_models(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count);

#endif
