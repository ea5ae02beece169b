/*
 * The queue of results: what all kinds of sinks are built on, and the words that a sink sends to the control loop.
 *
 * A result comes in behind the others, gets its fate once, and leaves from the front once nobody needs its slot. Fates and
 * departures are noted before the session can know of them (see checkpoint.c).
 */
#include <assert.h>

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
  for (uint64_t at = sink->first; at < sink_tail(sink); at++) {
    if (sink->results[at % GPU_MAX_SLOTS].slot == slot) {
      return true;
    }
  }
  return false;
}

void sink_take_in(struct sink *sink, struct flow *flow, struct slot *slot, const struct frame *frame) {
  assert(sink->count < GPU_MAX_SLOTS);
  struct result *result = sink_result(sink, sink_tail(sink));
  result->sink = sink;
  result->flow = flow;
  result->slot = slot;
  result->index = slot->index;
  result->moved = false;
  result->frame = *frame;
  sink->unnoted = true;
  if (sink->speaks_native) {
    struct native_result native = frame_result(frame, flow->seat, clock_now());
    native_write_result(&native, sink->result_bytes, result->native);
  }
  sink->count++;
  sink->operations->offered(sink);
}

void sink_take_handed_over(struct sink *sink) {
  struct slot *slot;
  struct frame frame;
  while (sink->relay && relay_take(sink->relay, &slot, &frame)) {
    sink_take_in(sink, sink->relay->flow, slot, &frame);
  }
}

void result_settle(struct result *result, enum fate fate, int64_t now) {
  struct flow *flow = result->flow;
  struct sink *sink = result->sink;
  sink->unnoted = true;
  if (flow->relay) {
    result->frame.open = false;
    result->frame.fate = fate;
    sink_checkpoint(sink); /* before the session knows */
    relay_settle(flow->relay, result->slot, fate, now);
    return;
  }
  if (result->slot) {
    result->slot->owed = false;
  }
  flow_settle(flow, &result->frame, fate, now);
  flow->wake(flow->session);
}

void result_release(const struct result *result) {
  struct flow *flow = result->flow;
  assert(!result->frame.open);
  if (flow->relay) {
    relay_release(flow->relay, result->slot);
    return;
  }
  flow_take_back(flow, result->slot, result->frame.fate);
  flow->wake(flow->session);
}

void sink_release_first(struct sink *sink) {
  struct result *result = sink_result(sink, sink->first);
  const struct result released = *result;
  assert(sink->count > 0);
  result->slot = NULL;
  sink->first++;
  sink->count--;
  sink->unnoted = true;
  sink_checkpoint(sink); /* before anything else comes into that slot */
  result_release(&released);
}

/* -- words to the control loop ----------------------------------------------------------------------------------------- */

static void deliver(struct message *message) {
  struct sink_notice *notice = (struct sink_notice *)message;
  struct sink *sink = notice->event.sink;
  struct sink_event event = notice->event; /* the receiver may free what the notice is embedded in */
  if (notice == &sink->trouble_notice) {
    atomic_store(&sink->trouble_posted, false);
  }
  sink->listener(sink->context, &event);
}

void sink_post(struct sink *sink, struct sink_notice *notice) {
  notice->message.run = deliver;
  notice->event.sink = sink;
  mailbox_post(sink->control, &notice->message);
}

void sink_stopped(struct sink *sink) {
  lane_leave(&sink->runner);
  sink->stopped_notice.event = (struct sink_event){.kind = SINK_STOPPED};
  sink_post(sink, &sink->stopped_notice);
}
