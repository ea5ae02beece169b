/*
 * Completion: takes notice of frames that left their streams, in the order in which they came, even if a later stream finishes
 * first. `callback` reads flags that stream callbacks set and sleeps in between; `spin` asks the device. A fault is not
 * reported by any callback, so the device is asked ten times a second in any case.
 */
#ifndef FRAMED_FRAME_COMPLETION_H
#define FRAMED_FRAME_COMPLETION_H

#include "daemon/frame/flow.h"

/* RUNNING frames that are done become DONE. With `spin` the device is asked for one at most, so that the frame it makes room
 * for is there before it is asked again; of the others those become DONE that are known to be. True if one did. */
bool completion_turn(struct flow *flow);

/* The question that no callback answers: is the device alive? Also finds a hang: nothing completed for `timeout_ns` on
 * the device of any session while a frame runs there, or nothing of this session's for some times as long. True: the oldest
 * frame is known to be done, so that a turn is due: what was to wake the lane may be stuck behind a younger one that hangs. */
bool completion_check(struct flow *flow, int64_t timeout_ns, int64_t now);

/* After device_dead: frames on the device get the fate `gpu_fault`. Returns how many. */
unsigned completion_fail(struct flow *flow, int64_t now);

#endif
