#include "tools/link/homeassistant.h"

#include <stdio.h>

struct description {
  const struct settings *settings;
  const struct link_settings *link;
  void (*publish)(void *context, const char *subject, const json_t *document);
  void *context;
};

void homeassistant_topic(const struct settings *settings, const struct link_settings *link, const char *what,
                         char subject[TOPIC]) {
  snprintf(subject, TOPIC, "framed.%.64s.%.64s.%s", settings->mqtt_node, link->name, what);
}

/* As MQTT has it. */
static json_t *topic(const struct description *all, const char *what) {
  return json_sprintf("framed/%.64s/%.64s/%s", all->settings->mqtt_node, all->link->name, what);
}

/* An entity of the pipeline, which is a device of its own there. Takes `value`, the template of its state, and `extra`, further
 * keys. */
static void describe(const struct description *all, const char *component, const char *id, json_t *name, json_t *value,
                     json_t *extra) {
  const char *node = all->settings->mqtt_node, *pipeline = all->link->name;
  char subject[TOPIC];
  json_t *document =
      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:{s:[o], s:o, s:s, s:s}}", "name", name, "unique_id",
                json_sprintf("framed_%s_%s_%s", node, pipeline, id), "object_id", json_sprintf("%s_%s", pipeline, id),
                "state_topic", topic(all, "state"), "json_attributes_topic", topic(all, "state"), "availability_topic",
                topic(all, "availability"), "value_template", value, "expire_after", HOMEASSISTANT_EXPIRES_S, "device",
                "identifiers", json_sprintf("framed_%s_%s", node, pipeline), "name", json_sprintf("framed %s", pipeline),
                "manufacturer", "framed", "sw_version", FRAMED_VERSION);
  snprintf(subject, sizeof subject, "%.64s.%s.framed_%.64s.%.64s_%s.config", all->settings->mqtt_prefix, component, node,
           pipeline, id);
  if (document && json_object_update(document, extra) == 0) {
    all->publish(all->context, subject, document);
  }
  json_decref(document);
  json_decref(extra);
}

static void describe_count(const struct description *all, const char *id, json_t *name, json_t *value) {
  describe(all, "sensor", id, name, value, json_pack("{s:s}", "state_class", "measurement"));
}

/* One for each label that was seen. */
static void describe_labels(const struct description *all, json_t *labels) {
  const char *slug;
  json_t *label;
  json_object_foreach(labels, slug, label) {
    char id[DETECTIONS_SLUG + 16];
    snprintf(id, sizeof id, "count_%s", slug);
    describe_count(all, id, json_sprintf("detections of %s", json_string_value(label)),
                   json_sprintf("{{ value_json.labels['%s'] | default(0) }}", id + sizeof "count_" - 1));
  }
}

void homeassistant_describe(const struct settings *settings, const struct link_settings *link, enum detections_kind kind,
                            json_t *labels, void (*publish)(void *context, const char *subject, const json_t *document),
                            void *context) {
  const struct description all = {settings, link, publish, context};
  if (kind == DETECTIONS_CLASSES) {
    describe(&all, "sensor", "class", json_string("class"), json_string("{{ value_json.class }}"), json_object());
    describe_count(&all, "score", json_string("score"), json_string("{{ value_json.score }}"));
  } else if (kind != DETECTIONS_NONE) {
    const char *class = kind == DETECTIONS_MOTION ? "motion" : "occupancy";
    describe(&all, "binary_sensor", "occupied", json_string(class), json_string("{{ value_json.occupied }}"),
             json_pack("{s:s}", "device_class", class));
    describe_count(&all, "count", json_string("detections"), json_string("{{ value_json.count }}"));
    describe_labels(&all, labels);
  }
}
