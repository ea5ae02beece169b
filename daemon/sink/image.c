/*
 * A sink and its readers over a tape: what has been written of which result, so that the next image of the program goes on at
 * the byte where this one stopped. While this runs no lane does.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/frame/relay.h"
#include "daemon/sink/shared.h"

/* -- results ------------------------------------------------------------------------------------------------------- */

bool sink_has_slot(const struct sink *sink, const struct slot *slot) {
  for (uint64_t at = sink->first; at < sink_tail(sink); at++) {
    if (sink->results[at % GPU_MAX_SLOTS].slot == slot) {
      return true;
    }
  }
  return false;
}

/* The session's part of a result: its slot is EMITTING, and its frame is in flight at the sink if it has no fate. */
static void restore_result(struct sink *sink, struct result *result, struct road *road, unsigned index, struct tape *tape) {
  if (!road || index >= road->ring.count || road->ring.slots[index].state != SLOT_EMITTING ||
      sink_has_slot(sink, &road->ring.slots[index])) {
    tape_break(tape);
    return;
  }
  result->sink = sink;
  result->road = road;
  result->slot = &road->ring.slots[index];
  result->index = index;
  result->slot->frame.open = false;
  result->slot->owed = result->frame.open;
  road->at_sink += result->frame.open;
  if (road->handoff) {
    handoff_restore(road->handoff, result->slot, &result->frame);
  }
}

static void pass_result(struct sink *sink, struct result *result, struct tape *tape, sink_road *road, void *context) {
  unsigned seat = tape->writing ? result->road->seat : 0;
  unsigned index = tape->writing ? result->slot->index : 0;
  TAPE_PASS(tape, seat);
  TAPE_PASS(tape, index);
  frame_pass(&result->frame, tape);
  TAPE_PASS(tape, result->native);
  if (!tape->writing && !tape->broken) {
    restore_result(sink, result, road(context, seat), index, tape);
  }
}

/* There may have been a tape before that nobody took. */
static void forget_tape(const struct sink *sink) {
  for (const struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader->rest_of) {
      reader->rest_of->on_tape = NULL;
    }
  }
}

void sink_pass(struct sink *sink, struct tape *tape, sink_road *road, void *context) {
  shared_recall(sink);
  unsigned count = sink->count;
  forget_tape(sink);
  TAPE_PASS(tape, sink->first);
  sink->base = tape->writing ? sink->base : sink->first;
  tape_pass_below(tape, &count, GPU_MAX_SLOTS + 1);
  for (unsigned i = 0; i < count && !tape->broken; i++) {
    pass_result(sink, sink_result(sink, sink->first + i), tape, road, context);
    sink->count = tape->writing ? count : i + 1;
  }
  tape_pass_time(tape, &sink->position); /* in bytes, with the same bounds */
  TAPE_PASS(tape, sink->placed);
  TAPE_PASS(tape, sink->written);
  TAPE_PASS(tape, sink->torn);
  TAPE_PASS(tape, sink->lost);
  if (tape->broken && !tape->writing) {
    sink->count = 0; /* none of it is used */
  } else if (!tape->writing) {
    sink->unnoted = true;
    sink_note(sink);
  }
}

/* -- readers ------------------------------------------------------------------------------------------------------- */

/* Of several readers that hold the rest of one open frame, the first one on the tape speaks for it. */
static void put_rest_frame(struct reader *reader, struct tape *tape) {
  struct pending *pending = reader->rest_of;
  bool open = pending && pending->frame.open && pending->on_tape != tape;
  TAPE_PASS(tape, open);
  if (!pending || !open) {
    return;
  }
  TAPE_PASS(tape, pending->road->seat);
  frame_pass(&pending->frame, tape);
  pending->on_tape = tape;
}

static void take_rest_frame(struct reader *reader, struct tape *tape, sink_road *road, void *context) {
  bool open = false;
  unsigned seat = 0;
  struct frame frame = {0};
  TAPE_PASS(tape, open);
  if (!open || tape->broken) {
    return;
  }
  TAPE_PASS(tape, seat);
  frame_pass(&frame, tape);
  struct road *of = tape->broken ? NULL : road(context, seat);
  if (!of || !reader->spare || !frame.open || reader->rest_at == reader->rest_end) {
    tape_break(tape);
    return;
  }
  *reader->spare = (struct pending){.road = of, .frame = frame, .holders = 1};
  reader->rest_of = reader->spare;
  reader->spare = NULL;
  of->at_sink++;
}

static void pass_counts(struct reader *reader, struct tape *tape) {
  uint64_t emitted = atomic_load(&reader->emitted), missed = atomic_load(&reader->missed);
  TAPE_PASS(tape, emitted);
  TAPE_PASS(tape, missed);
  atomic_store(&reader->emitted, emitted);
  atomic_store(&reader->missed, missed);
}

