/*
 * What Home Assistant is told so that it makes entities of a pipeline: one message each, on topics of its discovery.
 *
 * Topics are written as subjects of NATS, with '.' where MQTT has '/': the server's MQTT port takes one for the other.
 */
#ifndef FRAMED_TOOLS_LINK_HOMEASSISTANT_H
#define FRAMED_TOOLS_LINK_HOMEASSISTANT_H

#include "tools/link/detections.h"
#include "tools/link/settings.h"

enum { TOPIC = 320, HOMEASSISTANT_EXPIRES_S = 30 }; /* a state that is not told again within that time is unknown */

/* "framed.NODE.PIPELINE.WHAT" */
void homeassistant_topic(const struct settings *settings, const struct link_settings *link, const char *what,
                         char subject[TOPIC]);

/* Calls `publish` for each entity with its document, which is not the callee's. `labels`: see detections.h. */
void homeassistant_describe(const struct settings *settings, const struct link_settings *link, enum detections_kind kind,
                            json_t *labels, void (*publish)(void *context, const char *subject, const json_t *document),
                            void *context);

#endif
