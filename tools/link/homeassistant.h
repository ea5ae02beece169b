/*
 * The discovery document of a pipeline, from which Home Assistant creates a device with entities (2024.11 and later).
 *
 * It does not name the machine. So a camera whose pipeline moves to another box stays the same device, with its history.
 */
#ifndef FRAMED_TOOLS_LINK_HOMEASSISTANT_H
#define FRAMED_TOOLS_LINK_HOMEASSISTANT_H

#include "tools/link/detections.h"
#include "tools/link/settings.h"

enum { TOPIC = 320, HOMEASSISTANT_EXPIRES_S = 30 }; /* a state becomes unknown if it is not repeated within that time */

/* "TOPIC/PIPELINE/WHAT" */
void homeassistant_topic(const struct settings *settings, const struct link_settings *link, const char *what,
                         char topic[TOPIC]);
/* The topic of the document. An empty document removes the device. */
void homeassistant_device_topic(const struct settings *settings, const struct link_settings *link, char topic[TOPIC]);
/* The topic where Home Assistant sends "online" after its start. */
void homeassistant_birth_topic(const struct settings *settings, char topic[TOPIC]);

/* The document, owned by the caller. `labels`: see detections.h. NULL: no memory. */
json_t *homeassistant_device(const struct settings *settings, const struct link_settings *link, enum detections_kind kind,
                             const json_t *labels);

#endif
