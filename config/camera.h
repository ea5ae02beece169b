/*
 * A source that is a URL: what a camera's URL may look like, and what such a source means for its pipeline.
 *
 * The URL is no secret: it is shown in status, on the page and in the log. So it names no user and no password.
 */
#ifndef FRAMED_CONFIG_CAMERA_H
#define FRAMED_CONFIG_CAMERA_H

#include "config/reader.h"

/* As value_read(), for a URL. */
void camera_read_url(struct reader *reader, const struct config_key *key, const struct node *node, void *target);
/* Sets what depends on the URL, after the pipeline's keys were read: the protocol, and the format and overload that were left
 * out. */
void camera_set_defaults(struct reader *reader, const struct node *pipeline_node, struct config_pipeline *pipeline);
/* validate.c: adds errors for keys that do not go together with the URL. */
void camera_validate(struct reader *reader, const struct node *pipeline_node, const struct config_pipeline *pipeline);

#endif
