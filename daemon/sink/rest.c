/*
 * The rest of a result whose slot is needed while slow readers are sending it.
 *
 * Under `drop` a slot that only slow readers hold returns to its session. Readers in the middle of its result move the
 * remaining bytes to buffers of their own. The frame stays without its slot, in a struct pending, until the last of these
 * readers is done or one has taken the whole result. It is the only kind of frame outside a slot, because its slot has another
 * frame by then. A sink under `drop` runs on its session's lane, so one thread uses slot and pending. Each reader contributes
 * one pending to the sink, and can be in one.
 *
 * A buffer has the size of a whole result, so their number is limited: the sink's `slow_readers`, or one for each reader if
 * those are fewer. A reader takes a buffer before it begins with a result and returns it after the result. If more readers are
 * slow than there are buffers, some miss whole results. A reader that holds a buffer and takes no byte at all is disconnected.
 */
#include <assert.h>
#include <string.h>

#include "daemon/sink/leases.h"
#include "daemon/sink/readers.h"

/* -- buffers ----------------------------------------------------------------------------------------------------------- */

bool readers_take_room(struct sink *sink, struct reader *reader) {
  if (sink->block || reader->room) {
    return true;
  }
  reader->room = sink->rooms.free;
  sink->rooms.wanted |= !reader->room;
  if (reader->room) {
    sink->rooms.free = reader->room->next;
    reader->stalled = 0;
  }
  return reader->room;
}

void readers_return_room(struct sink *sink, struct reader *reader) {
  if (!reader->room) {
    return;
  }
  reader->room->next = sink->rooms.free;
  sink->rooms.free = reader->room;
  reader->room = NULL;
  if (sink->rooms.wanted) {
    lane_schedule(&sink->runner);
  }
}

/* -- frames without a slot --------------------------------------------------------------------------------------------- */

void readers_drop_rest(struct sink *sink, struct reader *reader, bool taken, int64_t now) {
  struct pending *pending = reader->rest.of;
  reader->rest.at = reader->rest.end = 0;
  reader->rest.of = NULL;
  if (!pending) {
    return;
  }
  pending->holders--;
  if (taken || pending->holders == 0) {
    pending_settle(pending, taken ? FATE_EMITTED : FATE_UNREAD, now);
  }
  if (pending->holders == 0) {
    pending->next = sink->spares;
    sink->spares = pending;
  }
}

bool sink_is_sending(const struct sink *sink) {
  bool sending = sink_count(sink) > 0 || sink_has_leases(sink);
  for (const struct reader *reader = sink->readers; reader; reader = reader->next) {
    sending = sending || reader_has_rest(reader);
  }
  return sending;
}

/* -- freeing a slot ---------------------------------------------------------------------------------------------------- */

void reader_miss(struct reader *reader, uint64_t at) {
  READER_COUNT(reader->missed, 1U);
  reader->skipped += sink_result(reader->sink, at)->slot->frame.missing + 1;
}

/* The reader is in the middle of the oldest result: copies the bytes that it still needs to its buffer. */
static void keep_rest(struct sink *sink, struct reader *reader, struct result *result, struct pending *pending) {
  struct payload payload = result_payload(result);
  const unsigned char *prefix;
  size_t prefix_bytes = reader_prefix(reader, reader->at, &prefix);
  size_t prefix_left = reader->sent < prefix_bytes ? prefix_bytes - reader->sent : 0;
  size_t payload_at = reader->sent + prefix_left - prefix_bytes;
  memcpy(reader->room->bytes, prefix + (prefix_bytes - prefix_left), prefix_left);
  memcpy(reader->room->bytes + prefix_left, payload.bytes + payload_at, payload.count - payload_at);
  reader->rest.at = 0;
  reader->rest.end = prefix_left + payload.count - payload_at;
  reader->rest.of = pending;
  if (pending) {
    pending->holders++;
  }
  reader->sent = 0;
  reader->skipped = 0;
  for (uint64_t at = reader->at + 1; at < sink->tail; at++) {
    reader_miss(reader, at); /* it also misses the results that follow in the queue */
  }
}

/* Moves the frame of a result out of its slot. */
static struct pending *take_over(struct sink *sink, struct result *result) {
  struct pending *pending = sink->spares;
  assert(pending);
  sink->spares = pending->next;
  *pending = (struct pending){.flow = result->flow, .seat = result->seat, .frame = result->slot->frame};
  pending->frame.open = true;
  result->state = RESULT_MOVED;
  atomic_signal_fence(memory_order_seq_cst); /* a takeover would settle a frame that is in neither of the two */
  result->slot->awaits_fate = false;
  return pending;
}

bool readers_reclaim(struct sink *sink, int64_t now) {
  struct result *result = sink_result(sink, sink->first);
  struct pending *pending = NULL;
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader_has_rest(reader) || reader->at != sink->first) {
      continue;
    }
    mark_set(&reader->mark);
    if (reader->sent == 0) {
      reader_miss(reader, reader->at++);
    } else {
      pending = result->state == RESULT_OPEN ? take_over(sink, result) : pending;
      keep_rest(sink, reader, result, pending);
    }
    mark_clear(&reader->mark);
  }
  sink_release(sink, now);
  return true;
}

uint64_t readers_discard(struct sink *sink, enum fate fate, int64_t now) {
  leases_discard(sink, fate, now);
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader->rest.of) {
      pending_settle(reader->rest.of, fate, now);
    }
    reader->at = sink->tail;
    reader->sent = 0;
    if (!reader_has_rest(reader)) {
      readers_return_room(sink, reader);
    }
  }
  return sink->first;
}
