/*
 * What a line of JSON of a pipeline's sink says was seen, as what is published of it.
 */
#ifndef FRAMED_TOOLS_LINK_DETECTIONS_H
#define FRAMED_TOOLS_LINK_DETECTIONS_H

#include <jansson.h>
#include <stdbool.h>

enum detections_kind { DETECTIONS_NONE, DETECTIONS_BOXES, DETECTIONS_MOTION, DETECTIONS_CLASSES };

struct detections {
  enum detections_kind kind;
  size_t count;  /* of boxes or groups */
  json_t *state; /* the caller's: what is published, but for `occupied` */
};

/* Labels become names of entities: `labels` gets what was not seen before, by its name as part of a topic. At most so many. */
enum { DETECTIONS_LABELS = 64, DETECTIONS_SLUG = 48 };

/* False: the line is no JSON, or there is no memory. A line of other results has the kind NONE and no state. */
bool detections_read(const char *line, size_t length, json_t *labels, struct detections *detections);

#endif
