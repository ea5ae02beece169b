#include "daemon/frame/receive.h"

#include <assert.h>
#include <string.h>

#include "daemon/wire/native.h"

void fill_init(struct fill *fill, struct road *road, enum config_protocol protocol, const struct frame_format *format,
               unsigned char *discard) {
  memset(fill, 0, sizeof *fill);
  fill->road = road;
  fill->protocol = protocol;
  fill->format = *format;
  fill->discard = discard;
  fill_start(fill);
}

void fill_start(struct fill *fill) {
  assert(!fill->begun);
  fill->sequence = 0;
  fill->producer++;
  fill->restart = true;
  fill->foreign = STRANGER_UNKNOWN;
  fill_rewind(fill);
}

void fill_rewind(struct fill *fill) {
  framing_start(&fill->framing, fill->protocol, &fill->format);
  fill->since = 0;
  fill->staged_at = fill->staged_end = 0;
  fill->discard_next = false;
}

/* -- frames ---------------------------------------------------------------------------------------------------- */

/* Whether a frame that begins now has somewhere to go. With drop-oldest the dispatch keeps a slot free. */
static bool may_begin(const struct fill *fill) {
  const struct road *road = fill->road;
  return !fill->held && (slot_count(&road->ring, SLOT_FREE) > 0 || road->overload == CONFIG_OVERLOAD_DROP_NEWEST);
}

static void begin_frame(struct fill *fill, int64_t now) {
  struct frame frame = {.sequence = fill->sequence++,
                        .producer = fill->producer,
                        .restart = fill->restart,
                        .rate = fill->framing.rate.frames > 0 ? fill->framing.rate : fill->rate,
                        .began = fill->read_began,
                        .first_byte = fill->read_began};
  account_open(fill->road->account, &frame);
  fill->begun = true;
  fill->spoiled = false;
  fill->filled = 0;
  fill->since = now;
  fill->filling = fill->discard_next ? NULL : slot_oldest(&fill->road->ring, SLOT_FREE);
  fill->discard_next = false;
  if (!fill->filling) {
    assert(fill->road->overload == CONFIG_OVERLOAD_DROP_NEWEST);
    account_settle(fill->road->account, &frame, FATE_NEWEST, now);
    return;
  }
  fill->restart = false;
  fill->filling->frame = frame;
  slot_move(&fill->road->ring, fill->filling, SLOT_FILLING);
}

/* What a native producer says of its frame. A capture in the future is none. */
static void stamp_frame(struct fill *fill, int64_t now) {
  const struct frame_stamp *stamp = &fill->framing.stamp;
  struct slot *slot = fill->filling;
  fill->spoiled = stamp->taken > now || stamp->taken < 0 || stamp->deadline < 0;
  if (slot && !fill->spoiled) {
    slot->frame.tag = stamp->tag;
    slot->frame.flags = stamp->flags;
    slot->frame.began = stamp->taken != 0 ? stamp->taken : slot->frame.first_byte;
    slot->frame.deadline = stamp->deadline;
  }
}

static void drop_spoiled(struct fill *fill, struct slot *slot, int64_t now) {
  fill->restart |= slot->frame.restart;
  road_drop(fill->road, slot, FATE_INVALID, now);
}

static void finish_frame(struct fill *fill, int64_t now) {
  struct slot *slot = fill->filling;
  fill->filling = NULL;
  fill->begun = false;
  fill->since = 0;
  framing_next(&fill->framing);
  if (!slot) {
    return;
  }
  if (fill->spoiled) {
    drop_spoiled(fill, slot, now);
    return;
  }
  slot->frame.complete = now;
  histogram_record(&fill->road->account->steps[STEP_RECEIVE], now - slot->frame.first_byte);
  slot_move(&fill->road->ring, slot, SLOT_READY);
  fill->road->active = now;
}

/* -- bytes ------------------------------------------------------------------------------------------------------- */

static size_t payload_left(const struct fill *fill) { return fill->road->input_bytes - fill->filled; }

static void add(struct iovec *vector, int *count, void *base, size_t length) {
  vector[*count] = (struct iovec){.iov_base = base, .iov_len = length};
  (*count)++;
}

/* A dropped frame is read through the discard buffer, and what comes after it is decided then. */
static int discard_vector(struct fill *fill, struct iovec *vector) {
  size_t left = fill->begun ? payload_left(fill) : fill->road->input_bytes;
  int count = 0;
  fill->discard_next = !fill->begun;
  add(vector, &count, fill->discard, left < FILL_DISCARD ? left : FILL_DISCARD);
  return count;
}

