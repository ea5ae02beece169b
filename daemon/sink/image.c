/*
 * A sink and its readers over the end of a process: what has been written of which result, so that the next process goes on at
 * the byte where this one stopped.
 *
 * At an upgrade all of it is passed in order; after a kill it is made of the notes that checkpoint.c reads. While any of this
 * runs no lane does. A result is its slot's index and whether its frame has a fate: the frame goes over with its session's
 * slots.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/rights.h"
#include "daemon/frame/relay.h"
#include "daemon/sink/loans.h"

/* -- results ----------------------------------------------------------------------------------------------------------- */

static void pass_result(struct sink *sink, struct result *result, struct codec *codec, sink_road *flow, void *context) {
  bool open = codec->writing && result->open;
  unsigned seat = codec->writing ? result->flow->seat : 0;
  unsigned index = codec->writing ? result->slot->index : 0;
  unsigned fate = codec->writing ? result->fate : 0;
  CODEC_PASS(codec, seat);
  CODEC_PASS(codec, index);
  CODEC_PASS(codec, open);
  codec_pass_below(codec, &fate, FATE_COUNT);
  CODEC_PASS(codec, result->native);
  if (!codec->writing && !codec->broken && !sink_take_again(sink, flow(context, seat), index, open, (enum fate)fate)) {
    codec_break(codec);
  }
  if (!codec->broken) {
    result_pass_line(result, codec);
  }
}

