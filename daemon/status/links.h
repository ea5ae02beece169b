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

/* Reads what a link says at `now`. False with what is wrong with it. */
enum { LINKS_PROBLEM = 160 };
bool links_read(const char *text, size_t length, int64_t now, enum link_role *role, struct link_state *state,
                char problem[LINKS_PROBLEM]);

#endif