/* The payload that is due, in the slot it has or will have. Frames without preambles may fill several free slots. */
static int payload_vector(struct fill *fill, struct iovec *vector) {
  struct slot_ring *ring = &fill->road->ring;
  int count = 0;
  unsigned next_free = 0;
  if (fill->begun && fill->filling) {
    add(vector, &count, fill->filling->input + fill->filled, payload_left(fill));
  } else if (fill->begun || slot_count(ring, SLOT_FREE) == 0) {
    return discard_vector(fill, vector);
  } else {
    add(vector, &count, slot_at(ring, SLOT_FREE, next_free++)->input, fill->road->input_bytes);
  }
  bool more = fill->protocol == CONFIG_PROTOCOL_RAW && !fill->held && !fill->one_by_one;
  while (more && count < FILL_VECTORS && next_free < slot_count(ring, SLOT_FREE)) {
    add(vector, &count, slot_at(ring, SLOT_FREE, next_free++)->input, fill->road->input_bytes);
  }
  return count;
}

/* How much to read of preambles: enough for a whole one as a rule, and never so much that a payload would have to be
 * copied for it. */
static size_t staging_wanted(const struct fill *fill) {
  size_t shortest = framing_shortest(&fill->framing);
  if (fill->framing.state == FRAMING_FRAME && fill->framing.length < shortest) {
    return shortest - fill->framing.length;
  }
  return fill->framing.state == FRAMING_FRAME ? 16 : FILL_STAGING;
}

/* What may be read behind this payload without touching the next one; nothing if the next frame would have no slot. */
static size_t lookahead(const struct fill *fill) {
  bool whole = payload_left(fill) == fill->direct;
  bool room = slot_count(&fill->road->ring, SLOT_FREE) > 0 && !fill->held && !fill->one_by_one;
  return whole && room ? framing_shortest(&fill->framing) : 0;
}

static bool take_staged(struct fill *fill, int64_t now);

int fill_vector(struct fill *fill, struct iovec vector[FILL_VECTORS], int64_t now) {
  int count = 0;
  fill->direct = 0;
  fill->discard_next = false;
  fill->read_began = now;
  if (!take_staged(fill, now)) {
    return -1;
  }
  if (fill_has_staged(fill) || (!fill->begun && !may_begin(fill))) {
    return 0;
  }
  if (fill->framing.state != FRAMING_PAYLOAD) {
    add(vector, &count, fill->staging, staging_wanted(fill));
    return count;
  }
  count = payload_vector(fill, vector);
  for (int i = 0; i < count; i++) {
    fill->direct += vector[i].iov_len;
  }
  size_t behind = lookahead(fill);
  if (behind > 0) {
    add(vector, &count, fill->staging, behind);
  }
  return count;
}

/* Any bytes may be raw frames, so that this only explains why they do not come out even. */
static void look_at_first(struct fill *fill) {
  if (fill->protocol == CONFIG_PROTOCOL_RAW && fill->sequence == 1 && fill->filling && !fill->foreign) {
    fill->foreign = protocol_recognise(fill->filling->input, fill->filled);
  }
}

/* Payload bytes that are in place already. */
static void take_direct(struct fill *fill, size_t count, int64_t now) {
  while (count > 0) {
    if (!fill->begun) {
      begin_frame(fill, now);
    }
    size_t part = count < payload_left(fill) ? count : payload_left(fill);
    fill->filled += part;
    count -= part;
    look_at_first(fill);
    if (payload_left(fill) == 0) {
      finish_frame(fill, now);
    }
  }
}

static size_t copy_payload(struct fill *fill, const unsigned char *bytes, size_t count) {
  size_t part = count < payload_left(fill) ? count : payload_left(fill);
  if (fill->filling) {
    memcpy(fill->filling->input + fill->filled, bytes, part);
  }
  fill->filled += part;
  return part;
}

/* The header ends alone, so that the first frame begins with a byte of its own. */
static size_t preamble_part(const struct fill *fill, const unsigned char *bytes, size_t count) {
  const unsigned char *end = fill->framing.state == FRAMING_HEADER ? memchr(bytes, '\n', count) : NULL;
  return end ? (size_t)(end - bytes) + 1 : count;
}

static bool take_preamble(struct fill *fill, const unsigned char *bytes, size_t *count, int64_t now) {
  bool in_header = fill->framing.state == FRAMING_HEADER;
  size_t part = preamble_part(fill, bytes, *count);
  *count = framing_take(&fill->framing, (const char *)bytes, part, fill->problem);
  if (in_header && fill->framing.state != FRAMING_HEADER) {
    fill->since = 0;
  }
  if (*count != SIZE_MAX && fill->protocol == CONFIG_PROTOCOL_NATIVE && fill->framing.state == FRAMING_PAYLOAD) {
    stamp_frame(fill, now);
  }
  return *count != SIZE_MAX;
}

