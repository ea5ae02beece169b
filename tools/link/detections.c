#include "tools/link/detections.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>

enum { SHOWN = 50 }; /* boxes or classes in a message */

/* The FNV-1a hash of a label. */
static unsigned sum_of(const char *label) {
  uint32_t sum = 2166136261U;
  for (; *label; label++) {
    sum = (sum ^ (unsigned char)*label) * 16777619U;
  }
  return sum;
}

/*
 * Makes a name of lower-case letters and digits for topics and templates. Other labels get a hash, so that they stay distinct.
 */
static void write_slug(const char *label, char slug[DETECTIONS_SLUG]) {
  enum { NUMBER = 9, MOST = DETECTIONS_SLUG - 1 - NUMBER };
  bool foreign = false;
  size_t length = 0;
  for (const char *at = label; *at && length < MOST; at++) {
    bool ascii = (unsigned char)*at < 0x80;
    slug[length++] = (char)(ascii && isalnum((unsigned char)*at) ? tolower((unsigned char)*at) : '_');
    foreign = foreign || !ascii;
  }
  slug[length] = '\0';
  if (foreign || label[length]) {
    snprintf(slug + length, NUMBER + 1, "_%08x", sum_of(label));
  }
}

static json_t *first_of(const json_t *list) {
  json_t *first = json_array();
  for (size_t i = 0; i < json_array_size(list) && i < SHOWN; i++) {
    json_array_append(first, json_array_get(list, i));
  }
  return first;
}

/* Counts the boxes of each label. Labels seen before count 0. */
static json_t *count_labels(const json_t *boxes, json_t *labels) {
  json_t *counts = json_object(), *name;
  const char *known;
  json_object_foreach(labels, known, name) { json_object_set_new(counts, known, json_integer(0)); }
  for (size_t i = 0; i < json_array_size(boxes); i++) {
    const char *label = json_string_value(json_object_get(json_array_get(boxes, i), "label"));
    char slug[DETECTIONS_SLUG];
    write_slug(label ? label : "", slug);
    if (slug[0] && (json_object_get(labels, slug) || json_object_size(labels) < DETECTIONS_LABELS)) {
      json_int_t before = json_integer_value(json_object_get(counts, slug));
      if (!json_object_get(labels, slug)) {
        json_object_set_new(labels, slug, json_string(label));
      }
      json_object_set_new(counts, slug, json_integer(before + 1));
    }
  }
  return counts;
}

static void read_boxes(const json_t *boxes, json_t *labels, struct detections *detections) {
  detections->kind = DETECTIONS_BOXES;
  detections->count = json_array_size(boxes);
  detections->state = json_pack("{s:I, s:o, s:o}", "count", (json_int_t)detections->count, "labels",
                                count_labels(boxes, labels), "boxes", first_of(boxes));
}

static void read_motion(const json_t *motion, struct detections *detections) {
  json_int_t groups = json_integer_value(json_object_get(motion, "groups"));
  detections->kind = DETECTIONS_MOTION;
  detections->count = groups > 0 ? (size_t)groups : 0;
  detections->state =
      json_pack("{s:I, s:f, s:o}", "count", groups, "changed", json_number_value(json_object_get(motion, "changed")), "boxes",
                first_of(json_object_get(motion, "boxes")));
}

/* The best class represents the frame. */
static void read_classes(const json_t *classes, struct detections *detections) {
  const json_t *best = json_array_get(classes, 0);
  const char *label = json_string_value(json_object_get(best, "label"));
  json_t *name = label  ? json_string(label)
                 : best ? json_sprintf("%lld", (long long)json_integer_value(json_object_get(best, "class")))
                        : json_null();
  detections->kind = DETECTIONS_CLASSES;
  detections->count = json_array_size(classes);
  detections->state = json_pack("{s:o, s:f, s:o}", "class", name, "score", json_number_value(json_object_get(best, "score")),
                                "classes", first_of(classes));
}

bool detections_read(const char *line, size_t length, json_t *labels, struct detections *detections) {
  json_t *document = json_loadb(line, length, 0, NULL);
  const json_t *boxes = json_object_get(document, "boxes"), *motion = json_object_get(document, "motion");
  const json_t *classes = json_object_get(document, "classes");
  *detections = (struct detections){.kind = DETECTIONS_NONE};
  if (json_is_array(boxes)) {
    read_boxes(boxes, labels, detections);
  } else if (json_is_object(motion)) {
    read_motion(motion, detections);
  } else if (json_is_array(classes)) {
    read_classes(classes, detections);
  }
  bool fine = json_is_object(document) && (detections->kind == DETECTIONS_NONE || detections->state);
  json_decref(document);
  return fine;
}
