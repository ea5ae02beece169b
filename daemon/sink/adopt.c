/*
 * Taking over a sink and its readers from the previous process, at the byte where each reader was. No lane runs meanwhile. A
 * result is the index of a slot and whether its frame has a fate. The frame belongs to its session, which asks here for the
 * fate.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/frame/relay.h"
#include "daemon/sink/leases.h"

/* -- the sink of the previous process ---------------------------------------------------------------------------------- */

static bool result_is_sound(const struct result *result) {
  return (unsigned)result->state <= RESULT_MOVED && (unsigned)result->fate < FATE_COUNT && result->index < GPU_MAX_SLOTS &&
         image_is_time(result->end);
}

/* A result that was just being set aside is still in the queue, and that copy is valid. */
static bool is_aside(const struct sink *left, unsigned index) {
  return left->leases.aside[index].slot && left->leases.order[index] < left->first;
}

const struct sink *sink_left(const struct sink *address) {
  const struct sink *left = image_left_at(address, IMAGE_SINK, sizeof *left);
  bool sound = left && left->first <= left->tail && left->tail - left->first <= GPU_MAX_SLOTS && left->base <= left->first &&
               (left->file.position == -1 || image_is_time(left->file.position));
  for (unsigned i = 0; i < GPU_MAX_SLOTS && sound; i++) {
    sound = result_is_sound(&left->results[i]) && result_is_sound(&left->leases.aside[i]);
  }
  return sound ? left : NULL;
}

static bool is_of(const struct result *result, unsigned seat, const struct slot *slot) {
  return result->seat == seat && result->index == slot->index && result->producer == slot->frame.producer &&
         result->sequence == slot->frame.sequence;
}

/* Searches all results that a session may still wait for: the queue, those set aside, and the last ones that left the queue. */
const struct result *sink_left_find(const struct sink *left, unsigned seat, const struct slot *slot, bool *held) {
  const struct result *aside = &left->leases.aside[slot->index];
  *held = true;
  if (is_aside(left, slot->index) && is_of(aside, seat, slot)) {
    return aside;
  }
  for (uint64_t at = left->tail; at > left->base && left->tail - at < GPU_MAX_SLOTS; at--) {
    const struct result *result = &left->results[(at - 1) % GPU_MAX_SLOTS];
    *held = at > left->first;
    /* the next result may be half written in the place of the oldest */
    bool is_whole = *held || left->tail - at < GPU_MAX_SLOTS - 1;
    if (is_whole && is_of(result, seat, slot)) {
      return result;
    }
  }
  return NULL;
}

/* -- results ----------------------------------------------------------------------------------------------------------- */

static struct slot *slot_of(const struct result *result, struct flow *flow) {
  struct slot *slot = flow && result->index < flow->ring.count ? &flow->ring.slots[result->index] : NULL;
  return slot && slot->state == SLOT_EMITTING ? slot : NULL;
}

/* The result is in the file, but the process was killed before it counted that. */
static void count_written(struct sink *sink, struct result *result, struct slot *slot) {
  slot->frame.seen = slot->frame.seen != 0 ? slot->frame.seen : clock_now();
  account_close(result->flow->account, &slot->frame, FATE_EMITTED, clock_now());
  sink->file.position = result->end;
  result->fate = FATE_EMITTED;
  result->state = RESULT_SETTLED;
}

static void take_result(struct sink *sink, struct result *result, struct flow *flow, struct slot *slot) {
  result->sink = sink;
  result->flow = flow;
  result->slot = slot;
  result->line_bytes = 0; /* its line is made again */
  if (result->state == RESULT_OPEN && result->end != 0) {
    count_written(sink, result, slot);
  }
  slot->frame.suspect = false;
  slot->frame.open = false;
  slot->awaits_fate = result->state == RESULT_OPEN;
  flow->unsettled += slot->awaits_fate;
  if (flow->relay) {
    relay_restore(flow->relay, slot, result->fate);
  }
}

