/*
 * A sink and its readers over a tape: what has been written of which result, so that the next image of the program goes on at
 * the byte where this one stopped. While this runs no lane does.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/handoff.h"
#include "daemon/sink_results.h"

/* -- results ------------------------------------------------------------------------------------------------------- */

/* The session's part of a result: its slot is EMITTING, and its frame is in flight at the sink if it has no fate. */
static void restore_result(struct result *result, struct road *road, unsigned index, struct tape *tape) {
  if (!road || index >= road->ring.count || road->ring.slots[index].state != SLOT_EMITTING) {
    tape_break(tape);
    return;
  }
  result->road = road;
  result->slot = &road->ring.slots[index];
  result->slot->frame.open = false;
  road->at_sink += result->frame.open;
  if (road->handoff) {
    handoff_restore(road->handoff, result->slot, &result->frame);
  }
}

static void pass_result(struct result *result, struct tape *tape, sink_road *road, void *context) {
  unsigned seat = tape->writing ? result->road->seat : 0;
  unsigned index = tape->writing ? result->slot->index : 0;
  TAPE_PASS(tape, seat);
  TAPE_PASS(tape, index);
  TAPE_PASS(tape, result->frame);
  TAPE_PASS(tape, result->native);
  if (!tape->writing && !tape->broken) {
    restore_result(result, road(context, seat), index, tape);
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
  unsigned count = sink->count;
  forget_tape(sink);
  TAPE_PASS(tape, sink->first);
  tape_pass_below(tape, &count, GPU_MAX_SLOTS + 1);
  for (unsigned i = 0; i < count && !tape->broken; i++) {
    pass_result(sink_result(sink, sink->first + i), tape, road, context);
    sink->count = i + 1;
  }
  TAPE_PASS(tape, sink->position);
  TAPE_PASS(tape, sink->written);
  TAPE_PASS(tape, sink->torn);
  TAPE_PASS(tape, sink->lost);
  if (tape->broken && !tape->writing) {
    sink->count = 0; /* none of it is used */
  }
}

/* -- readers ------------------------------------------------------------------------------------------------------- */

/* Of several readers that hold the rest of one open frame, the first one on the tape speaks for it. */
static void put_rest_frame(struct reader *reader, struct tape *tape) {
  struct pending *pending = reader->rest_of;
  bool open = pending && pending->frame.open && pending->on_tape != tape;
  TAPE_PASS(tape, open);
  if (open) {
    TAPE_PASS(tape, pending->road->seat);
    TAPE_PASS(tape, pending->frame);
    pending->on_tape = tape;
  }
}

static void take_rest_frame(struct reader *reader, struct tape *tape, sink_road *road, void *context) {
  bool open = false;
  unsigned seat = 0;
  struct frame frame;
  TAPE_PASS(tape, open);
  if (!open || tape->broken) {
    return;
  }
  TAPE_PASS(tape, seat);
  TAPE_PASS(tape, frame);
  struct road *of = tape->broken ? NULL : road(context, seat);
  if (!of || !reader->spare) {
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

static void pass_place(struct reader *reader, const struct sink *sink, struct tape *tape) {
  uint64_t tail = sink_tail(sink);
  TAPE_PASS(tape, reader->at);
  TAPE_PASS(tape, reader->sent);
  TAPE_PASS(tape, tail);
  if (reader->at > tail || reader->sent > NATIVE_RESULT_BYTES + sink->result_bytes) {
    tape_break(tape);
  }
}

static void pass_rest(struct reader *reader, const struct sink *sink, struct tape *tape) {
  uint64_t rest = reader->rest_end - reader->rest_at;
  TAPE_PASS(tape, rest);
  if (rest > NATIVE_RESULT_BYTES + sink->result_bytes || (rest > 0 && !reader->buffer)) {
    tape_break(tape);
    return;
  }
  if (rest > 0) {
    tape_pass(tape, reader->buffer + reader->rest_at, (size_t)rest);
  }
  reader->rest_end = reader->rest_at + (size_t)rest;
}

static void pass(struct reader *reader, const struct sink *sink, struct tape *tape) {
  pass_counts(reader, tape);
  pass_header(reader, tape);
  pass_place(reader, sink, tape);
  pass_rest(reader, sink, tape);
}

struct reader *reader_pass(struct reader *reader, struct sink *sink, struct tape *tape, sink_road *road, void *context) {
  int fd = reader ? reader->fd : -1;
  struct failure failure;
  tape_pass_descriptor(tape, &fd);
  if (tape->writing) {
    pass(reader, sink, tape);
    put_rest_frame(reader, tape);
    return reader;
  }
  struct reader *taken = fd >= 0 ? reader_new(sink, fd, &failure) : NULL;
  if (!taken) {
    tape_break(tape);
    return NULL;
  }
  taken->continues = true;
  pass(taken, sink, tape);
  take_rest_frame(taken, tape, road, context);
  return taken;
}
