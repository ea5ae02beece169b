/*
 * A channel: the lane's record of the memory that a session shares with its client.
 *
 * Frames come in and results go out by changing the owner of a slot; the lane copies no byte of a frame. A slot belongs to the
 * client, to the daemon, or is `completed`: returned with a completion that the client has not consumed yet. source/shared.c
 * takes the client's submissions. sink/completions.c writes completions and takes back the slots that the client consumed.
 *
 * The client can write its half of the control memory, and all inputs, at any time, correctly or not. So the lane reads every
 * cursor and entry once and checks the copy. It keeps its own copy of all that it must trust. A hostile client can only spoil
 * its own frames and lose its session.
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
  struct mark *mark; /* of its source; set while cursors and slots do not agree */
  int fd;            /* the connection, for doorbells */
  bool replies;      /* role `both`: results stay in the slots */
  uint32_t submitted, completed, taken;
  enum channel_owner owners[GPU_MAX_SLOTS];
  unsigned char completion_slots[NATIVE_RING]; /* slot of each completion */
  bool asleep;                                 /* the client was asked to ring the doorbell */
  bool expects_answer;                         /* a completion was written in this turn, and the client may answer at once */
  int64_t patience;                            /* ns to wait for that answer */
  bool ring_pending;                           /* a completion was written, and the doorbell was not rung for it yet */
};

/* Starts a new client: all slots are the client's, the control memory is zero. With `again`, continues with a client of the
 * previous process, whose state channel_adopt() took. */
void channel_open(struct channel *channel, struct native_control *control, struct flow *flow, struct mark *mark, int fd,
                  bool replies, bool again);
/* Takes cursors and owners for a client of the previous process. Returns false if they are not valid. */
bool channel_adopt(struct channel *channel, const struct channel *left, const struct flow *flow, bool replies);
/* For a client that must leave, because nobody knows how much of its submissions was taken. Every used slot becomes the
 * daemon's. */
void channel_adopt_none(struct channel *channel, const struct flow *flow);
/* True if the slot has a completion that the client has not consumed. */
bool channel_has_completion(const struct channel *channel, unsigned slot);

/* Slots that the client submitted and that have no completion yet. */
static inline unsigned channel_outstanding(const struct channel *channel) { return channel->submitted - channel->completed; }

static inline bool channel_has_submissions(const struct channel *channel) {
  return atomic_load_explicit(&channel->control->client.submitted, memory_order_relaxed) != channel->submitted;
}

/* True if the client may have consumed a completion by now. */
static inline bool channel_has_unread(const struct channel *channel) { return channel->taken != channel->completed; }

#endif
