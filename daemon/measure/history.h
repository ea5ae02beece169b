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

/* The running image ends at `now`. */
struct worker_history {
  unsigned generation;     /* A device failed at `now`, without a single suspected frame. */
  uint64_t replaced;       /* The next image, or worker, serves at `now`. */
  int64_t since;           /* True if a fault at `now` would exceed `limit` within a minute. */
  int64_t stopped;         /* when the last one that was replaced was lost (CLOCK_MONOTONIC ns), */
  int64_t gap;             /* how many ns later the next one served; 0: none was replaced, */
  char text[HISTORY_TEXT]; /* and why */
};

/* A worker serves from `now` on that takes nobody's place. */
void worker_history_begin(struct worker_history *workers, int64_t now);
/* A worker serves from `now` on in place of one that was lost at `stopped`, for that reason. */
void worker_history_replace(struct worker_history *workers, const char *reason, int64_t stopped, int64_t now);

/* The image of the process that runs ends at `now`, because of `cause`. */
void history_end(struct history *history, enum history_cause cause, const char *text, int64_t now);
/* A device failed at `now`, and nobody knows which frame it was. */
void history_note_fault(struct history *history, int64_t now);
/* The next one serves at `now`. */
void history_begin(struct history *history, int64_t now);
/* Whether a fault at `now` would be one more than `limit` within a minute. */
bool history_is_too_fast(const struct history *history, unsigned limit, int64_t now);

#endif
