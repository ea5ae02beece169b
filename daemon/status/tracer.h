/*
 * Takes traces: starts the recording of every session, reads the rings in time, and lays out what it got.
 *
 * Everything happens on the control loop, but for the laying out on a worker thread. Lanes only append to their rings, and only
 * while a trace is taken. A frame belongs to a trace if it got its fate while that was taken; what it went through before is
 * also told. Sessions that come later are noticed within a tenth of a second.
 */
#ifndef FRAMED_STATUS_TRACER_H
#define FRAMED_STATUS_TRACER_H

#include "daemon/status/status_ops.h"

enum { TRACER_MOST = 4 }; /* traces that are taken, laid out or sent at once */

struct tracer;

/* `ops` stays the caller's. NULL if there is no memory. */
struct tracer *tracer_new(const struct status_ops *ops);
/* Answers every order with 503 and takes no more. Idempotent; NULL is fine. */
void tracer_stop(struct tracer *tracer);
/* Answers every order there is with 503, for it would end without an answer in another process. False: there is none. */
bool tracer_yield(struct tracer *tracer);
/* After tracer_stop(), with the loop at its end and all traces freed. NULL is fine; returns NULL. */
struct tracer *tracer_free(struct tracer *tracer);

/* Takes a trace of all sessions. 503 if there are too many at once, or if the daemon ends first. */
void tracer_take(struct tracer *tracer, const struct trace_order *order);

#endif
