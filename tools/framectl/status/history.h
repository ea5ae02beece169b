/* Rates of the last two minutes for each pipeline, from the counters of successive requests. */
#ifndef FRAMED_TOOLS_FRAMECTL_STATUS_HISTORY_H
#define FRAMED_TOOLS_FRAMECTL_STATUS_HISTORY_H

#include <stdint.h>

#include "tools/framectl/status/view.h"

enum { HISTORY_LENGTH = 120, HISTORY_PIPELINES = 1024 /* the most that a configuration can have */ };

struct history_line {
  char name[65];
  bool known; /* `emitted` and `drops` come from an earlier sample */
  uint64_t emitted, drops;
  double at;                    /* seconds */
  double rates[HISTORY_LENGTH]; /* frames a second; a ring */
  unsigned count;               /* samples so far */
  uint64_t fresh_drops;         /* since the previous sample */
};

struct history { /* zero before use */
  struct history_line lines[HISTORY_PIPELINES];
  unsigned count;
};

/* Adds a sample taken at `seconds` of any steady clock. NULL: there are too many pipelines. */
const struct history_line *history_add(struct history *history, const struct pipeline_view *view, double seconds);
const struct history_line *history_find(const struct history *history, const char *name);
/* The daemon is unreachable, so the next sample has no previous one. */
void history_break(struct history *history);
/* The rate `age` samples ago, 0 is the newest; -1: no such sample. */
double history_rate(const struct history_line *line, unsigned age);

#endif