/* Results that were set aside return to the front of the queue. */
static void take_queue(struct sink *sink, const struct sink *left) {
  sink->first = left->first;
  sink->tail = left->tail;
  memcpy(sink->results, left->results, sizeof sink->results);
  for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
    sink->leases.order[i] = left->leases.order[i];
    if (is_aside(left, i)) {
      sink->leases.aside[i] = left->leases.aside[i];
    }
  }
  leases_recall(sink);
  sink->base = sink->first;
  for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
    sink->results[i].slot = NULL;
  }
}

bool sink_adopt(struct sink *sink, const struct sink *left, sink_flow_lookup *flow, void *context) {
  take_queue(sink, left);
  sink->file.position = left->file.position;
  sink->file.lost = left->file.lost;
  sink->file.missed = left->file.missed;
  sink->file.failed = sink->file.reported = left->file.lost > 0; /* the report that this is over is still to come */
  bool sound = sink_count(sink) <= GPU_MAX_SLOTS, all = sound;
  for (uint64_t at = sink->first; all && at < sink->tail; at++) {
    struct result *result = sink_result(sink, at);
    struct flow *of = flow(context, result->seat);
    struct slot *slot = slot_of(result, of);
    sound = !slot || !sink_has_slot(sink, slot);
    all = slot && sound;
    if (all) {
      take_result(sink, result, of, slot);
    }
  }
  if (!all) {
    sink_abandon(sink);
  }
  return sound;
}

void sink_abandon(struct sink *sink) { sink->first = sink->base = sink->tail; }

/* -- readers ----------------------------------------------------------------------------------------------------------- */

const struct reader *reader_left(const struct reader *address) { return image_left_at(address, IMAGE_READER, sizeof *address); }

static bool adopt_header(struct reader *reader, const struct reader *left) {
  if ((unsigned)left->protocol >= CONFIG_PROTOCOL_COUNT || left->header_bytes > Y4M_HEADER ||
      left->header_at > left->header_bytes) {
    return false;
  }
  reader->protocol = left->protocol;
  memcpy(reader->header, left->header, sizeof reader->header);
  reader->header_bytes = left->header_bytes;
  reader->header_at = left->header_at;
  return true;
}

/* Readers in the middle of the same result share one struct pending. Call last, when the other readers have theirs. */
static bool take_rest_frame(struct reader *reader, const struct reader *left, sink_flow_lookup *lookup, void *context) {
  const struct pending *of = reader_has_rest(reader) ? image_left_at(left->rest.of, IMAGE_PENDING, sizeof *of) : NULL;
  for (const struct reader *other = reader->sink->continuing; other && of; other = other->next) {
    if (other->rest.of && other->rest.left == left->rest.of) {
      reader->rest.of = other->rest.of;
      reader->rest.of->holders++;
      return true;
    }
  }
  if (!of || !IMAGE_IS_FLAG(of->frame.open) || !of->frame.open) {
    return true;
  }
  struct flow *flow = lookup(context, of->seat);
  if (!flow || !reader->spare || !frame_is_sound(&of->frame)) {
    return false;
  }
  *reader->spare = (struct pending){.flow = flow, .seat = of->seat, .frame = of->frame, .holders = 1};
  reader->rest.of = reader->spare;
  reader->rest.left = left->rest.of;
  reader->spare = NULL;
  flow->unsettled++;
  return true;
}

static bool take_rest(struct reader *reader, const struct reader *left) {
  const struct sink *sink = reader->sink;
  size_t bytes = sizeof(struct room) + sink_room_bytes(sink);
  bool has_rest = left->rest.at < left->rest.end, needs_room = !sink->block && !left->shared;
  if ((has_rest || left->sent > 0) && needs_room && !reader_make_room(reader)) {
    return false;
  }
  if (!has_rest) {
    return true;
  }
  const struct room *room = image_left_at(left->room, IMAGE_ROOM, bytes);
  if (!needs_room || !room || left->rest.end > sink_room_bytes(sink)) {
    return false;
  }
  memcpy(reader->room->bytes + left->rest.at, room->bytes + left->rest.at, left->rest.end - left->rest.at);
  reader->rest.at = left->rest.at;
  reader->rest.end = left->rest.end;
  return true;
}

