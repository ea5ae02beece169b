/*
 * The daemon's log: one line per event, each of a kind with its own MESSAGE_ID (log_kinds.def).
 *
 * If stderr is the journal (JOURNAL_STREAM), entries go there with fields, otherwise to stderr as text with time and level.
 * Only the control loop and set-up code call this; lanes send events instead. Limited kinds are written at most `LOG_BURST`
 * times in ten seconds for each pipeline. The next line of that kind says how many were left out.
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

/* `pipeline` may be NULL. The text is one line without a full stop, with its remedy if there is one. */
__attribute__((format(printf, 3, 4))) void log_event(enum log_kind kind, const char *pipeline, const char *format, ...);

/* A further field FRAMED_NAME of the journal entry. A NULL name ends the list; empty values are left out. */
struct log_field {
  const char *name, *value;
};
enum { LOG_FIELDS = 8 };

__attribute__((format(printf, 4, 5))) void log_event_with(enum log_kind kind, const char *pipeline,
                                                          const struct log_field *fields, const char *format, ...);

/* Writes the counts of lines that were left out or dropped and not reported yet. Call every ten seconds and at the end. */
void log_flush(void);

/* -- limits: how many lines of one kind a pipeline may write, and how many were left out --------------------------------- */

/* One count for each pair of kind and pipeline that wrote lately; finished ones are freed. Time (CLOCK_MONOTONIC ns) is a
 * parameter and decisions are results, so tests need neither clock nor output. */
enum { LOG_LIMIT_WINDOW_S = 10 };

struct log_limit {
  unsigned burst; /* lines in one window */
  struct log_limit_count *counts;
};

#define LOG_LIMIT_NULL(lines)                                                                                                  \
  { .burst = (lines), .counts = NULL } /* an initialiser */

/* Returns true if a line may be written now. Then `left_out` is the number of lines of its kind that were not, since the last
 * one that was. Without memory for a count the line is allowed. */
bool log_limit_admit(struct log_limit *limit, unsigned kind, const char *pipeline, int64_t now, uint64_t *left_out);

/* Calls `report` for each count of lines left out that is not reported yet, and frees counts whose window is over. */
typedef void log_limit_report(void *context, unsigned kind, const char *pipeline, uint64_t left_out);
void log_limit_settle(struct log_limit *limit, int64_t now, log_limit_report *report, void *context);

#endif
