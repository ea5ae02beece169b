/*
 * The queue of results, common to every kind of sink, and the notices of a sink to the control loop.
 *
 * It has all of the end of a frame's way. A result enters at the tail. After the last byte of it was sent to a reader or
 * written to the file, result_settle() sets the fate of its frame. sink_release() decides which results nobody needs any more,
 * and result_release() frees their slots; no other function does. The fate is stored in the result before the session can see
 * it.
 */
#include <assert.h>
#include <string.h>

#include "daemon/frame/relay.h"
#include "daemon/sink/leases.h"

bool sink_has_slot(const struct sink *sink, const struct slot *slot) {
  for (uint64_t at = sink->first; at < sink->tail; at++) {
    if (sink->results[at % GPU_MAX_SLOTS].slot == slot) {
      return true;
    }
  }
  return false;
}

void sink_take_in(struct sink *sink, struct flow *flow, struct slot *slot) {
  assert(sink_count(sink) < GPU_MAX_SLOTS);
  struct result *result = sink_result(sink, sink->tail);
  result->sink = sink;
  result->flow = flow;
  result->slot = slot;
  result->sequence = slot->frame.sequence;
  result->producer = slot->frame.producer;
  result->index = slot->index;
  result->seat = flow->seat;
  result->state = RESULT_OPEN;
  result->fate = FATE_EMITTED;
  result->end = 0;
  result->line_bytes = 0;
  if (sink->speaks_native) {
    struct native_result native = frame_result(&slot->frame, flow->seat, clock_now());
    native_write_result(&native, sink->result_bytes, result->native);
  }
  atomic_signal_fence(memory_order_seq_cst); /* the result must be complete before it is in the queue */
  sink->tail++;
  sink->operations->offered(sink);
}

void sink_take_handed_over(struct sink *sink) {
  struct slot *slot;
  while (sink->relay && (slot = relay_take(sink->relay))) {
    sink_take_in(sink, sink->relay->flow, slot);
  }
}

/* -- the end of the way: from the last byte sent to the slot FREE ----------------------------------------------------- */

void result_settle(struct result *result, enum fate fate, int64_t now) {
  struct flow *flow = result->flow;
  assert(result->state == RESULT_OPEN);
  result->fate = fate;
  if (!flow->relay) {
    account_begin(flow->account, fate);
  }
  atomic_signal_fence(memory_order_seq_cst);
  result->state = RESULT_SETTLED;
  if (flow->relay) {
    relay_settle(flow->relay, result->slot, fate, now);
    return;
  }
  result->slot->awaits_fate = false;
  flow_settle(flow, &result->slot->frame, fate, now);
  flow->wake(flow->session);
}

void pending_settle(struct pending *pending, enum fate fate, int64_t now) {
  if (pending->frame.open) {
    account_begin(pending->flow->account, fate);
    pending->frame.open = false;
    flow_settle(pending->flow, &pending->frame, fate, now);
    pending->flow->wake(pending->flow->session);
  }
}

void result_release(struct sink *sink, struct result *result, enum fate fate, int64_t now) {
  struct flow *flow = result->flow;
  struct slot *slot = result->slot;
  if (result->state == RESULT_OPEN) {
    result_settle(result, fate, now);
  }
  if (result == sink_result(sink, sink->first)) { /* otherwise it was set aside */
    sink->first++;
  }
  result->slot = NULL;
  if (flow->relay) {
    relay_release(flow->relay, slot);
    return;
  }
  flow_release(flow, slot, result->fate);
  flow->wake(flow->session);
}

/* `drop`: removes the first result from the queue while readers keep leases of its slot. */
static void set_aside(struct sink *sink) {
  struct result *result = sink_result(sink, sink->first);
  unsigned index = result->slot->index;
  assert(!sink->block && !sink->leases.aside[index].slot);
  sink->leases.order[index] = sink->first;
  atomic_signal_fence(memory_order_seq_cst); /* while both copies exist, the one in the queue is valid */
  sink->leases.aside[index] = *result;
  result->slot = NULL;
  atomic_signal_fence(memory_order_seq_cst);
  sink->first++;
}

void sink_release(struct sink *sink, int64_t now) {
  uint64_t needed = sink->tail; /* the oldest result that a reader needs; one that sends a rest needs none */
  for (const struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (!reader_has_rest(reader) && reader->at < needed) {
      needed = reader->at;
    }
  }
  while (sink->first < needed) {
    struct result *result = sink_result(sink, sink->first);
    bool is_leased = leases_has(sink, result);
    if ((result->state == RESULT_OPEN || is_leased) && sink->block) {
      return; /* the result waits for a reader or for the file */
    }
    if (is_leased) {
      set_aside(sink);
    } else {
      result_release(sink, result, FATE_UNREAD, now);
    }
  }
}

void sink_discard_all(struct sink *sink, enum fate fate, int64_t now) {
  for (uint64_t at = sink->operations->discard(sink, fate, now); at < sink->tail; at++) {
    if (sink_result(sink, at)->state == RESULT_OPEN) {
      result_settle(sink_result(sink, at), fate, now);
    }
  }
  sink_release(sink, now);
}

/* -- notices to the control loop ----------------------------------------------------------------------------------------- */

static void sink_deliver(struct message *message) {
  struct sink_notice *notice = (struct sink_notice *)message;
  struct sink *sink = notice->event.sink;
  struct sink_event event = notice->event; /* a copy, because the receiver may free the reader or sink that embeds the notice */
  atomic_store(&notice->posted, false);
  sink->listener(sink->context, &event);
}

void sink_post(struct sink *sink, struct sink_notice *notice) {
  notice->message.run = sink_deliver;
  notice->event.sink = sink;
  mailbox_post(sink->control, &notice->message);
}

void sink_stopped(struct sink *sink) {
  lane_leave(&sink->runner);
  sink->stopped_notice.event = (struct sink_event){.kind = SINK_STOPPED};
  sink_post(sink, &sink->stopped_notice);
}

int64_t sink_asked(const struct sink *sink) { return atomic_load_explicit(&sink->runner.asked, memory_order_relaxed); }
