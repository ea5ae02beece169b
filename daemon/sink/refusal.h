/*
 * What becomes of a result when the system refuses to write it: its segment ends, or it waits for room on the disk, or it is
 * lost, and the control loop hears why. file.c writes, and asks here. On the sink's lane.
 */
#ifndef FRAMED_SINK_REFUSAL_H
#define FRAMED_SINK_REFUSAL_H

#include "daemon/sink/results.h"

/* Errors are those of libuv: negative. */

/* A segment that is as large as a file may be ends like a full one, and its next result goes into the next segment. False: the
 * result does not fit into an empty segment either, or no segment could begin. */
bool refusal_ends_segment(struct sink *sink, int error);
/* A result waits for some seconds while old segments make room on a full disk: it is tried again with each tick. */
bool refusal_waits_for_room(struct sink *sink, int error);
/* A result was lost; */
void refusal_begins(struct sink *sink, int error);
/* one was written. */
void refusal_ends(struct sink *sink);
/* A torn result could not be cut off: the next whole result is written over it, or the end of the sink tries again. What is no
 * regular file (EINVAL) has no end to cut. */
void refusal_leaves_torn(struct sink *sink, int error);
/* Tells the control loop whether the file can be written, once for each change. While one notice is on its way, the next waits
 * for the tick. */
void refusal_tell(struct sink *sink);

#endif
