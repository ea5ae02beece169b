/* Traces of hand-made frames, and the events that a viewer gets of them. */
#ifndef FRAMED_TESTS_UNIT_STATUS_TRACE_FRAMES_H
#define FRAMED_TESTS_UNIT_STATUS_TRACE_FRAMES_H

#include <jansson.h>

#include "daemon/status/trace_text.h"

#define US INT64_C(1000)

/* Of 2.5 seconds on a device, with so many sessions of one pipeline. */
struct trace *begin_trace(unsigned subjects);
/* A frame that took 100 us: 10 each for receive and queue, 20 waiting on the device, 10 each for its steps there... */
struct trace_record frame_at(uint64_t sequence, int64_t first);
void add_frame(struct trace *trace, unsigned subject, const struct trace_record *record);
/* Takes the trace; in pieces of a size that no line has. */
json_t *finish_trace(struct trace *trace);

#endif
