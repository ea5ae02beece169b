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
static void restore_result(struct sink *sink, struct result *result, struct flow *flow, unsigned index, struct codec *codec) {
  if (!flow || index >= flow->ring.count || flow->ring.slots[index].state != SLOT_EMITTING ||
      sink_has_slot(sink, &flow->ring.slots[index])) {
    codec_break(codec);
    return;
  }
  result->sink = sink;
  result->flow = flow;
  result->slot = &flow->ring.slots[index];
  result->index = index;
  result->slot->frame.open = false;
  result->slot->owed = result->frame.open;
  flow->at_sink += result->frame.open;
  if (flow->relay) {
    relay_restore(flow->relay, result->slot, &result->frame);
  }
}

static void pass_result(struct sink *sink, struct result *result, struct codec *codec, sink_road *flow, void *context) {
  unsigned seat = codec->writing ? result->flow->seat : 0;
  unsigned index = codec->writing ? result->slot->index : 0;
  CODEC_PASS(codec, seat);
  CODEC_PASS(codec, index);
  frame_pass(&result->frame, codec);
  CODEC_PASS(codec, result->native);
  if (!codec->writing && !codec->broken) {
    restore_result(sink, result, flow(context, seat), index, codec);
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

void sink_pass(struct sink *sink, struct codec *codec, sink_road *flow, void *context) {
  shared_recall(sink);
  unsigned count = sink->count;
  forget_tape(sink);
  CODEC_PASS(codec, sink->first);
  sink->base = codec->writing ? sink->base : sink->first;
  codec_pass_below(codec, &count, GPU_MAX_SLOTS + 1);
  for (unsigned i = 0; i < count && !codec->broken; i++) {
    pass_result(sink, sink_result(sink, sink->first + i), codec, flow, context);
    sink->count = codec->writing ? count : i + 1;
  }
  codec_pass_time(codec, &sink->position); /* in bytes, with the same bounds */
  CODEC_PASS(codec, sink->placed);
  CODEC_PASS(codec, sink->written);
  CODEC_PASS(codec, sink->torn);
  CODEC_PASS(codec, sink->lost);
  if (codec->broken && !codec->writing) {
    sink->count = 0; /* none of it is used */
  } else if (!codec->writing) {
    sink->unnoted = true;
    sink_checkpoint(sink);
  }
}

/* -- readers ------------------------------------------------------------------------------------------------------- */

/* Of several readers that hold the rest of one open frame, the first one on the tape speaks for it. */
static void put_rest_frame(struct reader *reader, struct codec *codec) {
  struct pending *pending = reader->rest_of;
  bool open = pending && pending->frame.open && pending->on_tape != codec;
  CODEC_PASS(codec, open);
  if (!pending || !open) {
    return;
  }
  CODEC_PASS(codec, pending->flow->seat);
  frame_pass(&pending->frame, codec);
  pending->on_tape = codec;
}

static void take_rest_frame(struct reader *reader, struct codec *codec, sink_road *flow, void *context) {
  bool open = false;
  unsigned seat = 0;
  struct frame frame = {0};
  CODEC_PASS(codec, open);
  if (!open || codec->broken) {
    return;
  }
  CODEC_PASS(codec, seat);
  frame_pass(&frame, codec);
  struct flow *of = codec->broken ? NULL : flow(context, seat);
  if (!of || !reader->spare || !frame.open || reader->rest_at == reader->rest_end) {
    codec_break(codec);
    return;
  }
  *reader->spare = (struct pending){.flow = of, .frame = frame, .holders = 1};
  reader->rest_of = reader->spare;
  reader->spare = NULL;
  of->at_sink++;
}

static void pass_counts(struct reader *reader, struct codec *codec) {
  uint64_t emitted = atomic_load(&reader->emitted), missed = atomic_load(&reader->missed);
  CODEC_PASS(codec, emitted);
  CODEC_PASS(codec, missed);
  atomic_store(&reader->emitted, emitted);
  atomic_store(&reader->missed, missed);
}

static void pass_header(struct reader *reader, struct codec *codec) {
  unsigned protocol = reader->protocol, bytes = (unsigned)reader->header_bytes, at = (unsigned)reader->header_at;
  codec_pass_below(codec, &protocol, CONFIG_PROTOCOL_AUTO + 1);
  codec_pass_below(codec, &bytes, Y4M_HEADER + 1);
  codec_pass_below(codec, &at, bytes + 1);
  codec_pass(codec, reader->header, bytes);
  reader->protocol = (enum config_protocol)protocol;
  reader->header_bytes = bytes;
  reader->header_at = at;
}

static void pass_rest(struct reader *reader, const struct sink *sink, struct codec *codec) {
  uint64_t rest = reader->rest_end - reader->rest_at;
  CODEC_PASS(codec, rest);
  bool has_room = (rest == 0 && reader->sent == 0) || sink->block || reader_make_room(reader);
  if (rest > sink_room_bytes(sink) || !has_room) {
    codec_break(codec);
    return;
  }
  if (rest > 0) {
    codec_pass(codec, reader->room->bytes + reader->rest_at, (size_t)rest);
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

void reader_pass_head(struct reader *reader, struct codec *codec) {
  pass_counts(reader, codec);
  pass_header(reader, codec);
}

static void pass_place(struct reader *reader, const struct sink *sink, struct codec *codec) {
  CODEC_PASS(codec, reader->at);
  CODEC_PASS(codec, reader->sent);
  CODEC_PASS(codec, reader->skipped);
  pass_rest(reader, sink, codec);
  if (!codec->writing && !reader_is_in_place(reader, sink)) {
    codec_break(codec);
  }
}

static void pass(struct reader *reader, const struct sink *sink, struct codec *codec) {
  reader_pass_head(reader, codec);
  pass_place(reader, sink, codec);
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
static bool goes_along(const struct sink *sink, const struct codec *codec) { return !(sink->session && codec->by_manager); }

/* One whose attaching is still on its way to a lane that is held begins there as any other, with the next result. */
static void put(struct reader *reader, const struct sink *sink, struct codec *codec) {
  bool attached = is_attached(reader, sink);
  if (goes_along(sink, codec)) {
    codec_pass_descriptor(codec, &reader->fd);
  }
  CODEC_PASS(codec, attached);
  if (!attached) {
    reader->at = sink_tail(sink);
  }
  pass(reader, sink, codec);
  put_rest_frame(reader, codec);
}

static struct reader *take(struct sink *sink, struct codec *codec, sink_road *flow, void *context) {
  int fd = -1;
  struct failure failure;
  bool has_own = goes_along(sink, codec);
  if (has_own) {
    codec_pass_descriptor(codec, &fd);
  }
  struct reader *taken = fd >= 0 || !has_own ? reader_new(sink, fd, &failure) : NULL;
  if (!taken) {
    codec_break(codec);
    return NULL;
  }
  CODEC_PASS(codec, taken->continues);
  pass(taken, sink, codec);
  take_rest_frame(taken, codec, flow, context);
  if (taken->continues && !codec->broken) {
    reader_note(taken);
  }
  return taken;
}

struct reader *reader_pass(struct reader *reader, struct sink *sink, struct codec *codec, sink_road *flow, void *context) {
  if (!reader) {
    return take(sink, codec, flow, context);
  }
  put(reader, sink, codec);
  return reader;
}
