/*
 * Completion: moves RUNNING frames whose results are there to DONE, in the order in which the frames were submitted. Finds
 * devices that hang.
 */
#ifndef FRAMED_FRAME_COMPLETION_H
#define FRAMED_FRAME_COMPLETION_H

#include "daemon/frame/flow.h"

/* Moves finished frames from RUNNING to DONE. Returns true if at least one moved. */
bool completion_turn(struct flow *flow);

/* Called ten times a second. Marks the device as failed in two cases: it completed nothing for `timeout_ns` while a frame ran,
 * or none of this session for several times as long. Returns true if the oldest frame is done and the lane must take a turn. */
bool completion_check(const struct flow *flow, int64_t timeout_ns, int64_t now);

#endif
