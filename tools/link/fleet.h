/*
 * All links of the program: those that its configuration names, and one for each pipeline of the daemon that has a socket with
 * `protocol: json`, where `mqtt` names none. The daemon is asked every two seconds, so that links come and go with reloads.
 *
 * A reload of the program stops the links that its new settings do not have, starts those that are new, and leaves the others
 * as they are: fleet_stop(), and then fleet_start() with the same settings.
 */
#ifndef FRAMED_TOOLS_LINK_FLEET_H
#define FRAMED_TOOLS_LINK_FLEET_H

#include <jansson.h>

#include "tools/link/link.h"

struct fleet {
  struct settings *settings;         /* the last that it was started with; NULL: none yet */
  struct link links[SETTINGS_LINKS]; /* one without `settings` does not run */
  unsigned count;                    /* of places that were ever used */
  /* Of the links, by their places: */
  struct settings *by[SETTINGS_LINKS];        /* what each was started with */
  bool ended[SETTINGS_LINKS];                 /* it has stopped, and the daemon is to be told */
  struct link_settings found[SETTINGS_LINKS]; /* of one for a pipeline that was found */
  json_t *left_out;                           /* names of pipelines that have none, of which was said why */
  int64_t due;                                /* when the daemon is asked again */
  bool silent, none;                          /* it does not answer, or has no such pipeline: that was said */
};

/* NULL: no memory. */
struct fleet *fleet_new(void);
/* When all links have stopped. */
void fleet_free(struct fleet *fleet);

/* Stops each link that `next` has not, or has in another form; NULL: all. Sources first, so that the results of what came from
 * queues are stored. Links that have stopped stay in `links` until the next start. Returns how many. */
unsigned fleet_stop(struct fleet *fleet, const struct settings *next);
/* Starts what `next` has and does not run. False: not enough memory, threads or descriptors. */
bool fleet_start(struct fleet *fleet, struct settings *next);

/* Asks the daemon if it is time, starts links of pipelines that are new, and ends those of pipelines that have gone, which is
 * announced; may wait for some seconds. */
void fleet_look(struct fleet *fleet);

#endif
