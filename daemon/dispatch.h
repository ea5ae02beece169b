/* Dispatch: READY frames go to the device in order, as many as may be past READY; frames too old are dropped here. */
#ifndef FRAMED_DAEMON_DISPATCH_H
#define FRAMED_DAEMON_DISPATCH_H

#include "daemon/road.h"

/* True if a frame moved. */
bool dispatch_turn(struct road *road, int64_t now);

#endif
