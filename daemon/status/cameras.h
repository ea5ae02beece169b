/* How status and metrics show the camera of a source that is a URL. */
#ifndef FRAMED_STATUS_CAMERAS_H
#define FRAMED_STATUS_CAMERAS_H

#include <jansson.h>
#include <stdio.h>

#include "daemon/pipeline/pipeline.h"

/* null for a pipeline without a camera. NULL: no memory. */
json_t *camera_document(const struct pipeline_snapshot *snapshot);
void cameras_write_metrics(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count);

#endif
