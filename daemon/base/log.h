/*
 * The daemon's log: one line an event, each of a kind that has a MESSAGE_ID of its own (log_kinds.def).
 *
 * Under systemd (JOURNAL_STREAM names our stderr) entries go to the journal with fields; elsewhere to stderr as
 * text with time and level. Only the control loop and set-up code before it call these; lanes send events instead.
 * Kinds marked as limited are written at most `LOG_BURST` times in ten seconds for each pipeline, and the next line
 * of that kind says how many were left out.
 */
#ifndef FRAMED_BASE_LOG_H
#define FRAMED_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

enum log_kind {
#define X(name, level, limited, id, catalog) LOG_##name,
#include "daemon/base/log_kinds.def"
#undef X
  LOG_KIND_COUNT
};

enum { LOG_BURST = 5 };

void log_open(enum config_log_level level);
void log_set_level(enum config_log_level level);

/* `pipeline` may be NULL. The text is one line without a full stop; "remedy" sentences are part of it. */
__attribute__((format(printf, 3, 4))) void log_event(enum log_kind kind, const char *pipeline, const char *format, ...);

/* What else the journal's entry says, in FRAMED_NAME; a list of them ends with a name that is NULL. Empty ones are left out. */
struct log_field {
  const char *name, *value;
};
enum { LOG_FIELDS = 8 };

__attribute__((format(printf, 4, 5))) void log_event_with(enum log_kind kind, const char *pipeline,
                                                          const struct log_field *fields, const char *format, ...);

/* Writes the counts of limited lines that were left out, and of lines that nobody took, if not yet said; called every ten
 * seconds and at the end. */
void log_flush(void);

/* -- limits: how many lines of one kind a pipeline may write, and how many were left out --------------------------------- */

/* One count for each pair of kind and pipeline that spoke lately; counts that are idle and settled are forgotten. Time comes in
 * (ns of CLOCK_MONOTONIC) and decisions go out, so that tests need neither a clock nor output. */
enum { LOG_LIMIT_WINDOW_S = 10 };

struct log_limit {
  unsigned burst; /* lines in one window */
  struct log_limit_count *counts;
};

#define LOG_LIMIT_NULL(lines)                                                                                                  \
  { .burst = (lines), .counts = NULL } /* an initialiser */

/* Whether a line may be written now. If so, `left_out` says how many of its kind were not, since the last that was.
 * Without memory for a count the line is let through. */
bool log_limit_admit(struct log_limit *limit, unsigned kind, const char *pipeline, int64_t now, uint64_t *left_out);

/* Tells each count of lines left out and not yet said, once, and forgets the windows that are over. */
typedef void log_limit_tell(void *context, unsigned kind, const char *pipeline, uint64_t left_out);
void log_limit_settle(struct log_limit *limit, int64_t now, log_limit_tell *tell, void *context);

#endif
