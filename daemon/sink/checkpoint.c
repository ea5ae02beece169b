/*
 * What a sink and its readers note as they go, and what the next process makes of it after this one was killed.
 *
 * The sink notes which results it has, and what became of the last ones, before the session may put anything else into their
 * slots: so what its note says of a slot is true of the bytes in it. A reader notes how far it is after each write. A file is
 * written at positions of our own, so that what was being written is simply written again.
 */
#include <assert.h>
#include <sys/stat.h>

#include "daemon/base/rights.h"
#include "daemon/frame/relay.h"
#include "daemon/sink/results.h"

static bool is_bytes(enum config_protocol protocol) {
  return protocol == CONFIG_PROTOCOL_RAW || protocol == CONFIG_PROTOCOL_Y4M;
}

bool sink_is_noted(const struct config_pipeline *config) {
  bool replies = config->sink.endpoint == CONFIG_REPLY;
  return is_bytes(config->source.protocol) && (replies || is_bytes(config->sink.protocol));
}

/* -- out ------------------------------------------------------------------------------------------------------------ */

static void pass_results(struct sink_checkpointd *noted, struct codec *codec) {
  CODEC_PASS(codec, noted->first);
  codec_pass_below(codec, &noted->count, GPU_MAX_SLOTS + 1);
  codec_pass_below(codec, &noted->known, GPU_MAX_SLOTS + 1);
  codec_pass_time(codec, &noted->position); /* in bytes, with the same bounds */
  CODEC_PASS(codec, noted->placed);
  CODEC_PASS(codec, noted->written);
  CODEC_PASS(codec, noted->torn);
  CODEC_PASS(codec, noted->lost);
  if (noted->count > noted->known) {
    codec_break(codec);
  }
}

/* Which frame it was, in which slot, and what became of it. */
struct identity {
  uint64_t sequence;
  unsigned producer, seat, slot, fate, moved, open;
};

enum { NUMBERS = 128 /* at most, besides results */ };
static_assert(GPU_MAX_SLOTS * (sizeof(struct identity) + sizeof(struct frame)) + NUMBERS <= RECORD_PREFAULTED,
              "no note meets a page fault");

static void put_result(struct result *result, bool held, struct codec *codec) {
  struct frame *frame = &result->frame;
  struct identity identity = {.sequence = frame->sequence,
                              .producer = frame->producer,
                              .seat = result->flow->seat,
                              .slot = result->index,
                              .fate = frame->fate,
                              .moved = result->moved,
                              .open = frame->open};
  CODEC_PASS(codec, identity);
  if (held) {
    frame_pass(frame, codec);
  }
}

/* What a file has whole is no longer held, although its slot is not given back yet. */
static unsigned released(struct sink *sink) {
  unsigned count = 0;
  bool is_file = sink->operations == &sink_file_operations;
  while (is_file && count < sink->count && !sink_result(sink, sink->first + count)->frame.open) {
    count++;
  }
  return count;
}

/* No frame that the session may still take for its own left the sink longer ago than there are slots. */
static unsigned known_results(struct sink *sink) {
  uint64_t ever = sink_tail(sink) - sink->base;
  unsigned slots = ever > 0 ? sink_result(sink, sink_tail(sink) - 1)->flow->ring.count : 0;
  return ever < slots ? (unsigned)ever : slots;
}

void sink_checkpoint(struct sink *sink) {
  if (!sink->record || !sink->unnoted) {
    return;
  }
  struct codec codec;
  unsigned gone = released(sink);
  struct sink_checkpointd noted = {.first = sink->first + gone,
                                   .count = sink->count - gone,
                                   .known = known_results(sink),
                                   .position = sink->position,
                                   .placed = sink->placed,
                                   .written = sink->written,
                                   .torn = sink->torn,
                                   .lost = sink->lost};
  record_begin(sink->record, &codec);
  pass_results(&noted, &codec);
  for (uint64_t at = sink_tail(sink) - noted.known; at < sink_tail(sink); at++) {
    put_result(sink_result(sink, at), at >= noted.first, &codec);
  }
  sink->unnoted = false;
  record_end(sink->record, &codec);
}

static void pass_place(struct reader *reader, bool *has_rest, struct codec *codec) {
  reader_pass_head(reader, codec);
  CODEC_PASS(codec, reader->at);
  CODEC_PASS(codec, reader->sent);
  CODEC_PASS(codec, *has_rest);
}

void reader_note(struct reader *reader) {
  if (!reader->record) {
    return;
  }
  struct codec codec;
  bool has_rest = reader_has_rest(reader);
  sink_checkpoint(reader->sink);
  record_begin(reader->record, &codec);
  pass_place(reader, &has_rest, &codec);
  record_end(reader->record, &codec);
}

