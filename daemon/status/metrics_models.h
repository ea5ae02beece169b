/* The metrics of models: frames of their instances, their batches, and what their shadows found. */
#ifndef FRAMED_STATUS_METRICS_MODELS_H
#define FRAMED_STATUS_METRICS_MODELS_H

#include <stdio.h>

#include "daemon/pipeline/pipeline.h"

void metrics_write_models(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count);

#endif
