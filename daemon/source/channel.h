/*
 * A channel: the lane's end of the memory that a session shares with its client. Frames come in and results go out by
 * moving the ownership of slots; no byte of a frame passes through the lane.
 *
 * The client can write its half of the control memory and all of the inputs at any time, rightly or not. So every cursor and
 * entry is read once and checked, what the daemon must be able to trust is kept here and not there, and the worst that a client
 * can do is to spoil its own frames and lose its session. A slot is the client's, or the daemon's, or told: given back with a
 * completion that the client is not done with yet.
 */
#ifndef FRAMED_SOURCE_CHANNEL_H
#define FRAMED_SOURCE_CHANNEL_H

#include "daemon/frame/receive.h"
#include "daemon/wire/native_wire.h"

enum channel_owner { CHANNEL_CLIENT, CHANNEL_DAEMON, CHANNEL_TOLD };

struct channel {
  struct native_control *control;
  struct flow *flow;
  struct receive *receive; /* numbers the frames, and says whether any may begin */
  int fd;                  /* the connection, for doorbells */
  bool replies;            /* the role `both`: results are left in the slots */
  uint32_t submitted, completed, taken;
  enum channel_owner owners[GPU_MAX_SLOTS];
  unsigned char told[NATIVE_RING]; /* slot of each completion */
  bool asleep;
  bool awaits;      /* it was told of something in this turn, and may answer at once */
  int64_t patience; /* ns, for that */
  bool unheard;     /* the client may sleep, and was not rung for what it was told since */
};

enum channel_progress { CHANNEL_QUIET, CHANNEL_MOVED, CHANNEL_BROKEN };

/* Begins with all slots the client's; the control memory is all zero. */
void channel_open(struct channel *channel, struct native_control *control, struct flow *flow, struct receive *receive, int fd,
                  bool replies);
/* Takes cursors and owners for a client that a process before this one served. False: they make no sense. */
bool channel_adopt(struct channel *channel, const struct channel *left, const struct flow *flow, bool replies);
/* The client is to be let go of, since nobody knows how much of what it submitted was taken: whatever is in a slot is the
 * daemon's. */
void channel_adopt_none(struct channel *channel, const struct flow *flow);
/* Whether the client was told of that slot, and is not done with it. */
bool channel_has_told(const struct channel *channel, unsigned slot);
/* The same as channel_open() for a client that another process served. */
void channel_open_again(struct channel *channel, struct native_control *control, struct flow *flow, struct receive *receive,
                        int fd, bool replies);
/* Whether the client submitted anything, or is done with anything. */
bool channel_is_asked(struct channel *channel);
/* Takes what that is. BROKEN: `receive->problem` says what it did. */
enum channel_progress channel_take(struct channel *channel, int64_t now);
/* Whether the client is to be told of anything. */
bool channel_has_news(const struct channel *channel);
/* Tells the client of results (`replies`), and of every other slot that is free again, in the order of their frames; one that
 * was dropped does not wait for those before it that are on their way. Rings if the client is seen to sleep; one that goes to
 * sleep just then is rung for by channel_ring(), later in the turn, when its fence has nothing to wait for. */
void channel_give(struct channel *channel, int64_t now);
void channel_ring(struct channel *channel);
/* The client will take nothing more: what it was told gets this fate. */
void channel_abandon(struct channel *channel, enum fate fate, int64_t now);
/* Whether the lane may go without a turn until the client rings; the client is told so. */
bool channel_may_sleep(struct channel *channel);
/* The client has no slot to put a frame in. */
bool channel_is_starved(const struct channel *channel);
/* The client submitted frames that are not taken while the session is held, and that would count even if it left. */
bool channel_is_held_up(const struct channel *channel);
/* The client was told of something that it may be done with by now. */
bool channel_is_owed(const struct channel *channel);

#endif
