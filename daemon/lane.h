/*
 * A lane: a thread with an event loop of its own, which owns the sessions and sinks placed on it.
 *
 * Nobody else touches those; what another thread wants done comes as a message. Each iteration of the loop runs
 * one turn of every session that has something to do. Nothing on a lane blocks and nothing allocates for a frame.
 */
#ifndef FRAMED_DAEMON_LANE_H
#define FRAMED_DAEMON_LANE_H

#include <stdbool.h>
#include <uv.h>

#include "daemon/failure.h"
#include "daemon/mailbox.h"

struct lane;

/* Starts the thread. NULL on error. */
struct lane *lane_new(unsigned index, struct failure *failure);
/* Ends and joins the thread; its sessions and sinks must be gone. NULL is fine; returns NULL. */
struct lane *lane_free(struct lane *lane);

unsigned lane_index(const struct lane *lane);
/* From any thread: runs the message on the lane. */
void lane_post(struct lane *lane, struct message *message);
/* From any thread: CLOCK_MONOTONIC ns of the last finished turn; a lane beats at least ten times a second. */
int64_t lane_heartbeat(const struct lane *lane);
/* Bytes a frame of the sessions placed here, for placing the next one; control loop only. */
size_t *lane_load(struct lane *lane);

#endif
