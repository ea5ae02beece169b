#include "daemon/sink/completions.h"

#include <string.h>

#include "daemon/base/doorbell.h"

enum { PATIENCE_NS = 1000, TRIED_ANEW = 64 /* number of completions */ };

/* -- completing -------------------------------------------------------------------------------------------------------- */

/* An idle slot is the client's, is completed, or must be completed now. True if there is one of the last kind. */
static bool has_news(const struct channel *channel) {
  const struct slot_queue *queues = channel->flow->ring.queues;
  unsigned idle = queues[SLOT_FREE].count;
  if (channel->replies) {
    idle += queues[SLOT_EMITTING].count + queues[SLOT_DONE].count;
  }
  return idle + channel_outstanding(channel) > channel->flow->ring.count;
}

/* The daemon's free slots: their frames were dropped or, if results go elsewhere, are done. Slots come back in any order; the
 * client gets them in the order of their frames. */
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

static void complete_slot(struct channel *channel, const struct slot *slot, enum fate fate, int64_t now) {
  struct native_completion completion = {.slot = slot->index, .fate = (uint32_t)fate};
  completion.result = frame_result(&slot->frame, channel->flow->seat, now);
  memcpy(&channel->control->completions[channel->completed % NATIVE_RING], &completion, sizeof completion);
  channel->completion_slots[channel->completed % NATIVE_RING] = (unsigned char)slot->index;
  channel->owners[slot->index] = CHANNEL_COMPLETED;
  channel->completed++;
  atomic_store_explicit(&channel->control->daemon.completed, channel->completed, memory_order_release);
}

/* Call only if has_news(). */
static void complete_all(struct channel *channel, int64_t now) {
  do {
    struct slot *back = oldest_free(channel);
    const struct slot *done = channel->replies ? slot_oldest(&channel->flow->ring, SLOT_DONE) : NULL;
    if (done && (!back || done->frame.sequence < back->frame.sequence)) {
      complete_slot(channel, flow_offer(channel->flow), FATE_EMITTED, now);
    } else if (back) {
      complete_slot(channel, back, back->frame.fate, now);
    }
  } while (has_news(channel));
  channel->ring_pending = true;
  bool sleeps = atomic_load_explicit(&channel->control->client.sleeps, memory_order_relaxed) != 0;
  channel->expects_answer = !sleeps && channel->flow->awaits_answers;
  if (sleeps) {
    completions_ring(channel);
  }
}

void completions_ring(struct channel *channel) {
  if (channel->ring_pending) {
    channel->ring_pending = !doorbell_ring(channel->control, channel->fd);
  }
}

/* A client that polls answers a result with its next frame faster than the lane can poll the device, which would delay that
 * frame. So the lane waits a moment. After each time without an answer it waits half as long, and from time to time the full
 * time again. */
static void await_answer(struct channel *channel) {
  int64_t patience = channel->completed % TRIED_ANEW == 0 ? PATIENCE_NS : channel->patience;
  bool answered = channel_has_submissions(channel);
  int64_t until = answered || patience == 0 ? 0 : clock_now() + patience;
  while (!answered && until > 0 && clock_now() < until) {
    answered = channel_has_submissions(channel);
  }
  channel->patience = answered ? PATIENCE_NS : patience / 2;
  channel->expects_answer = false;
}

/* -- taking slots back ------------------------------------------------------------------------------------------------- */

static void reclaim_slot(struct channel *channel, enum fate fate, int64_t now) {
  unsigned index = channel->completion_slots[channel->taken % NATIVE_RING];
  struct slot *slot = &channel->flow->ring.slots[index];
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

void completions_abandon(struct channel *channel, enum fate fate, int64_t now) {
  while (channel_has_unread(channel)) {
    reclaim_slot(channel, fate, now);
  }
}

enum completions_progress completions_turn(struct channel *channel, int64_t now) {
  enum completions_progress progress = COMPLETIONS_QUIET;
  if (has_news(channel)) {
    mark_set(channel->mark);
    complete_all(channel, now);
    mark_clear(channel->mark);
    progress = COMPLETIONS_MOVED;
  }
  if (channel->expects_answer) {
    await_answer(channel);
  }
  uint32_t taken = atomic_load_explicit(&channel->control->client.taken, memory_order_acquire);
  if (taken == channel->taken) {
    return progress;
  }
  if (taken - channel->taken > channel->completed - channel->taken) {
    return COMPLETIONS_BROKEN;
  }
  mark_set(channel->mark);
  while (channel->taken != taken) {
    reclaim_slot(channel, FATE_EMITTED, now);
  }
  mark_clear(channel->mark);
  return COMPLETIONS_MOVED;
}
