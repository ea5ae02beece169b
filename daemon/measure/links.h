/*
 * What links tell of themselves: programs that carry a pipeline's results or frames to and from a broker, as framed-link does.
 *
 * A link says again and again how it stands, each time with how long that holds: one that has gone without a word is
 * forgotten after that.
 */
#ifndef FRAMED_MEASURE_LINKS_H
#define FRAMED_MEASURE_LINKS_H

#include <stdbool.h>

#include "daemon/measure/trouble.h"

enum link_role { LINK_ROLE_SINK, LINK_ROLE_SOURCE, LINK_ROLE_MQTT, LINK_ROLES };
extern const char *const link_role_names[LINK_ROLES];

enum { LINK_ERROR = 200 };

struct link_state {
  bool connected;          /* to its broker, or not, */
  bool warns;              /* though it is: `error` lasts */
  int64_t since;           /* it is connected, or not, from then on */
  int64_t until;           /* it holds until then: both CLOCK_MONOTONIC ns; 0: there is no such link */
  uint64_t unacknowledged; /* messages that are on their way */
  bool has_queue;          /* a source that knows of its work queue: */
  uint64_t depth;          /* frames in it */
  uint64_t unserved;       /* of these, those that no box is given */
  double oldest_s;         /* the age of the first */
  char error[LINK_ERROR];  /* the last one, or "" */
  struct trouble trouble;  /* while it is not connected, or warns */
};

/* The links of a pipeline, one of each role. */
struct links {
  struct link_state states[LINK_ROLES];
};

/* The link says at `now` how it stands; its trouble follows from that. With `until` at or before `now` it is forgotten. */
void links_tell(struct links *links, enum link_role role, const struct link_state *state, int64_t now);
/* Forgets the links whose word holds no longer. */
void links_forget(struct links *links, int64_t now);

#endif
