/*
 * A producer with shared memory: frames come in without a copy and, while both sides are busy, without a system call.
 *
 * Problem. A socket carries at most a few GB/s per connection, because every byte is copied twice (5.7 GB/s measured; the PCIe
 * link carries 50). The client should write its frames into the memory that the device reads. But the client is not trusted,
 * and it may be killed, or stop, at any instruction.
 *
 * Idea. The daemon makes the memory and sends the client descriptors of the inputs, of the outputs (read-only) and of a control
 * page (wire/native_wire.h). The control page has two rings with cursors. The client writes a submission for a slot with a
 * complete frame and advances `client.submitted`. The daemon writes a completion for a slot and advances `daemon.completed`.
 * The client advances `client.taken` for each completion it consumed. frame/channel.h records the owner of each slot. The
 * connection carries only doorbells and the end of the client.
 *
 * Sleeping. A side that wants to sleep sets its `sleeps` word, puts a fence, and looks at the other side's cursor once more.
 * The other side moves its cursor, puts a fence, and looks at the word. So one of the two always sees the other, and a doorbell
 * is written only to a side that sleeps.
 *
 * Invariants.
 * - Each cursor and entry is read once, copied, and the copy is checked. Trusted values are in struct channel, which the
 *   client cannot write.
 * - The memory is sealed against shrinking, so no access can fault. A client that punches a hole reads zeros in its own
 *   frames.
 * - A submission for a slot that is not the client's ends the client. Its completion may be consumed but not processed yet;
 *   then the submission waits.
 * - Submissions that were made before the client ended still count. While its session is paused, such a client keeps its
 *   session until they are taken.
 * - The source's mark is set while cursors and slots may differ, so after a kill the next process knows whether it can
 *   continue (session/adopt.c).
 *
 * Pinning memory that the client made was rejected: a client could truncate it, and each access would raise SIGBUS.
 */
#include <errno.h>
#include <string.h>

#include "daemon/base/doorbell.h"
#include "daemon/frame/channel.h"
#include "daemon/source/private.h"

/* libuv stops polling at an error, but bytes may precede the end that it reports. */
static void on_shared_ready(uv_poll_t *poll, int status, int events) {
  struct source *source = poll->data;
  (void)events;
  if (source->state != SOURCE_OPEN) {
    uv_poll_stop(poll); /* its end was read already, and would be reported again and again */
  } else if (status < 0) {
    uv_poll_start(poll, UV_READABLE, on_shared_ready);
  }
  source->readable = true;
  lane_schedule(source->runner);
}

static void shared_open(struct source *source, struct lane *lane) {
  source->poll.data = source;
  source->readable = false;
  int error = uv_poll_init(lane_loop(lane), &source->poll, source->fd);
  if (error != 0) {
    source->poll.data = NULL;
  } else {
    error = uv_poll_start(&source->poll, UV_READABLE, on_shared_ready);
  }
  if (error != 0) {
    source_end(source, DETACH_ERROR, "cannot wait for it: %s", uv_strerror(error));
  }
}

/* -- submissions ------------------------------------------------------------------------------------------------------- */

static bool is_broken(struct source *source, const char *what, uint32_t number) {
  source_end(source, DETACH_MALFORMED, "in shared memory it %s (%u)", what, number);
  return false;
}

/* Takes one submission. Returns false if the client broke the protocol, which ends it, or if the slot must be taken back first.
 * A client consumes a completion before it submits the slot again. So reading `taken` after `submitted` shows that. */
