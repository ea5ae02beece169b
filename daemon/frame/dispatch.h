/* Dispatch: READY frames go to the device in order, as many as may be past READY; frames too old are dropped here. */
#ifndef FRAMED_FRAME_DISPATCH_H
#define FRAMED_FRAME_DISPATCH_H

#include "daemon/frame/flow.h"

/* True if a frame moved. */
bool dispatch_turn(struct flow *flow, int64_t now);

#endif
