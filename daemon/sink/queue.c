/*
 * The queue of results: what all kinds of sinks are built on, and the words that a sink sends to the control loop.
 *
 * A result comes in behind the others, gets its fate once, and leaves from the front once nobody needs its slot. A fate
 * stands in the result before the session can know of it.
 */
#include <assert.h>
#include <string.h>

#include "daemon/frame/relay.h"
#include "daemon/sink/results.h"

size_t result_prefix(const struct result *result, enum config_protocol protocol, const unsigned char **prefix) {
  if (protocol == CONFIG_PROTOCOL_NATIVE) {
    *prefix = result->native;
    return NATIVE_RESULT_BYTES;
  }
  *prefix = (const unsigned char *)Y4M_FRAME_LINE;
  return protocol == CONFIG_PROTOCOL_Y4M ? sizeof Y4M_FRAME_LINE - 1 : 0;
}

bool sink_has_slot(const struct sink *sink, const struct slot *slot) {
  for (uint64_t at = sink->first; at < sink->tail; at++) {
    if (sink->results[at % GPU_MAX_SLOTS].slot == slot) {
      return true;
    }
  }
  return false;
}

/* The result behind the others, not counted yet. */
static struct result *set_result(struct sink *sink, struct flow *flow, struct slot *slot, bool open, enum fate fate) {
  struct result *result = sink_result(sink, sink->tail);
  result->sink = sink;
  result->flow = flow;
  result->slot = slot;
  result->sequence = slot->frame.sequence;
  result->producer = slot->frame.producer;
  result->index = slot->index;
  result->seat = flow->seat;
  result->open = open;
  result->moved = false;
  result->fate = fate;
  result->end = 0;
  return result;
}

void sink_take_in(struct sink *sink, struct flow *flow, struct slot *slot) {
  assert(sink_count(sink) < GPU_MAX_SLOTS);
  struct result *result = set_result(sink, flow, slot, true, FATE_EMITTED);
  result->line_bytes = 0;
  if (sink->speaks_native) {
    struct native_result native = frame_result(&slot->frame, flow->seat, clock_now());
    native_write_result(&native, sink->result_bytes, result->native);
  }
  atomic_signal_fence(memory_order_seq_cst); /* the result is whole before it is in the queue */
  sink->tail++;
  sink->operations->offered(sink);
}

void sink_take_handed_over(struct sink *sink) {
  struct slot *slot;
  while (sink->relay && (slot = relay_take(sink->relay))) {
    sink_take_in(sink, sink->relay->flow, slot);
  }
}

void result_mark_again(struct result *result) {
  uint32_t flags;
  unsigned char *at = result->native + sizeof(struct native_header) + offsetof(struct native_result, flags);
  memcpy(&flags, at, sizeof flags);
  flags |= (flags & NATIVE_MARK) != 0 ? NATIVE_AGAIN : 0;
  memcpy(at, &flags, sizeof flags);
}

void result_settle(struct result *result, enum fate fate, int64_t now) {
  struct flow *flow = result->flow;
  assert(result->open);
  result->fate = fate;
  if (!flow->relay) {
    account_begin(flow->account, fate);
  }
  atomic_signal_fence(memory_order_seq_cst);
  result->open = false;
  if (flow->relay) {
    relay_settle(flow->relay, result->slot, fate, now);
    return;
  }
  result->slot->owed = false;
  flow_settle(flow, &result->slot->frame, fate, now);
  flow->wake(flow->session);
}

void result_release(struct result *result) {
  struct flow *flow = result->flow;
  struct slot *slot = result->slot;
  assert(!result->open);
  result->slot = NULL;
  if (flow->relay) {
    relay_release(flow->relay, slot);
    return;
  }
  flow_take_back(flow, slot, result->fate);
  flow->wake(flow->session);
}

void sink_release_first(struct sink *sink) {
  struct result *result = sink_result(sink, sink->first);
  assert(sink_count(sink) > 0);
  sink->first++;
  result_release(result);
}

/* -- words to the control loop ----------------------------------------------------------------------------------------- */

static void sink_deliver(struct message *message) {
  struct sink_notice *notice = (struct sink_notice *)message;
  struct sink *sink = notice->event.sink;
  struct sink_event event = notice->event; /* the receiver may free the reader or sink that the notice is embedded in */
  if (notice == &sink->room_notice) {
    atomic_store(&sink->room_posted, false);
  } else if (notice == &sink->trouble_notice) {
    atomic_store(&sink->trouble_posted, false);
  }
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