void sink_pass(struct sink *sink, struct codec *codec, sink_road *flow, void *context) {
  loans_recall(sink);
  unsigned count = sink->count;
  for (const struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader->rest_of) {
      reader->rest_of->written_to = NULL; /* the state may have been written before, for an upgrade that did not come about */
    }
  }
  CODEC_PASS(codec, sink->first);
  sink->base = codec->writing ? sink->base : sink->first;
  codec_pass_below(codec, &count, GPU_MAX_SLOTS + 1);
  for (unsigned i = 0; i < count && !codec->broken; i++) {
    pass_result(sink, sink_result(sink, sink->first + i), codec, flow, context);
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

/* The session may have noted the frame before the device was done with it. */
static bool take_held(struct sink *sink, const struct noted_result *held, struct flow *flow) {
  if (!sink_take_again(sink, flow, held->slot, held->frame.open, held->frame.fate)) {
    return false;
  }
  struct frame *frame = &flow->ring.slots[held->slot].frame;
  frame->seen = frame->seen != 0 ? frame->seen : clock_now();
  frame->suspect = false;
  return true;
}

bool sink_take_noted(struct sink *sink, const struct sink_checkpointd *noted, sink_road *flow, void *context) {
  sink->first = sink->base = noted->first;
  sink->position = noted->position;
  sink->placed = noted->placed;
  sink->written = noted->written;
  sink->torn = noted->torn;
  sink->lost = noted->lost;
  for (unsigned i = noted->known - noted->count; i < noted->known; i++) {
    const struct noted_result *held = &noted->results[i];
    if (!take_held(sink, held, flow(context, held->seat))) {
      sink->count = 0; /* none of it is used */
      return false;
    }
  }
  sink->unnoted = true;
  sink_checkpoint(sink);
  return true;
}

void sink_abandon(struct sink *sink, enum fate fate, int64_t now) {
  for (uint64_t at = sink->first; at < sink_tail(sink); at++) {
    struct result *result = sink_result(sink, at);
    if (result->open) {
      result->slot->owed = false;
      flow_settle(result->flow, &result->slot->frame, fate, now);
    }
  }
  sink->first = sink->base = sink_tail(sink);
  sink->count = 0;
  sink->unnoted = true;
  sink_checkpoint(sink);
}

/* -- readers ----------------------------------------------------------------------------------------------------------- */

/* Of several readers that hold the rest of one open frame, the first one that is written speaks for it. */
static void put_rest_frame(struct reader *reader, struct codec *codec) {
  struct pending *pending = reader->rest_of;
  bool open = pending && pending->frame.open && pending->written_to != codec;
  CODEC_PASS(codec, open);
  if (!pending || !open) {
    return;
  }
  CODEC_PASS(codec, pending->flow->seat);
  frame_pass(&pending->frame, codec);
  pending->written_to = codec;
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

/* Of the result that the reader is on; of a line whose numbers are in memory that this process does not have yet, the most. */
static size_t whole_bytes(const struct reader *reader, struct sink *sink) {
  const unsigned char *prefix;
  struct result *result = sink_result(sink, sink->operations->is_file ? sink->first : reader->at);
  if (!sink->lines) {
    return result_prefix(result, reader->protocol, &prefix) + sink->result_bytes;
  }
  bool is_there = result->slot && (result->line_bytes > 0 || result->slot->output);
  return is_there ? result_payload(result).count : sink->result_bytes;
}

/* A reader is on a result that is there or on the next one, and in the middle only of one that is there. Of a file's first
 * result less than the whole was written. */
static bool is_in_place(const struct reader *reader, struct sink *sink) {
  size_t whole = whole_bytes(reader, sink);
  if (sink->operations->is_file) {
    size_t before = sink->position == 0 ? reader->header_bytes : 0;
    return sink->written == 0 || (sink->count > 0 && sink->written < before + whole);
  }
  bool is_there = reader->at >= sink->first && reader->at <= sink_tail(sink);
  bool is_between = reader->sent == 0;
  return (is_there || reader_has_rest(reader)) && (is_between || (reader->sent < whole && reader->at < sink_tail(sink)));
}

bool reader_is_in_place(const struct reader *reader) { return is_in_place(reader, reader->sink); }

static void pass_reader(struct reader *reader, struct sink *sink, struct codec *codec) {
  reader_pass_head(reader, codec);
  CODEC_PASS(codec, reader->at);
  CODEC_PASS(codec, reader->sent);
  CODEC_PASS(codec, reader->skipped);
  pass_rest(reader, sink, codec);
  if (!codec->writing && !is_in_place(reader, sink)) {
    codec_break(codec);
  }
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

/* Whether the reader's descriptor goes along: with `reply` it is a duplicate of the producer's, of which the service manager
 * keeps only one, and the next process duplicates that again. */
static bool goes_along(const struct sink *sink, const struct codec *codec) { return !(sink->session && codec->by_manager); }

static struct reader *take_reader(struct sink *sink, struct codec *codec, sink_road *flow, void *context) {
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
  pass_reader(taken, sink, codec);
  take_rest_frame(taken, codec, flow, context);
  if (taken->continues && !codec->broken) {
    reader_note(taken);
  }
  return taken;
}

struct reader *reader_pass(struct reader *reader, struct sink *sink, struct codec *codec, sink_road *flow, void *context) {
  if (!reader) {
    return take_reader(sink, codec, flow, context);
  }
  bool attached = is_attached(reader, sink);
  if (goes_along(sink, codec)) {
    codec_pass_descriptor(codec, &reader->fd);
  }
  CODEC_PASS(codec, attached);
  if (!attached) { /* its attaching is still on its way to the held lane: in the next process it begins as any new reader */
    reader->at = sink_tail(sink);
  }
  pass_reader(reader, sink, codec);
  put_rest_frame(reader, codec);
  return reader;
}

/* -- readers, after a kill --------------------------------------------------------------------------------------------- */

void reader_put_live(const struct reader *reader, struct codec *codec) {
  int fd = reader->fd;
  uint64_t record = record_name(reader->record), emitted, missed;
  reader_read(reader, &emitted, &missed);
  codec_pass_descriptor(codec, &fd);
  CODEC_PASS(codec, record);
  CODEC_PASS(codec, emitted);
  CODEC_PASS(codec, missed);
}

/* Results that were waiting for the reader may have been dropped since its last write. The rest of one that it was in the
 * middle of was in memory that is gone. */
static bool reader_take_place(struct reader *reader, struct sink *sink, uint64_t record) {
  bool has_rest = false;
  enum record_state state = reader_read_note(reader, record, &has_rest);
  if (state == RECORD_NOTED && !has_rest && reader->sent == 0 && reader->at < sink->first) {
    atomic_fetch_add(&reader->missed, sink->first - reader->at);
    reader->at = sink->first;
  }
  bool taken = state == RECORD_EMPTY || (state == RECORD_NOTED && !has_rest && is_in_place(reader, sink));
  return taken && (reader->sent == 0 || sink->block || reader_make_room(reader));
}

/* A file goes on where the sink's note says; a part of a result that stands behind that is cut off, and written again. A file
 * that was never written to, or that somebody has cut since, goes on at its end. */
static bool take_file(struct reader *reader, struct sink *sink, uint64_t *torn) {
  struct stat status;
  sink->written = 0;
  sink->torn = false;
  *torn = 0;
  if (fstat(reader->fd, &status) != 0) {
    return false;
  }
  sink->placed = sink->placed && (!S_ISREG(status.st_mode) || status.st_size >= sink->position);
  reader->continues = sink->placed;
  if (sink->placed && S_ISREG(status.st_mode) && status.st_size > sink->position) {
    *torn = (uint64_t)(status.st_size - sink->position);
    return ftruncate(reader->fd, sink->position) == 0;
  }
  return true;
}

struct reader *reader_take_noted(struct sink *sink, uint64_t record) {
  struct failure failure;
  struct reader *reader = reader_new(sink, -1, &failure);
  if (reader && !reader_take_place(reader, sink, record)) {
    return reader_free(reader);
  }
  if (reader && reader->continues) {
    reader_note(reader);
  }
  return reader;
}

struct reader *reader_take_live(struct sink *sink, struct codec *codec, bool *cut, uint64_t *torn) {
  int fd = -1;
  uint64_t record = 0, emitted = 0, missed = 0;
  struct failure failure;
  codec_pass_descriptor(codec, &fd);
  CODEC_PASS(codec, record);
  CODEC_PASS(codec, emitted);
  CODEC_PASS(codec, missed);
  *cut = fd >= 0;
  struct reader *reader = fd >= 0 ? reader_new(sink, fd, &failure) : NULL;
  if (!reader) {
    codec->broken |= fd >= 0;
    return NULL;
  }
  atomic_store(&reader->emitted, emitted);
  atomic_store(&reader->missed, missed);
  bool is_file = sink->operations->is_file;
  if (!(is_file ? take_file(reader, sink, torn) : reader_take_place(reader, sink, record))) {
    rights_close(fd);
    return reader_free(reader);
  }
  if (reader->continues) {
    reader_note(reader);
  }
  *cut = false;
  return reader;
}
