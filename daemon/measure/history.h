/*
 * The history: replacements of workers after faults, and process images of this daemon that followed one another, with causes
 * and interruptions. Each image passes it to the next.
 */
#ifndef FRAMED_MEASURE_HISTORY_H
#define FRAMED_MEASURE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* name, text, meaning */
#define HISTORY_CAUSES(X)                                                                                                      \
  X(FAULT, "fault", "a worker failed, and another one took its place")                                                         \
  X(UPGRADE, "upgrade", "another program was installed")                                                                       \
  X(RESTART, "restart", "the service was restarted")                                                                           \
  X(CRASH, "crash", "the process was killed")                                                                                  \
  X(DEVICE, "device", "a device was drained, or brought back")

enum history_cause {
#define X(name, text, meaning) HISTORY_##name,
  HISTORY_CAUSES(X)
#undef X
      HISTORY_CAUSE_COUNT
};

extern const char *const history_names[HISTORY_CAUSE_COUNT];

enum { HISTORY_TEXT = 320, HISTORY_FAULTS = 64 };

struct history {
  uint64_t counts[HISTORY_CAUSE_COUNT];
  enum history_cause cause;       /* of the last event */
  char text[HISTORY_TEXT];        /* its description */
  int64_t stopped;                /* CLOCK_MONOTONIC ns of the end of the previous image */
  int64_t gap;                    /* ns from there until this image served; 0: no event yet */
  int64_t longest;                /* longest gap */
  int64_t total;                  /* ns of all gaps */
  uint64_t closed;                /* connections that crashes closed */
  bool suspects;                  /* a device failed, and nothing has served since */
  int64_t faults[HISTORY_FAULTS]; /* recent device failures: CLOCK_MONOTONIC ns, latest first */
};

/* The workers of a device. */
struct worker_history {
  unsigned generation;     /* workers so far; the number of the current one */
  uint64_t replaced;       /* workers that replaced a lost one */
  int64_t since;           /* CLOCK_MONOTONIC ns since when the current one serves */
  int64_t stopped;         /* CLOCK_MONOTONIC ns of the last loss */
  int64_t gap;             /* ns from there until the next worker served; 0: no loss yet */
  char text[HISTORY_TEXT]; /* reason of the last loss */
};

/* A worker serves from `now` on, without replacing another. */
void worker_history_begin(struct worker_history *workers, int64_t now);
/* A worker serves from `now` on. It replaces one that was lost at `stopped` for that reason. */
void worker_history_replace(struct worker_history *workers, const char *reason, int64_t stopped, int64_t now);

/* The running image ends at `now`. */
void history_end(struct history *history, enum history_cause cause, const char *text, int64_t now);
/* A device failed at `now`, without a single suspected frame. */
void history_note_fault(struct history *history, int64_t now);
/* The next image, or worker, serves at `now`. */
void history_begin(struct history *history, int64_t now);
/* True if a fault at `now` would exceed `limit` within a minute. */
bool history_is_too_fast(const struct history *history, unsigned limit, int64_t now);

#endif
