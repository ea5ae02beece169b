#include "daemon/frame/channel.h"

#include <string.h>

void channel_open(struct channel *channel, struct native_control *control, struct flow *flow, struct mark *mark, int fd,
                  bool replies, bool again) {
  if (!again) {
    memset(channel, 0, sizeof *channel);
  }
  channel->control = control;
  channel->flow = flow;
  channel->mark = mark;
  channel->fd = fd;
  channel->replies = replies;
  channel->asleep = again;       /* if the lane slept, the client may have seen it */
  channel->ring_pending = again; /* the previous process may not have rung */
}

bool channel_has_completion(const struct channel *channel, unsigned slot) {
  for (uint32_t at = channel->taken; at != channel->completed; at++) {
    if (channel->completion_slots[at % NATIVE_RING] == slot) {
      return true;
    }
  }
  return false;
}

/* A slot of the client's is FREE. A completed slot is FREE or holds a result, and has exactly one completion. */
static bool channel_is_sound(const struct channel *channel, const struct flow *flow, bool replies) {
  unsigned completed = 0, submitted = 0;
  for (unsigned i = 0; i < flow->ring.count; i++) {
    enum slot_state state = flow->ring.slots[i].state;
    enum channel_owner owner = channel->owners[i];
    completed += owner == CHANNEL_COMPLETED;
    submitted += owner == CHANNEL_DAEMON;
    if ((owner == CHANNEL_COMPLETED) != channel_has_completion(channel, i) || (owner == CHANNEL_CLIENT && state != SLOT_FREE) ||
        (owner == CHANNEL_COMPLETED && state != SLOT_FREE && (state != SLOT_EMITTING || !replies))) {
      return false;
    }
  }
  return channel->completed - channel->taken == completed && channel_outstanding(channel) == submitted;
}

bool channel_adopt(struct channel *channel, const struct channel *left, const struct flow *flow, bool replies) {
  for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
    if ((unsigned)left->owners[i] > CHANNEL_COMPLETED) {
      return false;
    }
  }
  channel->submitted = left->submitted;
  channel->completed = left->completed;
  channel->taken = left->taken;
  memcpy(channel->owners, left->owners, sizeof channel->owners);
  for (unsigned i = 0; i < NATIVE_RING; i++) {
    channel->completion_slots[i] = left->completion_slots[i] % GPU_MAX_SLOTS;
  }
  return channel->completed - channel->taken <= NATIVE_RING && channel_is_sound(channel, flow, replies);
}

void channel_adopt_none(struct channel *channel, const struct flow *flow) {
  for (unsigned i = 0; i < flow->ring.count; i++) {
    bool is_in = flow->ring.slots[i].state != SLOT_FREE;
    channel->owners[i] = is_in ? CHANNEL_DAEMON : CHANNEL_CLIENT;
    channel->submitted += is_in;
  }
}
