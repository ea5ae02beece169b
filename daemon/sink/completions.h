/*
 * Emits to a client with shared memory. Completions in its control memory report the fate of its frames and return its slots.
 * See frame/channel.h.
 */
#ifndef FRAMED_SINK_COMPLETIONS_H
#define FRAMED_SINK_COMPLETIONS_H

#include "daemon/frame/channel.h"

enum completions_progress { COMPLETIONS_QUIET, COMPLETIONS_MOVED, COMPLETIONS_BROKEN };

/* Writes completions for results (`replies`) and for every other slot that is free again, in the order of frames. A dropped
 * frame does not wait for earlier frames that are still on their way. Then takes back the slots that the client consumed.
 * BROKEN: it claims to have consumed what it did not get. */
enum completions_progress completions_turn(struct channel *channel, int64_t now);
/* Rings the doorbell if the client sleeps and got completions since the last ring. Called late in the turn, so that the fence
 * has nothing to wait for. */
void completions_ring(struct channel *channel);
/* The client consumes nothing more: its completed results get this fate. */
void completions_abandon(struct channel *channel, enum fate fate, int64_t now);

#endif
