/*
 * Links: what they say of themselves, POSTed as JSON, and how status and metrics tell it.
 */
#ifndef FRAMED_STATUS_LINKS_H
#define FRAMED_STATUS_LINKS_H

#include <jansson.h>
#include <stdio.h>

#include "daemon/status/http.h"
#include "daemon/status/status_ops.h"

/* POST /v1/pipelines/NAME/link. `pipeline` NULL: there is none of that name. */
void links_answer(struct http_request *request, struct pipeline *pipeline);

/* By role. NULL: no memory. */
json_t *links_document(const struct links *links);
void links_write_metrics(FILE *out, const struct pipeline_snapshot *pipelines, unsigned count);

#endif
