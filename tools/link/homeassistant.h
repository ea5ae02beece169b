/*
 * What Home Assistant is told of a pipeline, so that it makes a device with entities of it: one document on one topic of its
 * discovery (Home Assistant 2024.11 and later).
 *
 * Nothing here names the machine: a camera whose pipeline moves to another box stays the same device, with its history.
 */
#ifndef FRAMED_TOOLS_LINK_HOMEASSISTANT_H
#define FRAMED_TOOLS_LINK_HOMEASSISTANT_H

#include "tools/link/detections.h"
#include "tools/link/settings.h"

enum { TOPIC = 320, HOMEASSISTANT_EXPIRES_S = 30 }; /* a state that is not told again within that time is unknown */

/* "TOPIC/PIPELINE/WHAT" */
void homeassistant_topic(const struct settings *settings, const struct link_settings *link, const char *what,
                         char topic[TOPIC]);
/* Where the document belongs: an empty one removes the device. */
void homeassistant_device_topic(const struct settings *settings, const struct link_settings *link, char topic[TOPIC]);
/* Where Home Assistant says "online" when it has started. */
void homeassistant_birth_topic(const struct settings *settings, char topic[TOPIC]);

/* The document, the caller's. `labels`: see detections.h. NULL: no memory. */
json_t *homeassistant_device(const struct settings *settings, const struct link_settings *link, enum detections_kind kind,
                             const json_t *labels);

#endif