static void pass_header(struct reader *reader, struct tape *tape) {
  unsigned protocol = reader->protocol, bytes = (unsigned)reader->header_bytes, at = (unsigned)reader->header_at;
  tape_pass_below(tape, &protocol, CONFIG_PROTOCOL_AUTO + 1);
  tape_pass_below(tape, &bytes, Y4M_HEADER + 1);
  tape_pass_below(tape, &at, bytes + 1);
  tape_pass(tape, reader->header, bytes);
  reader->protocol = (enum config_protocol)protocol;
  reader->header_bytes = bytes;
  reader->header_at = at;
}

static void pass_rest(struct reader *reader, const struct sink *sink, struct tape *tape) {
  uint64_t rest = reader->rest_end - reader->rest_at;
  TAPE_PASS(tape, rest);
  bool has_room = (rest == 0 && reader->sent == 0) || sink->block || reader_make_room(reader);
  if (rest > sink_room_bytes(sink) || !has_room) {
    tape_break(tape);
    return;
  }
  if (rest > 0) {
    tape_pass(tape, reader->room->bytes + reader->rest_at, (size_t)rest);
  }
  reader->rest_end = reader->rest_at + (size_t)rest;
}

/* What was written of a file's first result is less than the whole. */
static bool is_in_file(const struct reader *reader, const struct sink *sink, size_t whole) {
  size_t before = sink->position == 0 ? reader->header_bytes : 0;
  return sink->written == 0 || (sink->count > 0 && sink->written < before + whole);
}

/* It is on a result that is there or on the next one, and in the middle of one that is there. */
static bool is_on_queue(const struct reader *reader, const struct sink *sink, size_t whole) {
  bool is_there = reader->at >= sink->first && reader->at <= sink_tail(sink);
  return (is_there || reader_has_rest(reader)) && reader->sent < whole && (reader->sent == 0 || reader->at < sink_tail(sink));
}

bool reader_is_in_place(const struct reader *reader, const struct sink *sink) {
  const unsigned char *prefix;
  size_t whole = result_prefix(&sink->results[0], reader->protocol, &prefix) + sink->result_bytes;
  return sink->operations == &sink_file_operations ? is_in_file(reader, sink, whole) : is_on_queue(reader, sink, whole);
}

void reader_pass_head(struct reader *reader, struct tape *tape) {
  pass_counts(reader, tape);
  pass_header(reader, tape);
}

static void pass_place(struct reader *reader, const struct sink *sink, struct tape *tape) {
  TAPE_PASS(tape, reader->at);
  TAPE_PASS(tape, reader->sent);
  TAPE_PASS(tape, reader->skipped);
  pass_rest(reader, sink, tape);
  if (!tape->writing && !reader_is_in_place(reader, sink)) {
    tape_break(tape);
  }
}

static void pass(struct reader *reader, const struct sink *sink, struct tape *tape) {
  reader_pass_head(reader, tape);
  pass_place(reader, sink, tape);
}

static bool is_attached(const struct reader *reader, const struct sink *sink) {
  const struct reader *other = sink->readers;
  while (other && other != reader) {
    other = other->next;
  }
  return other != NULL;
}

bool reader_has_gone(const struct reader *reader, const struct sink *sink) {
  return !is_attached(reader, sink) && (reader->leaving || reader->link);
}

/* With `reply` it is a duplicate of the producer's, which the service manager keeps once: the next process makes it anew, as
 * session_attach_again() does. */
static bool goes_along(const struct sink *sink, const struct tape *tape) { return !(sink->session && tape->by_manager); }

/* One whose attaching is still on its way to a lane that is held begins there as any other, with the next result. */
static void put(struct reader *reader, const struct sink *sink, struct tape *tape) {
  bool attached = is_attached(reader, sink);
  if (goes_along(sink, tape)) {
    tape_pass_descriptor(tape, &reader->fd);
  }
  TAPE_PASS(tape, attached);
  if (!attached) {
    reader->at = sink_tail(sink);
  }
  pass(reader, sink, tape);
  put_rest_frame(reader, tape);
}

static struct reader *take(struct sink *sink, struct tape *tape, sink_road *road, void *context) {
  int fd = -1;
  struct failure failure;
  bool has_own = goes_along(sink, tape);
  if (has_own) {
    tape_pass_descriptor(tape, &fd);
  }
  struct reader *taken = fd >= 0 || !has_own ? reader_new(sink, fd, &failure) : NULL;
  if (!taken) {
    tape_break(tape);
    return NULL;
  }
  TAPE_PASS(tape, taken->continues);
  pass(taken, sink, tape);
  take_rest_frame(taken, tape, road, context);
  if (taken->continues && !tape->broken) {
    reader_note(taken);
  }
  return taken;
}

struct reader *reader_pass(struct reader *reader, struct sink *sink, struct tape *tape, sink_road *road, void *context) {
  if (!reader) {
    return take(sink, tape, road, context);
  }
  put(reader, sink, tape);
  return reader;
}
