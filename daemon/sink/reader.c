/*
 * A reader as such, whatever kind of sink it is attached to: its making and its end, the room for a rest that it brings along,
 * and the bytes that stand before its next result.
 */
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/sink/results.h"

struct reader *reader_new(struct sink *sink, int fd, struct failure *failure) {
  struct reader *reader = image_new(IMAGE_READER, sizeof *reader);
  if (reader && !sink->block) {
    reader->spare = image_new(IMAGE_PENDING, sizeof *reader->spare);
  }
  if (!reader || (!sink->block && !reader->spare)) {
    failure_set_memory(failure, "no memory for a reader");
    return image_free(reader);
  }
  reader->sink = sink;
  reader->fd = fd;
  reader->index = -1;
  reader->protocol = sink->protocol;
  return reader;
}

size_t sink_room_bytes(const struct sink *sink) { return sink->block ? 0 : NATIVE_RESULT_BYTES + sink->result_bytes; }

bool reader_make_room(struct reader *reader) {
  if (!reader->room) {
    reader->room = image_new(IMAGE_ROOM, sizeof *reader->room + sink_room_bytes(reader->sink));
    reader->sink->rooms_made += reader->room != NULL;
  }
  return reader->room;
}

bool reader_bring_room(struct reader *reader, struct failure *failure) {
  const struct sink *sink = reader->sink;
  bool is_needed = !sink->block && !reader->borrower && sink->rooms_made < sink->most_rooms;
  return !is_needed || reader_make_room(reader) ||
         failure_set_memory(failure, "no memory for %zu bytes of a result that a reader may be slow to take",
                            sink->result_bytes);
}

void reader_drop_room(struct reader *reader) {
  reader->sink->rooms_made -= reader->room != NULL;
  reader->room = image_free(reader->room);
}

struct reader *reader_free(struct reader *reader) {
  if (reader) {
    image_free(reader->borrower);
    reader_drop_room(reader);
    image_free(reader->spare);
  }
  return image_free(reader);
}

void reader_speak(struct reader *reader, enum config_protocol protocol) { reader->protocol = protocol; }

void reader_read(const struct reader *reader, uint64_t *emitted, uint64_t *missed) {
  *emitted = atomic_load_explicit(&reader->emitted, memory_order_relaxed);
  *missed = atomic_load_explicit(&reader->missed, memory_order_relaxed);
}

void reader_keep_index(struct reader *reader, int index, uint64_t count, const struct segment_times *times) {
  const int64_t now = clock_now(), every = reader->sink->file.every_ns;
  reader->index = index;
  reader->count = count;
  reader->hold = now + times->hold_ns;
  bool is_over = times->hold_ns > 0 || (every > 0 && times->began == 0); /* the next is tried also without a result */
  reader->until = is_over ? now : every == 0 ? 0 : times->began + every;
  reader->shift = times->shift;
}

int reader_index(const struct reader *reader, uint64_t *count) {
  *count = reader->count;
  return reader->index;
}

/* -- what stands before a result --------------------------------------------------------------------------------------- */

void reader_set_header(struct reader *reader, const struct result *result) {
  const struct sink *sink = reader->sink;
  reader->header_bytes = 0;
  if (result && reader->protocol == CONFIG_PROTOCOL_Y4M) {
    static const struct y4m_look unknown = {0};
    const struct frame *frame = &result->slot->frame;
    reader->header_bytes =
        y4m_write_header(&sink->format, &frame->rate, sink->keeps_look ? &frame->look : &unknown, reader->header);
  }
}

size_t reader_prefix(struct reader *reader, uint64_t at, const unsigned char **prefix) {
  const struct result *result = sink_result(reader->sink, at);
  size_t bytes = result_prefix(result, reader->protocol, prefix);
  if (*prefix == result->native && at == reader->at && reader->skipped > 0) {
    memcpy(reader->native, result->native, sizeof reader->native);
    native_add_dropped(reader->native, reader->skipped);
    *prefix = reader->native;
  }
  return bytes;
}

void reader_miss(struct reader *reader, uint64_t at) {
  atomic_store_explicit(&reader->missed, atomic_load_explicit(&reader->missed, memory_order_relaxed) + 1, memory_order_relaxed);
  reader->skipped += sink_result(reader->sink, at)->slot->frame.missing + 1;
}