/* -- in ------------------------------------------------------------------------------------------------------------- */

static void take_result(struct noted_result *result, bool held, struct codec *codec) {
  struct identity identity = {0};
  CODEC_PASS(codec, identity);
  if (identity.slot >= GPU_MAX_SLOTS || identity.fate >= FATE_COUNT || identity.moved > 1 || identity.open > 1) {
    codec_break(codec);
    return;
  }
  result->seat = identity.seat;
  result->slot = identity.slot;
  result->moved = identity.moved == 1;
  if (held) {
    frame_pass(&result->frame, codec);
  }
  result->frame.sequence = identity.sequence;
  result->frame.producer = identity.producer;
  result->frame.fate = (enum fate)identity.fate;
  result->frame.open = identity.open == 1;
}

bool sink_read_note(uint64_t record, struct sink_checkpointd *noted) {
  struct codec codec;
  bool is_there;
  *noted = (struct sink_checkpointd){0};
  enum record_state state = checkpoint_read(record, &codec, &is_there);
  if (is_there) {
    pass_results(noted, &codec);
    for (unsigned i = 0; i < noted->known && !codec.broken; i++) {
      take_result(&noted->results[i], i + noted->count >= noted->known, &codec);
    }
  }
  bool whole = state == RECORD_EMPTY || (is_there && codec_is_at_end(&codec));
  codec_clear(&codec);
  return whole;
}

const struct noted_result *sink_checkpointd_find(const struct sink_checkpointd *noted, unsigned seat, const struct slot *slot,
                                                 bool *held) {
  for (unsigned i = noted->known; i-- > 0;) {
    const struct noted_result *result = &noted->results[i];
    if (result->seat == seat && result->slot == slot->index && result->frame.producer == slot->frame.producer &&
        result->frame.sequence == slot->frame.sequence) {
      *held = i + noted->count >= noted->known;
      return result;
    }
  }
  return NULL;
}

static bool take_held(struct sink *sink, const struct noted_result *held, struct flow *flow) {
  struct slot *slot = flow && held->slot < flow->ring.count ? &flow->ring.slots[held->slot] : NULL;
  if (!slot || slot->state != SLOT_EMITTING || sink_has_slot(sink, slot)) {
    return false;
  }
  struct result *result = sink_result(sink, sink_tail(sink));
  *result = (struct result){.sink = sink, .flow = flow, .slot = slot, .index = held->slot, .frame = held->frame};
  slot->frame.open = false;
  slot->owed = held->frame.open;
  flow->at_sink += held->frame.open;
  if (flow->relay) {
    relay_restore(flow->relay, slot, &result->frame);
  }
  sink->count++;
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

/* -- readers ------------------------------------------------------------------------------------------------------- */

void reader_put_live(const struct reader *reader, struct codec *codec) {
  int fd = reader->fd;
  uint64_t record = record_name(reader->record), emitted, missed;
  reader_read(reader, &emitted, &missed);
  codec_pass_descriptor(codec, &fd);
  CODEC_PASS(codec, record);
  CODEC_PASS(codec, emitted);
  CODEC_PASS(codec, missed);
}

/* A result that was waiting for it may have been dropped since its last write. Of one that it was in the middle of, the rest
 * was in memory that is gone. */
static bool is_placed(struct reader *reader, const struct sink *sink, bool has_rest) {
  if (!has_rest && reader->sent == 0 && reader->at < sink->first) {
    atomic_fetch_add(&reader->missed, sink->first - reader->at);
    reader->at = sink->first;
  }
  return !has_rest && reader_is_in_place(reader, sink);
}

static bool take_place(struct reader *reader, const struct sink *sink, uint64_t record) {
  struct codec codec;
  bool noted, has_rest = false;
  enum record_state state = checkpoint_read(record, &codec, &noted);
  if (state == RECORD_NOTED) {
    pass_place(reader, &has_rest, &codec);
    reader->continues = true;
  }
  bool taken = state == RECORD_EMPTY || (state == RECORD_NOTED && codec_is_at_end(&codec) && is_placed(reader, sink, has_rest));
  codec_clear(&codec);
  return taken && (reader->sent == 0 || sink->block || reader_make_room(reader));
}

/* A file is where the sink's note says; what of a result stands behind that is cut off, and written again. One that was never
 * written to, or that somebody has cut since, begins at its end. */
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
  if (reader && !take_place(reader, sink, record)) {
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
  bool is_file = sink->operations == &sink_file_operations;
  if (!(is_file ? take_file(reader, sink, torn) : take_place(reader, sink, record))) {
    rights_close(fd);
    return reader_free(reader);
  }
  if (reader->continues) {
    reader_note(reader);
  }
  *cut = false;
  return reader;
}
