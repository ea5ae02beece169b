/*
 * What a new configuration changes in the running one: which pipelines stay untouched, change, come and go, and whether
 * it touches what only a restart can change.
 */
#ifndef FRAMED_SERVER_CONFIG_DIFF_H
#define FRAMED_SERVER_CONFIG_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum change { CHANGE_NONE, CHANGE_STAGES /* and nothing else */, CHANGE_CHANGED, CHANGE_ADDED };

struct diff {
  unsigned new_count, old_count;
  struct {
    enum change change;
    unsigned old; /* its index in the old configuration, unless ADDED */
  } * now;        /* one for each pipeline of the new configuration */
  bool *removed;  /* one for each pipeline of the old one */
};

/* False if there is no memory. */
bool config_diff_make(struct diff *diff, const struct config *old, const struct config *now);
void config_diff_clear(struct diff *diff); /* idempotent */

/* Writes the keys that differ and cannot change at run time, as "lanes, gpu.backend". False if there is none. */
bool config_diff_fixed_keys(const struct config *old, const struct config *now, char *text, size_t size);

#endif
