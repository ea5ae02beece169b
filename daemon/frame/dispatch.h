/* Dispatch: submits READY frames to the device in order, up to the depth of the flow, and drops frames that are too old. */
#ifndef FRAMED_FRAME_DISPATCH_H
#define FRAMED_FRAME_DISPATCH_H

#include "daemon/frame/flow.h"

/* Returns true if a frame moved. */
bool dispatch_turn(struct flow *flow, int64_t now);

#endif
