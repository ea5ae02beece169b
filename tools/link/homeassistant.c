#include "tools/link/homeassistant.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct device {
  const struct settings *settings;
  const struct link_settings *link;
  json_t *components;
};

void homeassistant_topic(const struct settings *settings, const struct link_settings *link, const char *what,
                         char topic[TOPIC]) {
  snprintf(topic, TOPIC, "%.100s/%.100s/%s", settings->mqtt_topic, link->name, what);
}

void homeassistant_device_topic(const struct settings *settings, const struct link_settings *link, char topic[TOPIC]) {
  snprintf(topic, TOPIC, "%.100s/device/%.100s/%.100s/config", settings->mqtt_prefix, settings->mqtt_topic, link->name);
}

void homeassistant_birth_topic(const struct settings *settings, char topic[TOPIC]) {
  snprintf(topic, TOPIC, "%.100s/status", settings->mqtt_prefix);
}

/*
 * "PLATFORM.PIPELINE_ID" in Home Assistant's characters: lower-case letters, digits, and single '_' between them. It rejects
 * any other entity name.
 */
static json_t *entity_id(const char *platform, const char *pipeline, const char *id) {
  char raw[256], name[256];
  size_t length = 0;
  snprintf(raw, sizeof raw, "%.100s_%.100s", pipeline, id);
  for (const char *at = raw; *at; at++) {
    bool good = isalnum((unsigned char)*at);
    if (good || (length > 0 && name[length - 1] != '_')) {
      name[length++] = (char)(good ? tolower((unsigned char)*at) : '_');
    }
  }
  length -= length > 0 && name[length - 1] == '_';
  return json_sprintf("%s.%.*s", platform, (int)length, name);
}

/* Takes ownership of `value`, the template of the entity's state, and of `extra`, further keys. */
static void add(const struct device *device, const char *platform, const char *id, json_t *name, json_t *value, json_t *extra) {
  char state[TOPIC];
  homeassistant_topic(device->settings, device->link, "state", state);
  json_t *entity = json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:i}", "platform", platform, "name", name, "unique_id",
                             json_sprintf("%s/%s/%s", device->settings->mqtt_topic, device->link->name, id),
                             "default_entity_id", entity_id(platform, device->link->name, id), "json_attributes_topic", state,
                             "value_template", value, "expire_after", HOMEASSISTANT_EXPIRES_S);
  json_object_update(entity, extra);
  json_object_set_new(device->components, id, entity);
  json_decref(extra);
}

static void add_count(const struct device *device, const char *id, json_t *name, json_t *value) {
  add(device, "sensor", id, name, value, json_pack("{s:s}", "state_class", "measurement"));
}

/* Adds an entity for each label. */
static void add_labels(const struct device *device, const json_t *labels) {
  const char *slug;
  json_t *label;
  json_object_foreach((json_t *)labels, slug, label) {
    char id[DETECTIONS_SLUG + 16];
    snprintf(id, sizeof id, "count_%s", slug);
    add_count(device, id, json_sprintf("detections of %s", json_string_value(label)),
              json_sprintf("{{ value_json.labels['%s'] | default(0) }}", slug));
  }
}

static void add_entities(const struct device *device, enum detections_kind kind, const json_t *labels) {
  if (kind == DETECTIONS_CLASSES) {
    add(device, "sensor", "class", json_string("class"), json_string("{{ value_json.class }}"), json_object());
    add_count(device, "score", json_string("score"), json_string("{{ value_json.score }}"));
  } else if (kind != DETECTIONS_NONE) {
    const char *class = kind == DETECTIONS_MOTION ? "motion" : "occupancy";
    add(device, "binary_sensor", "occupied", json_string(class), json_string("{{ value_json.occupied }}"),
        json_pack("{s:s}", "device_class", class));
    add_count(device, "count", json_string("detections"), json_string("{{ value_json.count }}"));
    add_labels(device, labels);
  }
}

json_t *homeassistant_device(const struct settings *settings, const struct link_settings *link, enum detections_kind kind,
                             const json_t *labels) {
  const struct device device = {settings, link, json_object()};
  char state[TOPIC], availability[TOPIC];
  homeassistant_topic(settings, link, "state", state);
  homeassistant_topic(settings, link, "availability", availability);
  add_entities(&device, kind, labels);
  return json_pack("{s:{s:[o], s:o, s:s, s:s}, s:{s:s, s:s}, s:s, s:s, s:o}", "device", "identifiers",
                   json_sprintf("%s/%s", settings->mqtt_topic, link->name), "name", json_sprintf("framed %s", link->name),
                   "manufacturer", "framed", "sw_version", FRAMED_VERSION, "origin", "name", "framed-link", "sw_version",
                   FRAMED_VERSION, "state_topic", state, "availability_topic", availability, "components", device.components);
}
