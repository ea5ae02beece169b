/* The events of a trace, as the JSON of its text has them: which there are, and where and when they are shown. */
#ifndef FRAMED_TESTS_UNIT_STATUS_TRACE_EVENTS_H
#define FRAMED_TESTS_UNIT_STATUS_TRACE_EVENTS_H

#include <jansson.h>
#include <stdbool.h>

const char *event_word(const json_t *event, const char *key);
double event_number(const json_t *event, const char *key);
double event_frame(const json_t *event);
bool event_is(const json_t *event, const char *phase, const char *name);

/* The `skip`-th event of that kind, or NULL. */
const json_t *event_find(const json_t *events, const char *phase, const char *name, unsigned skip);
unsigned event_count(const json_t *events, const char *phase, const char *name);

/* What the row or process is called, by events of this name. */
const char *event_name_of(const json_t *events, const char *what, double process, double thread);

/* The event is in that row of that process; it is a span from there on, for so many microseconds. */
void expect_event_row(const json_t *events, const json_t *event, const char *process, const char *thread);
void expect_event_span(const json_t *event, double begins, double lasts);
/* Two spans lie apart, or one within the other. */
bool events_nest(const json_t *one, const json_t *other);

#endif
