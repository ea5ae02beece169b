/* Detections in a line of JSON from a pipeline's sink, in the form that is published. */
#ifndef FRAMED_TOOLS_LINK_DETECTIONS_H
#define FRAMED_TOOLS_LINK_DETECTIONS_H

#include <jansson.h>
#include <stdbool.h>

enum detections_kind { DETECTIONS_NONE, DETECTIONS_BOXES, DETECTIONS_MOTION, DETECTIONS_CLASSES };

struct detections {
  enum detections_kind kind;
  size_t count;  /* boxes or groups */
  json_t *state; /* owned by the caller: the published state without `occupied` */
};

/* Labels become names of entities: `labels` collects new ones, by their names in topics. DETECTIONS_LABELS is the most. */
enum { DETECTIONS_LABELS = 64, DETECTIONS_SLUG = 48 };

/* False: the line is no JSON, or there is no memory. A line of other results has the kind NONE and no state. */
bool detections_read(const char *line, size_t length, json_t *labels, struct detections *detections);

#endif
