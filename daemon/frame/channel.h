/*
 * A channel: the memory that a session shares with its client, as the lane keeps its books.
 *
 * Frames come in and results go out by moving the ownership of slots; no byte of a frame passes through the lane. A slot is the
 * client's, or the daemon's, or told: given back with a completion that the client is not done with yet. Receive takes what the
 * client submits (source/shared.c); emit tells it what became of that, and takes back what it is done with
 * (sink/completions.c).
 *
 * The client can write its half of the control memory and all of the inputs at any time, rightly or not. So every cursor and
 * entry is read once and checked, what the daemon must be able to trust is kept here and not there, and the worst that a client
 * can do is to spoil its own frames and lose its session.
 */
#ifndef FRAMED_FRAME_CHANNEL_H
#define FRAMED_FRAME_CHANNEL_H

#include "daemon/frame/flow.h"
#include "daemon/state/image.h"
#include "daemon/wire/native_wire.h"

enum channel_owner { CHANNEL_CLIENT, CHANNEL_DAEMON, CHANNEL_COMPLETED };

struct channel {
  struct native_control *control;
  struct flow *flow;
  struct mark *mark; /* of its source: set while cursors and slots do not agree */
  int fd;            /* the connection, for doorbells */
  bool replies;      /* the role `both`: results are left in the slots */
  uint32_t submitted, completed, taken;
  enum channel_owner owners[GPU_MAX_SLOTS];
  unsigned char completion_slots[NATIVE_RING]; /* slot of each completion */
  bool asleep;                     /* the client was told to ring */
  bool expects_answer;                     /* it was told of something in this turn, and may answer at once */
  int64_t patience;                /* ns, for that */
  bool ring_pending;                    /* the client may sleep, and was not rung for what it was told since */
};

/* Begins with all slots the client's and control memory that is all zero; or goes on (`again`) with a client that a process
 * before this one served, from what channel_adopt() took. */
void channel_open(struct channel *channel, struct native_control *control, struct flow *flow, struct mark *mark, int fd,
                  bool replies, bool again);
/* Takes cursors and owners for a client that a process before this one served. False: they make no sense. */
bool channel_adopt(struct channel *channel, const struct channel *left, const struct flow *flow, bool replies);
/* The client is to be let go of, since nobody knows how much of what it submitted was taken: whatever is in a slot is the
 * daemon's. */
void channel_adopt_none(struct channel *channel, const struct flow *flow);
/* Whether the client was told of that slot, and is not done with it. */
bool channel_has_completion(const struct channel *channel, unsigned slot);

/* How many slots the client submitted, and was not told of since. */
static inline unsigned channel_outstanding(const struct channel *channel) { return channel->submitted - channel->completed; }

static inline bool channel_has_submissions(const struct channel *channel) {
  return atomic_load_explicit(&channel->control->client.submitted, memory_order_relaxed) != channel->submitted;
}

/* The client was told of something that it may be done with by now. */
static inline bool channel_has_unread(const struct channel *channel) { return channel->taken != channel->completed; }

#endif
