#include "daemon/source/channel.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/doorbell.h"
#include "daemon/frame/dispatch.h"
#include "daemon/measure/clock.h"
#include "daemon/wire/native.h"

enum { PATIENCE_NS = 1000, TRIED_ANEW = 64 /* completions */ };

void channel_open(struct channel *channel, struct native_control *control, struct flow *flow, struct receive *receive, int fd,
                  bool replies) {
  memset(channel, 0, sizeof *channel);
  channel->control = control;
  channel->flow = flow;
  channel->receive = receive;
  channel->fd = fd;
  channel->replies = replies;
}

void channel_open_again(struct channel *channel, struct native_control *control, struct flow *flow, struct receive *receive,
                        int fd, bool replies) {
  channel->control = control;
  channel->flow = flow;
  channel->receive = receive;
  channel->fd = fd;
  channel->replies = replies;
  channel->asleep = true;  /* if it was, the client may have seen it */
  channel->unheard = true; /* the image before may not have come through to it */
}

/* How many slots were submitted, and not told of since. */
static unsigned away(const struct channel *channel) { return channel->submitted - channel->completed; }

bool channel_has_told(const struct channel *channel, unsigned slot) {
  for (uint32_t at = channel->taken; at != channel->completed; at++) {
    if (channel->told[at % NATIVE_RING] == slot) {
      return true;
    }
  }
  return false;
}

/* A slot of the client's is free, one that it was told of is free or a result, and it was told of each once. */
static bool channel_is_sound(const struct channel *channel, const struct flow *flow, bool replies) {
  unsigned told = 0, submitted = 0;
  for (unsigned i = 0; i < flow->ring.count; i++) {
    enum slot_state state = flow->ring.slots[i].state;
    enum channel_owner owner = channel->owners[i];
    told += owner == CHANNEL_TOLD;
    submitted += owner == CHANNEL_DAEMON;
    if ((owner == CHANNEL_TOLD) != channel_has_told(channel, i) || (owner == CHANNEL_CLIENT && state != SLOT_FREE) ||
        (owner == CHANNEL_TOLD && state != SLOT_FREE && (state != SLOT_EMITTING || !replies))) {
      return false;
    }
  }
  return channel->completed - channel->taken == told && away(channel) == submitted;
}

