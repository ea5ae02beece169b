/*
 * Emit to a client with shared memory: completions in its control memory say what became of its frames, and give it its slots
 * back. See frame/channel.h.
 */
#ifndef FRAMED_SINK_COMPLETIONS_H
#define FRAMED_SINK_COMPLETIONS_H

#include "daemon/frame/channel.h"

enum completions_progress { COMPLETIONS_QUIET, COMPLETIONS_MOVED, COMPLETIONS_BROKEN };

/* Tells the client of results (`replies`), and of every other slot that is free again, in the order of their frames; one that
 * was dropped does not wait for those before it that are on their way. Then takes back what the client is done with. BROKEN: it
 * says so of what it was not given. */
enum completions_progress completions_turn(struct channel *channel, int64_t now);
/* Rings if the client sleeps and was told of anything since it was rung last. Late in the turn, when the fence has nothing to
 * wait for. */
void completions_ring(struct channel *channel);
/* The client will take nothing more: what it was told of gets this fate. */
void completions_abandon(struct channel *channel, enum fate fate, int64_t now);

#endif