/* Bytes of the reader's current result. If the memory of a line of JSON is not mapped yet, the maximum. */
static size_t whole_bytes(const struct reader *reader) {
  const unsigned char *prefix;
  struct result *result = sink_result(reader->sink, reader->at);
  bool is_there = result->slot && result->slot->output;
  return result_prefix(result, reader->protocol, &prefix) +
         (is_there ? result_payload(result).count : reader->sink->result_bytes);
}

/* A reader's position is a result of the queue or the next one. It is in the middle only of a result of the queue. */
bool reader_position_is_valid(const struct reader *reader) {
  const struct sink *sink = reader->sink;
  bool is_there = reader->at >= sink->first && reader->at <= sink->tail;
  bool is_between = reader->sent == 0;
  return (is_there || reader_has_rest(reader)) &&
         (is_between || (reader->at < sink->tail && reader->sent < whole_bytes(reader)));
}

static void take_counts(struct reader *reader, const struct reader *left) {
  reader->emitted = left->emitted;
  reader->missed = left->missed;
}

/* A reader whose attach order had not reached the lane starts like a new one. */
static bool adopt_position(struct reader *reader, const struct reader *left, sink_flow_lookup *lookup, void *context) {
  take_counts(reader, left);
  reader->continues = left->link != NULL;
  if (!adopt_header(reader, left) || !reader->continues) {
    return !reader->continues;
  }
  reader->at = left->at;
  reader->sent = left->sent;
  reader->skipped = left->skipped;
  if (reader->sent == 0 && reader->at < reader->sink->first) { /* their memory is lost */
    reader->missed += reader->sink->first - reader->at;
    reader->at = reader->sink->first;
  }
  return take_rest(reader, left) && reader_position_is_valid(reader) && take_rest_frame(reader, left, lookup, context);
}

struct reader *reader_adopt(struct sink *sink, const struct reader *left, int fd, sink_flow_lookup *lookup, void *context,
                            bool *cut) {
  struct failure failure;
  bool gone = left && IMAGE_IS_FLAG(left->leaving) && left->leaving;
  *cut = !gone;
  if (!left || gone || mark_is_set(&left->mark)) {
    for (uint64_t at = sink->first; !gone && at < sink->tail; at++) {
      result_mark_again(sink_result(sink, at)); /* the reader may have had it, and will connect again */
    }
    return NULL;
  }
  struct reader *reader = reader_new(sink, fd, &failure);
  if (!reader || !adopt_position(reader, left, lookup, context)) {
    return reader_free(reader);
  }
  *cut = false;
  return reader;
}

/* The file continues after its last complete result, and the next one is written again. A file that was never written to, or
 * was truncated since, continues at its end. */
struct reader *reader_adopt_file(struct sink *sink, const struct reader *left, int fd, uint64_t *torn) {
  struct failure failure;
  struct stat status;
  struct reader *reader = fstat(fd, &status) == 0 ? reader_new(sink, fd, &failure) : NULL;
  *torn = 0;
  if (!reader) {
    return NULL;
  }
  take_counts(reader, left);
  reader->segment.until = image_is_time(left->segment.until) ? left->segment.until : 0;
  reader->segment.shift = image_is_shift(left->segment.shift) ? left->segment.shift : 0;
  bool is_regular = S_ISREG(status.st_mode), is_short = is_regular && status.st_size < sink->file.position;
  sink->file.position = is_short ? -1 : sink->file.position;
  reader->continues = sink->file.position >= 0;
  if (reader->continues && is_regular && status.st_size > sink->file.position) {
    *torn = (uint64_t)(status.st_size - sink->file.position);
    sink->file.torn = ftruncate(fd, sink->file.position) != 0;
  }
  return reader;
}
