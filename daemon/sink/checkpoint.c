/*
 * What a sink and its readers note as they go, and what the next process makes of it after this one was killed.
 *
 * The sink notes which results it has, and what became of the last ones, before the session may put anything else into their
 * slots: so what its note says of a slot is true of the bytes in it. A reader notes how far it is after each write. A file is
 * written at positions of our own, so that what was being written is simply written again.
 */
#include <assert.h>

#include "daemon/sink/results.h"

static bool is_bytes(enum config_protocol protocol) {
  return protocol == CONFIG_PROTOCOL_RAW || protocol == CONFIG_PROTOCOL_Y4M || protocol == CONFIG_PROTOCOL_JSON;
}

bool sink_is_noted(const struct config_pipeline *config) {
  bool replies = config->sink.endpoint == CONFIG_REPLY;
  return is_bytes(config->source.protocol) && (replies || is_bytes(config->sink.protocol));
}

/* -- out --------------------------------------------------------------------------------------------------------------- */

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
static_assert(GPU_MAX_SLOTS * sizeof(struct identity) + NUMBERS <= RECORD_PREFAULTED, "no note meets a page fault");

static void put_result(const struct result *result, struct codec *codec) {
  struct identity identity = {.sequence = result->sequence,
                              .producer = result->producer,
                              .seat = result->flow->seat,
                              .slot = result->index,
                              .fate = result->fate,
                              .moved = result->moved,
                              .open = result->open};
  CODEC_PASS(codec, identity);
}

/* How many results a file has whole: they are noted as no longer held, although their slots are not given back yet. */
static unsigned released(struct sink *sink) {
  unsigned count = 0;
  bool is_file = sink->operations->is_file;
  while (is_file && count < sink->count && !sink_result(sink, sink->first + count)->open) {
    count++;
  }
  return count;
}

/* How many of the last results are noted: any that the session may still take for its own is among the last as many as there
 * are slots. */
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
    put_result(sink_result(sink, at), &codec);
  }
  sink->unnoted = false;
  record_end(sink->record, &codec);
}

void reader_pass_head(struct reader *reader, struct codec *codec) {
  uint64_t emitted = atomic_load(&reader->emitted), missed = atomic_load(&reader->missed);
  unsigned protocol = reader->protocol, bytes = (unsigned)reader->header_bytes, at = (unsigned)reader->header_at;
  CODEC_PASS(codec, emitted);
  CODEC_PASS(codec, missed);
  codec_pass_below(codec, &protocol, CONFIG_PROTOCOL_COUNT);
  codec_pass_below(codec, &bytes, Y4M_HEADER + 1);
  codec_pass_below(codec, &at, bytes + 1);
  codec_pass(codec, reader->header, bytes);
  atomic_store(&reader->emitted, emitted);
  atomic_store(&reader->missed, missed);
  reader->protocol = (enum config_protocol)protocol;
  reader->header_bytes = bytes;
  reader->header_at = at;
}

static void pass_noted_place(struct reader *reader, bool *has_rest, struct codec *codec) {
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
  pass_noted_place(reader, &has_rest, &codec);
  record_end(reader->record, &codec);
}

/* -- in ---------------------------------------------------------------------------------------------------------------- */

static void take_result(struct noted_result *result, struct codec *codec) {
  struct identity identity = {0};
  CODEC_PASS(codec, identity);
  if (identity.slot >= GPU_MAX_SLOTS || identity.fate >= FATE_COUNT || identity.moved > 1 || identity.open > 1) {
    codec_break(codec);
    return;
  }
  result->seat = identity.seat;
  result->slot = identity.slot;
  result->moved = identity.moved == 1;
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
      take_result(&noted->results[i], &codec);
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

enum record_state reader_read_note(struct reader *reader, uint64_t record, bool *has_rest) {
  struct codec codec;
  bool noted;
  enum record_state state = checkpoint_read(record, &codec, &noted);
  if (state == RECORD_NOTED) {
    pass_noted_place(reader, has_rest, &codec);
    reader->continues = true;
    state = codec_is_at_end(&codec) ? state : RECORD_UNKNOWN;
  }
  codec_clear(&codec);
  return state;
}
