/*
 * A source with a URL: valid URLs of cameras, and the consequences for the pipeline.
 *
 * The URL is not secret: status, the page and the log show it. So it must not contain a user or a password.
 */
#ifndef FRAMED_CONFIG_CAMERA_H
#define FRAMED_CONFIG_CAMERA_H

#include "config/reader.h"

/* Like value_read(), for a URL. */
void camera_read_url(struct reader *reader, const struct config_key *key, const struct node *node, void *target);
/* Sets defaults that depend on the URL, after the pipeline's keys were read: the protocol, and an absent format or overload. */
void camera_set_defaults(struct reader *reader, const struct node *pipeline_node, struct config_pipeline *pipeline);
/* validate.c: adds errors for keys that exclude a URL. */
void camera_validate(struct reader *reader, const struct node *pipeline_node, const struct config_pipeline *pipeline);

#endif
