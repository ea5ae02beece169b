/*
 * All links of the program. The configuration names some. If `mqtt` names no pipeline, each pipeline with a `protocol: json`
 * socket gets one. The daemon is asked every two seconds, so such links follow its reloads.
 *
 * A reload of this program calls fleet_stop(), and then fleet_start() with the same settings. Links that the new settings lack
 * are stopped, new ones are started, and all others keep running.
 */
#ifndef FRAMED_TOOLS_LINK_FLEET_H
#define FRAMED_TOOLS_LINK_FLEET_H

#include <jansson.h>

#include "tools/link/link.h"

struct fleet {
  struct settings *settings;         /* the last settings it was started with; NULL: none yet */
  struct link links[SETTINGS_LINKS]; /* an entry without `settings` does not run */
  unsigned count;                    /* entries that were ever used */
  /* For each entry of `links`: */
  struct settings *by[SETTINGS_LINKS];        /* the settings of its start */
  bool ended[SETTINGS_LINKS];                 /* it has stopped, and the daemon must be informed */
  struct link_settings found[SETTINGS_LINKS]; /* the entry of a discovered pipeline */
  json_t *left_out;                           /* pipelines without a link, whose reason was reported */
  int64_t due;                                /* time of the next request to the daemon */
  bool silent, none;                          /* it does not answer, or has no such pipeline; both are reported once */
};

/* NULL: no memory. */
struct fleet *fleet_new(void);
/* Call this when all links have stopped. */
void fleet_free(struct fleet *fleet);

/*
 * Stops each link that `next` lacks or changes; NULL: all. Sources stop first, so that the results of their frames are stored.
 * Stopped links stay in `links` until the next start. Returns their number.
 */
unsigned fleet_stop(struct fleet *fleet, const struct settings *next);
/* Starts the links of `next` that are not running. False: not enough memory, threads or descriptors. */
bool fleet_start(struct fleet *fleet, struct settings *next);

/*
 * Asks the daemon when it is time. Starts links for new pipelines, and stops those of removed pipelines, which is announced.
 * May wait for some seconds.
 */
void fleet_look(struct fleet *fleet);

#endif
