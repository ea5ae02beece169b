/*
 * Rate limits of the log: how many lines of one kind a pipeline may write, and how many were left out.
 *
 * One count for each pair of kind and pipeline that spoke lately; counts that are idle and settled are forgotten.
 * Knows nothing of clocks and output: time comes in (ns of CLOCK_MONOTONIC), decisions go out.
 */
#ifndef FRAMED_BASE_LOG_LIMIT_H
#define FRAMED_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

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