bool channel_adopt(struct channel *channel, const struct channel *left, const struct flow *flow, bool replies) {
  for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
    if ((unsigned)left->owners[i] > CHANNEL_TOLD) {
      return false;
    }
  }
  channel->submitted = left->submitted;
  channel->completed = left->completed;
  channel->taken = left->taken;
  memcpy(channel->owners, left->owners, sizeof channel->owners);
  for (unsigned i = 0; i < NATIVE_RING; i++) {
    channel->told[i] = left->told[i] % GPU_MAX_SLOTS;
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

static struct slot *slot_of(struct channel *channel, unsigned index) { return &channel->flow->ring.slots[index]; }

static bool is_broken(struct channel *channel, const char *what, uint32_t number) {
  snprintf(channel->receive->problem, PROTOCOL_PROBLEM, "in shared memory it %s (%u)", what, number);
  return false;
}

/* -- what the client is done with ------------------------------------------------------------------------------------ */

static void channel_take_back(struct channel *channel, enum fate fate, int64_t now) {
  unsigned index = channel->told[channel->taken % NATIVE_RING];
  struct slot *slot = slot_of(channel, index);
  channel->taken++;
  channel->owners[index] = CHANNEL_CLIENT;
  if (slot->state == SLOT_EMITTING) {
    if (fate == FATE_EMITTED) {
      channel->flow->account->now.ledger.out_bytes += channel->flow->output_bytes;
    }
    flow_drop(channel->flow, slot, fate, now);
    channel->flow->active = now;
  }
}

static bool take_all_back(struct channel *channel, uint32_t taken, int64_t now) {
  if (taken - channel->taken > channel->completed - channel->taken) {
    return is_broken(channel, "took results that it was not given", taken);
  }
  while (channel->taken != taken) {
    channel_take_back(channel, FATE_EMITTED, now);
  }
  return true;
}

/* -- what it submitted ------------------------------------------------------------------------------------------------ */

static void channel_begin(struct channel *channel, struct slot *slot, const struct native_frame *stamp, int64_t now) {
  struct flow *flow = channel->flow;
  struct receive *receive = channel->receive;
  now = stamp->timestamp > now ? clock_now() : now; /* it may have been taken after this turn began */
  slot->frame = (struct frame){.sequence = receive->sequence++,
                               .producer = receive->producer,
                               .epoch = receive->epoch,
                               .restart = receive->restart,
                               .rate = receive->rate,
                               .began = stamp->timestamp != 0 ? stamp->timestamp : now,
                               .first_byte = now,
                               .complete = now,
                               .deadline = stamp->deadline,
                               .tag = stamp->sequence,
                               .flags = stamp->flags};
  account_open(flow->account, &slot->frame);
  flow->account->now.ledger.in_bytes += flow->input_bytes;
  slot_move(&flow->ring, slot, SLOT_FILLING);
  flow->active = now;
  if (stamp->timestamp > now || stamp->timestamp < 0 || stamp->deadline < 0) {
    slot->frame.began = now;
    flow_drop(flow, slot, FATE_INVALID, now);
    return;
  }
  receive->restart = false;
  histogram_record(&flow->account->steps[STEP_RECEIVE], 0);
  flow_ready(flow, slot, now);
}

static bool take_submission(struct channel *channel, int64_t now) {
  struct native_submission submission;
  memcpy(&submission, &channel->control->submissions[channel->submitted % NATIVE_RING], sizeof submission);
  atomic_signal_fence(memory_order_seq_cst); /* the compiler must not read there again what was checked here */
  if (submission.slot >= channel->flow->ring.count) {
    return is_broken(channel, "submitted a slot that does not exist", submission.slot);
  }
  if (channel->owners[submission.slot] != CHANNEL_CLIENT) {
    return is_broken(channel, "submitted a slot that is not its own", submission.slot);
  }
  if (submission.zero != 0 || submission.frame.zero != 0 || (submission.frame.flags & ~NATIVE_FRAME_FLAGS) != 0) {
    return is_broken(channel, "submitted what this version does not know, with slot", submission.slot);
  }
  channel->submitted++;
  channel->owners[submission.slot] = CHANNEL_DAEMON;
  channel_begin(channel, slot_of(channel, submission.slot), &submission.frame, now);
  return true;
}

static bool has_submissions(const struct channel *channel) {
  return atomic_load_explicit(&channel->control->client.submitted, memory_order_relaxed) != channel->submitted;
}

/* A client that polls answers a result with its next frame in less time than it takes to ask the device, which would keep that
 * frame waiting. For one that does not, it is waited less and less, and now and then as long again. */
static void await_answer(struct channel *channel) {
  int64_t patience = channel->completed % TRIED_ANEW == 0 ? PATIENCE_NS : channel->patience;
  bool answered = has_submissions(channel);
  int64_t until = answered || patience == 0 ? 0 : clock_now() + patience;
  while (!answered && until > 0 && clock_now() < until) {
    answered = has_submissions(channel);
  }
  channel->patience = answered ? PATIENCE_NS : patience / 2;
  channel->awaits = false;
}

bool channel_is_asked(struct channel *channel) {
  struct native_control *control = channel->control;
  if (channel->awaits) {
    await_answer(channel);
  }
  __builtin_prefetch(&control->submissions[channel->submitted % NATIVE_RING]); /* it comes along with its cursor */
  bool asked = has_submissions(channel) || atomic_load_explicit(&control->client.taken, memory_order_relaxed) != channel->taken;
  if (channel->asleep) {
    channel->asleep = false;
    atomic_store_explicit(&control->daemon.sleeps, 0, memory_order_relaxed);
  }
  return asked;
}

enum channel_progress channel_take(struct channel *channel, int64_t now) {
  struct native_control *control = channel->control;
  uint32_t before = channel->submitted + channel->taken;
  /* In this order: a client is done with a slot before it submits it again. */
  uint32_t submitted = atomic_load_explicit(&control->client.submitted, memory_order_acquire);
  uint32_t taken = atomic_load_explicit(&control->client.taken, memory_order_acquire);
  if (taken != channel->taken && !take_all_back(channel, taken, now)) {
    return CHANNEL_BROKEN;
  }
  if (submitted - channel->submitted > NATIVE_RING) {
    is_broken(channel, "submitted more frames than there are slots", submitted - channel->submitted);
    return CHANNEL_BROKEN;
  }
  while (channel->submitted != submitted && !channel->receive->held) {
    if (!take_submission(channel, now)) {
      return CHANNEL_BROKEN;
    }
    (void)dispatch_turn(channel->flow, now); /* it is on the device before the next one is looked at */
  }
  return channel->submitted + channel->taken != before ? CHANNEL_MOVED : CHANNEL_QUIET;
}

/* -- what it is told -------------------------------------------------------------------------------------------------- */

static void channel_tell(struct channel *channel, const struct slot *slot, enum fate fate, int64_t now) {
  struct native_completion completion = {.slot = slot->index, .fate = (uint32_t)fate};
  completion.result = frame_result(&slot->frame, channel->flow->seat, now);
  memcpy(&channel->control->completions[channel->completed % NATIVE_RING], &completion, sizeof completion);
  channel->told[channel->completed % NATIVE_RING] = (unsigned char)slot->index;
  channel->owners[slot->index] = CHANNEL_TOLD;
  channel->completed++;
  atomic_store_explicit(&channel->control->daemon.completed, channel->completed, memory_order_release);
}

/* Slots that are free, or have a result for the client, are its own, or it was told of them, or is to be told now. */
bool channel_has_news(const struct channel *channel) {
  const struct slot_ring *ring = &channel->flow->ring;
  unsigned idle = ring->queues[SLOT_FREE].count;
  if (channel->replies) {
    idle += ring->queues[SLOT_EMITTING].count + ring->queues[SLOT_DONE].count;
  }
  return idle + channel->submitted - channel->completed > ring->count;
}

/* Dropped on its way, or, where results go elsewhere, through. Slots come back in any order, and are told of in their frames'.
 */
static struct slot *oldest_free(struct channel *channel) {
  struct slot_ring *ring = &channel->flow->ring;
  struct slot *oldest = NULL;
  for (unsigned i = 0; i < ring->count; i++) {
    struct slot *slot = &ring->slots[i];
    bool is_back = channel->owners[i] == CHANNEL_DAEMON && slot->state == SLOT_FREE;
    oldest = is_back && (!oldest || slot->frame.sequence < oldest->frame.sequence) ? slot : oldest;
  }
  return oldest;
}

static void give_oldest(struct channel *channel, int64_t now) {
  struct slot *back = oldest_free(channel);
  const struct slot *done = channel->replies ? slot_oldest(&channel->flow->ring, SLOT_DONE) : NULL;
  if (done && (!back || done->frame.sequence < back->frame.sequence)) {
    channel_tell(channel, flow_offer(channel->flow), FATE_EMITTED, now);
  } else if (back) {
    channel_tell(channel, back, back->frame.fate, now);
  }
}

void channel_give(struct channel *channel, int64_t now) {
  while (channel_has_news(channel)) {
    give_oldest(channel, now);
    channel->unheard = true;
  }
  bool sleeps = atomic_load_explicit(&channel->control->client.sleeps, memory_order_relaxed) != 0;
  channel->awaits = !sleeps && channel->flow->asks_by_calls;
  if (sleeps) {
    channel_ring(channel);
  }
}

void channel_ring(struct channel *channel) {
  if (channel->unheard) {
    channel->unheard = !doorbell_ring(channel->control, channel->fd);
  }
}

void channel_abandon(struct channel *channel, enum fate fate, int64_t now) {
  while (channel->taken != channel->completed) {
    channel_take_back(channel, fate, now);
  }
}

/* -- sleeping --------------------------------------------------------------------------------------------------------- */

bool channel_may_sleep(struct channel *channel) {
  struct native_control *control = channel->control;
  channel->asleep = true;
  atomic_store_explicit(&control->daemon.sleeps, 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  return channel->receive->held || atomic_load_explicit(&control->client.submitted, memory_order_relaxed) == channel->submitted;
}

bool channel_is_starved(const struct channel *channel) { return away(channel) == channel->flow->ring.count; }

bool channel_is_held_up(const struct channel *channel) {
  uint32_t submitted = atomic_load_explicit(&channel->control->client.submitted, memory_order_acquire);
  return channel->receive->held && !channel->replies && submitted != channel->submitted;
}

bool channel_is_owed(const struct channel *channel) { return channel->taken != channel->completed; }
