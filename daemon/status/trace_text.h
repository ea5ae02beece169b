/*
 * A trace as text: an array of Chrome trace events in JSON, which Perfetto and chrome://tracing open.
 *
 * It is written in pieces as they are asked for. The first event stands on a line of its own and sums the trace up: how
 * many frames, how many were overwritten before they were read, and whether it ended early because it was full.
 *
 *   process      threads (rows)
 *   framed       trace: the summary, at the moment when it began
 *   device N     copy engine in, copy engine out: the copies of all sessions, but of those whose small frames kernels copy
 *   PIPELINE     receive, queue, stream 0 to 15, wake, emit, dropped; each session is a process of its own
 *
 * Times are microseconds of CLOCK_MONOTONIC. An arrow leads along the spans of each frame.
 */
#ifndef FRAMED_STATUS_TRACE_TEXT_H
#define FRAMED_STATUS_TRACE_TEXT_H

#include <stddef.h>

#include "daemon/status/trace.h"

struct trace_text;

/* Takes the laid out trace, also if there is no memory: then NULL. */
struct trace_text *trace_text_new(struct trace *trace);
struct trace_text *trace_text_free(struct trace_text *text); /* NULL is fine; returns NULL */

/* The next bytes, at most `room`; 0: that was all. */
size_t trace_text_read(struct trace_text *text, char *bytes, size_t room);

#endif