static bool take_submission(struct source *source, int64_t now) {
  struct channel *channel = source->channel;
  struct native_submission submission;
  memcpy(&submission, &channel->control->submissions[channel->submitted % NATIVE_RING], sizeof submission);
  atomic_signal_fence(memory_order_seq_cst); /* stops the compiler from reading the checked entry again */
  const struct native_frame *frame = &submission.frame;
  if (submission.slot >= channel->flow->ring.count) {
    return is_broken(source, "submitted a slot that does not exist", submission.slot);
  }
  const enum channel_owner owner = channel->owners[submission.slot];
  if (owner != CHANNEL_CLIENT) {
    uint32_t taken = atomic_load_explicit(&channel->control->client.taken, memory_order_acquire);
    bool is_back = owner == CHANNEL_COMPLETED && taken != channel->taken;
    return is_back ? false : is_broken(source, "submitted a slot that is not its own", submission.slot);
  }
  if (submission.zero != 0 || frame->zero != 0 || (frame->flags & ~NATIVE_FRAME_FLAGS) != 0) {
    return is_broken(source, "submitted what this version does not know, with slot", submission.slot);
  }
  channel->submitted++;
  channel->owners[submission.slot] = CHANNEL_DAEMON;
  receive_whole(source->receive, &channel->flow->ring.slots[submission.slot], frame, now);
  return true;
}

static void take_submissions(struct source *source, uint32_t submitted, int64_t now) {
  struct channel *channel = source->channel;
  if (submitted - channel->submitted > NATIVE_RING) {
    is_broken(source, "submitted more frames than there are slots", submitted - channel->submitted);
    return;
  }
  mark_set(&source->mark);
  while (channel->submitted != submitted && !source->receive->held && take_submission(source, now)) {
  }
  mark_clear(&source->mark);
}

/* -- turns ------------------------------------------------------------------------------------------------------------- */

/* True while the session is paused and the client has submissions that are not taken. They count even if it leaves. */
static bool is_held_up(const struct source *source) {
  return source->receive->held && !source->channel->replies && channel_has_submissions(source->channel);
}

static enum doorbell_input read_doorbells(struct source *source) {
  int error = uv_is_active((uv_handle_t *)&source->poll) ? 0 : uv_poll_start(&source->poll, UV_READABLE, on_shared_ready);
  if (error != 0) {
    source_end(source, DETACH_ERROR, "cannot wait for it: %s", uv_strerror(error));
    return DOORBELL_NOTHING;
  }
  enum doorbell_input input = doorbell_read(source->fd);
  source->readable = input == DOORBELL_MORE;
  if (input == DOORBELL_NONSENSE) {
    source_end(source, DETACH_MALFORMED, "%s", DOORBELL_COMPLAINT);
  } else if (input == DOORBELL_ERROR) {
    source_end(source, DETACH_ERROR, "reading failed: %s", strerror(errno));
  }
  return input;
}

static bool shared_turn(struct source *source, int64_t now) {
  struct channel *channel = source->channel;
  const bool rang = source->readable && !is_held_up(source);
  if (source->readable && !rang) {
    uv_poll_stop(&source->poll); /* until the session resumes, which requests a turn */
  }
  const enum doorbell_input input = rang ? read_doorbells(source) : DOORBELL_NOTHING;
  if (source->state != SOURCE_OPEN) {
    return true;
  }
  const uint32_t before = channel->submitted;
  __builtin_prefetch(&channel->control->submissions[before % NATIVE_RING]); /* the entry is loaded together with its cursor */
  const uint32_t submitted = atomic_load_explicit(&channel->control->client.submitted, memory_order_acquire);
  if (channel->asleep) {
    channel->asleep = false;
    atomic_store_explicit(&channel->control->daemon.sleeps, 0, memory_order_relaxed);
  }
  if (submitted != before) {
    take_submissions(source, submitted, now);
  }
  if (input == DOORBELL_GONE && source->state == SOURCE_OPEN) {
    source->readable = !source->receive->held && channel->submitted != submitted; /* read the end once more after that */
    if (!source->readable) {
      source_end(source, DETACH_END, "%s", "");
    }
  }
  return rang || channel->submitted != before || source->state != SOURCE_OPEN;
}

bool source_may_sleep(struct source *source) {
  if (source->state != SOURCE_OPEN || source->kind != DESCRIPTOR_SHARED) {
    return true;
  }
  struct channel *channel = source->channel;
  channel->asleep = true;
  atomic_store_explicit(&channel->control->daemon.sleeps, 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  return source->receive->held || !channel_has_submissions(channel);
}

const struct source_operations source_shared_operations = {
    .open = shared_open, .turn = shared_turn, .close = source_close_poll};
