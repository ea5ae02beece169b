/*
 * All links of the program: those that its configuration names, and one for each pipeline of the daemon that has a socket with
 * `protocol: json`, where `mqtt` names none. The daemon is asked every two seconds, so that links come and go with reloads.
 */
#ifndef FRAMED_TOOLS_LINK_FOUND_H
#define FRAMED_TOOLS_LINK_FOUND_H

#include <jansson.h>

#include "tools/link/link.h"

struct fleet {
  const struct settings *settings;
  struct link links[SETTINGS_LINKS]; /* those of the configuration first; one without `settings` does not run */
  unsigned count;                    /* of places that were ever used */
  /* Of links that were found: */
  struct link_settings found[SETTINGS_LINKS];
  int stops[SETTINGS_LINKS]; /* descriptors, each of which stops one */
  json_t *left_out;          /* names of pipelines that have none, of which was said why */
  int64_t due;               /* when the daemon is asked again */
  bool silent, none;         /* it does not answer, or has no such pipeline: that was said */
};

/* NULL: no memory. */
struct fleet *fleet_new(const struct settings *settings);
/* After nats_CloseAndWait(). */
void fleet_free(struct fleet *fleet);

/* Asks the daemon if it is time, starts links of pipelines that are new, and ends those of pipelines that have gone, which is
 * announced; may wait for some seconds. */
void fleet_look(struct fleet *fleet);
/* Stops what was found and waits for it. */
void fleet_end_found(struct fleet *fleet);

#endif
