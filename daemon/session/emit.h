/* Emit: DONE results go to the sink, in order; what the sink does with them is its own business. */
#ifndef FRAMED_SESSION_EMIT_H
#define FRAMED_SESSION_EMIT_H

#include "daemon/frame/flow.h"
#include "daemon/sink/sink.h"

/* True if a result moved. */
bool emit_turn(struct flow *flow, struct sink *sink);

#endif