/* Begins what the next staged byte begins; false: a frame, and it has to wait. The y4m header is timed like a
 * frame: a producer that never ended it would hold its place for ever. */
static bool note_beginning(struct fill *fill, int64_t now) {
  if (fill->framing.state == FRAMING_HEADER) {
    fill->since = fill->since == 0 ? now : fill->since;
  } else if (!fill->begun) {
    if (!may_begin(fill)) {
      return false;
    }
    begin_frame(fill, now);
  }
  return true;
}

/* Takes as many staged bytes as there are slots for. False: malformed. */
static bool take_staged(struct fill *fill, int64_t now) {
  while (fill_has_staged(fill) && note_beginning(fill, now)) {
    const unsigned char *bytes = fill->staging + fill->staged_at;
    size_t count = fill->staged_end - fill->staged_at;
    if (fill->framing.state == FRAMING_PAYLOAD) {
      count = copy_payload(fill, bytes, count);
    } else if (!take_preamble(fill, bytes, &count, now)) {
      return false;
    }
    fill->staged_at += (unsigned)count;
    fill->road->unnoted = true;
    if (fill->begun && fill->framing.state == FRAMING_PAYLOAD && payload_left(fill) == 0) {
      finish_frame(fill, now);
    }
  }
  return true;
}

bool fill_advance(struct fill *fill, size_t count, int64_t began, int64_t now) {
  fill->read_began = began;
  fill->road->active = now;
  fill->road->unnoted = true;
  fill->road->account->now.ledger.in_bytes += count;
  size_t direct = count < fill->direct ? count : fill->direct;
  take_direct(fill, direct, now);
  fill->staged_at = 0;
  fill->staged_end = (unsigned)(count - direct);
  return take_staged(fill, now);
}

bool fill_end(struct fill *fill, enum fate fate, int64_t now) {
  fill->road->unnoted = true;
  bool clean = !fill->begun && fill->framing.length == 0 && !fill_has_staged(fill);
  if (fill->begun && fill->filling) {
    road_drop(fill->road, fill->filling, fate, now);
  }
  fill->begun = false;
  fill->filling = NULL;
  fill->since = 0;
  return clean;
}

/* -- over a tape --------------------------------------------------------------------------------------------------- */

static void pass_framing(struct framing *framing, struct tape *tape) {
  TAPE_PASS(tape, framing->stamp);
  TAPE_PASS(tape, framing->rate);
  unsigned state = framing->state, length = (unsigned)framing->length;
  tape_pass_below(tape, &state, FRAMING_PAYLOAD + 1);
  tape_pass_below(tape, &length, framing->protocol == CONFIG_PROTOCOL_NATIVE ? NATIVE_FRAME_BYTES : PROTOCOL_LINE + 1);
  tape_pass(tape, framing->line, length);
  framing->state = (enum framing_state)state;
  framing->length = length;
}

/* The slot that is being filled is the one that is FILLING; a frame without one is being discarded. */
static bool is_sound(const struct fill *fill) {
  unsigned filling = slot_count(&fill->road->ring, SLOT_FILLING);
  return filling <= (fill->begun ? 1U : 0U) && (!fill->begun || filling == 1 || fill->discard) &&
         fill->filled <= fill->road->input_bytes && fill->staged_at <= fill->staged_end;
}

void fill_pass(struct fill *fill, struct tape *tape) {
  unsigned protocol = fill->protocol;
  tape_pass_below(tape, &protocol, CONFIG_PROTOCOL_AUTO + 1);
  if (!tape->writing) {
    fill->protocol = (enum config_protocol)protocol;
    framing_start(&fill->framing, fill->protocol, &fill->format);
  }
  pass_framing(&fill->framing, tape);
  TAPE_PASS(tape, fill->rate);
  TAPE_PASS(tape, fill->begun);
  TAPE_PASS(tape, fill->filled);
  tape_pass_time(tape, &fill->since);
  TAPE_PASS(tape, fill->sequence);
  TAPE_PASS(tape, fill->producer);
  TAPE_PASS(tape, fill->restart);
  TAPE_PASS(tape, fill->spoiled);
  unsigned foreign = fill->foreign;
  tape_pass_below(tape, &foreign, STRANGER_COUNT);
  fill->foreign = (enum stranger)foreign;
  tape_pass_below(tape, &fill->staged_at, FILL_STAGING + 1);
  tape_pass_below(tape, &fill->staged_end, FILL_STAGING + 1);
  tape_pass(tape, fill->staging, fill->staged_end);
  if (tape->writing) {
    return;
  }
  fill->filling = slot_oldest(&fill->road->ring, SLOT_FILLING);
  if (!is_sound(fill)) {
    tape_break(tape);
  }
}
