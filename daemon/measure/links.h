/*
 * Status reports of links: programs such as framed-link that carry results or frames of a pipeline to and from a broker.
 *
 * A link reports its state regularly, each time with how long the report is valid. A link that stops reporting is removed after
 * that time.
 */
#ifndef FRAMED_MEASURE_LINKS_H
#define FRAMED_MEASURE_LINKS_H

#include <stdbool.h>

#include "daemon/measure/trouble.h"

enum link_role { LINK_ROLE_SINK, LINK_ROLE_SOURCE, LINK_ROLE_MQTT, LINK_ROLES };
extern const char *const link_role_names[LINK_ROLES];

enum { LINK_ERROR = 200 };

struct link_state {
  bool connected;          /* to its broker */
  bool warns;              /* although connected, it has the problem in `error` */
  int64_t since;           /* CLOCK_MONOTONIC ns of the last change of `connected` */
  int64_t until;           /* CLOCK_MONOTONIC ns until which the report is valid; 0: no such link */
  uint64_t unacknowledged; /* messages under way */
  bool has_queue;          /* a source that knows its work queue */
  uint64_t depth;          /* frames in the queue */
  uint64_t unserved;       /* of these, frames that no machine will get */
  double oldest_s;         /* age of the first frame */
  char error[LINK_ERROR];  /* the last error, or "" */
  struct trouble trouble;  /* set while it is not connected, or warns */
};

/* The links of a pipeline, one of each role. */
struct links {
  struct link_state states[LINK_ROLES];
};

/* Stores a report made at `now`, and derives its trouble. With `until` at or before `now` it removes the link. */
void links_report(struct links *links, enum link_role role, const struct link_state *state, int64_t now);
/* Removes links whose report is no longer valid. */
void links_expire(struct links *links, int64_t now);

#endif
