#include "daemon/frame/receive.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "daemon/state/image.h"
#include "daemon/wire/native.h"

void receive_init(struct receive *receive, struct flow *flow, enum config_protocol protocol, const struct frame_format *format,
                  unsigned char *discard) {
  memset(receive, 0, sizeof *receive);
  receive->flow = flow;
  receive->protocol = protocol;
  receive->format = *format;
  receive->discard = discard;
  receive_start(receive);
}

/* Makes epochs unique for producers that begin within one microsecond, on any lane. */
static uint64_t new_epoch(void) {
  static _Atomic uint64_t last;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t epoch = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
  uint64_t before = atomic_load(&last);
  uint64_t next;
  do {
    next = epoch > before ? epoch : before + 1;
  } while (!atomic_compare_exchange_weak(&last, &before, next));
  return next;
}

void receive_start(struct receive *receive) {
  assert(!receive->begun);
  receive->sequence = 0;
  receive->producer++;
  receive->epoch = new_epoch();
  receive->restart = true;
  receive->foreign = STRANGER_UNKNOWN;
  receive_rewind(receive);
}

void receive_rewind(struct receive *receive) {
  framing_start(&receive->framing, receive->protocol, &receive->format);
  receive->since = 0;
  receive->staged_at = receive->staged_end = 0;
  receive->discard_next = false;
}

/* -- frames ---------------------------------------------------------------------------------------------------- */

/* True if a frame that begins now has somewhere to go. With drop-oldest dispatch keeps a slot free. */
static bool receive_may_begin(const struct receive *receive) {
  const struct flow *flow = receive->flow;
  return !receive->held && (slot_count(&flow->ring, SLOT_FREE) > 0 || flow->overload == CONFIG_OVERLOAD_DROP_NEWEST);
}

static void open_frame(struct receive *receive, struct frame *frame) {
  *frame = (struct frame){.sequence = receive->sequence,
                          .tag = receive->sequence,
                          .producer = receive->producer,
                          .epoch = receive->epoch,
                          .restart = receive->restart,
                          .rate = receive->framing.rate.frames > 0 ? receive->framing.rate : receive->rate,
                          .look = receive->framing.look,
                          .began = receive->read_began,
                          .first_byte = receive->read_began};
  receive->sequence++;
  account_open(receive->flow->account, frame);
}

static void begin_frame(struct receive *receive, int64_t now) {
  struct frame dropped;
  struct slot *slot = receive->discard_next ? NULL : slot_oldest(&receive->flow->ring, SLOT_FREE);
  struct frame *frame = slot ? &slot->frame : &dropped;
  open_frame(receive, frame);
  receive->begun = true;
  receive->invalid = false;
  receive->filled = 0;
  receive->since = now;
  receive->filling = slot;
  receive->discard_next = false;
  if (!slot) {
    assert(receive->flow->overload == CONFIG_OVERLOAD_DROP_NEWEST);
    account_settle(receive->flow->account, frame, FATE_NEWEST, now);
    return;
  }
  receive->restart = false;
  slot_move(&receive->flow->ring, slot, SLOT_FILLING);
}

/* Stores what a native producer sent with its frame. Returns false if it is impossible, like a capture in the future. */
static bool stamp_frame(struct frame *frame, const struct frame_stamp *stamp, int64_t now) {
  frame->tag = stamp->tag;
  frame->flags = stamp->flags;
  if (stamp->taken > now || stamp->taken < 0 || stamp->deadline < 0) {
    return false;
  }
  frame->began = stamp->taken != 0 ? stamp->taken : frame->first_byte;
  frame->deadline = stamp->deadline;
  return true;
}

static const struct segment_entry *entry_of(const struct receive *receive, uint64_t sequence) {
  uint64_t number = sequence - receive->rewound_at;
  return receive->entries && number < receive->entry_count ? &receive->entries[number] : NULL;
}

int64_t receive_gap(const struct receive *receive, uint64_t sequence) {
  const struct segment_entry *entry = entry_of(receive, sequence);
  return entry && entry != receive->entries && entry->came > entry[-1].came ? entry->came - entry[-1].came : 0;
}

/* Restores the age and the deadline that the frame had when it was recorded. Stages reset their state at the same frames as
 * then. */
static void take_recorded(const struct receive *receive, struct frame *frame) {
  const struct segment_entry *entry = entry_of(receive, frame->sequence);
  if (entry) {
    frame->recorded = true;
    frame->tag = entry->tag;
    frame->restart = frame->restart || (entry->flags & SEGMENT_RESTART) != 0;
    int64_t age = entry->came > entry->stamp ? entry->came - entry->stamp : 0;
    frame->began = age < frame->complete ? frame->complete - age : 1;
    frame->deadline = entry->deadline != 0 ? frame->complete + entry->deadline - entry->came : 0;
  }
}

static void finish_frame(struct receive *receive, int64_t now) {
  struct slot *slot = receive->filling;
  receive->filling = NULL;
  receive->begun = false;
  receive->since = 0;
  framing_next(&receive->framing);
  if (!slot) {
    return;
  }
  if (receive->invalid) {
    receive->restart |= slot->frame.restart;
    flow_drop(receive->flow, slot, FATE_INVALID, now);
    return;
  }
  slot->frame.complete = now;
  if (receive->entries) {
    take_recorded(receive, &slot->frame);
  }
  flow_ready(receive->flow, slot, now);
}

void receive_whole(struct receive *receive, struct slot *slot, const struct native_frame *stamp, int64_t now) {
  now = stamp->timestamp > now ? clock_now() : now; /* the client may have taken its time after this turn began */
  receive->read_began = now;
  open_frame(receive, &slot->frame);
  receive->flow->account->now.ledger.in_bytes += receive->flow->input_bytes;
  slot_move(&receive->flow->ring, slot, SLOT_FILLING);
  const struct frame_stamp said = {stamp->sequence, stamp->flags, stamp->timestamp, stamp->deadline};
  if (!stamp_frame(&slot->frame, &said, now)) {
    flow_drop(receive->flow, slot, FATE_INVALID, now);
    return;
  }
  receive->restart = false;
  slot->frame.complete = now;
  flow_ready(receive->flow, slot, now);
}

/* -- bytes ------------------------------------------------------------------------------------------------------- */

static size_t payload_left(const struct receive *receive) { return receive->flow->input_bytes - receive->filled; }

static void receive_add(struct receive *receive, struct iovec *vector, int *count, void *base, size_t length) {
  vector[(*count)++] = (struct iovec){.iov_base = base, .iov_len = length};
  receive->wanted += length;
}

/* Reads a dropped frame through the discard buffer. The frame after it is decided on when it begins. */
static int discard_vector(struct receive *receive, struct iovec *vector) {
  size_t left = receive->begun ? payload_left(receive) : receive->flow->input_bytes;
  int count = 0;
  receive->discard_next = !receive->begun;
  receive_add(receive, vector, &count, receive->discard, left < RECEIVE_DISCARD ? left : RECEIVE_DISCARD);
  return count;
}

/* Payload goes into the slot of the frame, or of the next frame. A protocol without preambles may fill several free slots. */
static int payload_vector(struct receive *receive, struct iovec *vector) {
  const struct slot_ring *ring = &receive->flow->ring;
  int count = 0;
  unsigned next_free = 0, free = slot_count(ring, SLOT_FREE);
  if (receive->begun && receive->filling) {
    receive_add(receive, vector, &count, receive->filling->input + receive->filled, payload_left(receive));
  } else if (receive->begun || free == 0) {
    return discard_vector(receive, vector);
  } else {
    receive_add(receive, vector, &count, slot_at(ring, SLOT_FREE, next_free++)->input, receive->flow->input_bytes);
  }
  bool more = receive->protocol == CONFIG_PROTOCOL_RAW && !receive->held && !receive->one_by_one;
  while (more && count < RECEIVE_VECTORS && next_free < free) {
    receive_add(receive, vector, &count, slot_at(ring, SLOT_FREE, next_free++)->input, receive->flow->input_bytes);
  }
  return count;
}

/* How much of a preamble to read: usually all of it, but never so much that payload has to be copied. */
static size_t staging_wanted(const struct receive *receive) {
  size_t shortest = framing_shortest(&receive->framing);
  if (receive->framing.state == FRAMING_FRAME && receive->framing.length < shortest) {
    return shortest - receive->framing.length;
  }
  return receive->framing.state == FRAMING_FRAME ? 16 : RECEIVE_STAGING;
}

/* How much may be read behind this payload without touching the next one. 0 if the next frame would have no slot. */
static size_t lookahead(const struct receive *receive) {
  bool whole = payload_left(receive) == receive->direct;
  bool room = slot_count(&receive->flow->ring, SLOT_FREE) > 0 && !receive->held && !receive->one_by_one;
  return whole && room ? framing_shortest(&receive->framing) : 0;
}

static bool take_staged(struct receive *receive, int64_t now);

int receive_vector(struct receive *receive, struct iovec vector[RECEIVE_VECTORS], int64_t now) {
  int count = 0;
  receive->wanted = receive->direct = 0;
  receive->discard_next = false;
  receive->read_began = now;
  if (receive_has_staged(receive)) {
    if (!take_staged(receive, now)) {
      return -1;
    }
    if (receive_has_staged(receive)) {
      return 0;
    }
  }
  if (!receive->begun && !receive_may_begin(receive)) {
    return 0;
  }
  if (receive->framing.state != FRAMING_PAYLOAD) {
    receive_add(receive, vector, &count, receive->staging, staging_wanted(receive));
    return count;
  }
  count = payload_vector(receive, vector);
  receive->direct = receive->wanted;
  size_t behind = receive->protocol != CONFIG_PROTOCOL_RAW ? lookahead(receive) : 0;
  if (behind > 0) {
    receive_add(receive, vector, &count, receive->staging, behind);
  }
  return count;
}

static size_t copy_payload(struct receive *receive, const unsigned char *bytes, size_t count) {
  size_t part = count < payload_left(receive) ? count : payload_left(receive);
  if (receive->filling) {
    memcpy(receive->filling->input + receive->filled, bytes, part);
  }
  receive->filled += part;
  return part;
}

/* A y4m header ends here, so that the first frame begins with its own byte. */
static size_t preamble_part(const struct receive *receive, const unsigned char *bytes, size_t count) {
  const unsigned char *end = receive->framing.state == FRAMING_HEADER ? memchr(bytes, '\n', count) : NULL;
  return end ? (size_t)(end - bytes) + 1 : count;
}

static bool take_preamble(struct receive *receive, const unsigned char *bytes, size_t *count, int64_t now) {
  bool in_header = receive->framing.state == FRAMING_HEADER;
  size_t part = preamble_part(receive, bytes, *count);
  *count = framing_take(&receive->framing, (const char *)bytes, part, receive->problem);
  if (in_header && receive->framing.state != FRAMING_HEADER) {
    receive->since = 0;
  }
  if (*count != SIZE_MAX && receive->protocol == CONFIG_PROTOCOL_NATIVE && receive->framing.state == FRAMING_PAYLOAD) {
    struct slot *slot = receive->filling;
    receive->invalid = slot && !stamp_frame(&slot->frame, &receive->framing.stamp, now);
  }
  return *count != SIZE_MAX;
}

/* Starts the header or the frame that the next staged byte belongs to. Returns false if that frame has to wait. The y4m header
 * has a timeout like a frame, because a producer that never ends it would occupy its session for ever. */
static bool note_beginning(struct receive *receive, int64_t now) {
  if (receive->framing.state == FRAMING_HEADER) {
    receive->since = receive->since == 0 ? now : receive->since;
  } else if (!receive->begun) {
    if (!receive_may_begin(receive)) {
      return false;
    }
    begin_frame(receive, now);
  }
  return true;
}

/* Processes the staged bytes for which there are slots. Returns false if they are malformed. */
static bool take_staged(struct receive *receive, int64_t now) {
  while (receive_has_staged(receive) && note_beginning(receive, now)) {
    const unsigned char *bytes = receive->staging + receive->staged_at;
    size_t count = receive->staged_end - receive->staged_at;
    if (receive->framing.state == FRAMING_PAYLOAD) {
      count = copy_payload(receive, bytes, count);
    } else if (!take_preamble(receive, bytes, &count, now)) {
      return false;
    }
    receive->staged_at += (unsigned)count;
    if (receive->begun && receive->framing.state == FRAMING_PAYLOAD && payload_left(receive) == 0) {
      finish_frame(receive, now);
    }
  }
  return true;
}

bool receive_advance(struct receive *receive, size_t count, int64_t began, int64_t now) {
  receive->read_began = began;
  receive->flow->active = now;
  receive->flow->account->now.ledger.in_bytes += count;
  const size_t direct = count < receive->direct ? count : receive->direct;
  for (size_t left = direct; left > 0;) { /* payload that was read into its place */
    if (!receive->begun) {
      begin_frame(receive, now);
    }
    const size_t missing = payload_left(receive), part = left < missing ? left : missing;
    receive->filled += part;
    left -= part;
    /* Any bytes may be a raw frame. The guess only explains why the last frame is incomplete. */
    if (receive->sequence == 1 && receive->protocol == CONFIG_PROTOCOL_RAW && receive->filling && !receive->foreign) {
      receive->foreign = protocol_recognise(receive->filling->input, receive->filled);
    }
    if (part == missing) {
      finish_frame(receive, now);
    }
  }
  receive->staged_at = 0;
  receive->staged_end = (unsigned)(count - direct);
  return receive->staged_end == 0 || take_staged(receive, now);
}

bool receive_end(struct receive *receive, enum fate fate, int64_t now) {
  bool clean = !receive->begun && receive->framing.length == 0 && !receive_has_staged(receive);
  if (receive->begun && receive->filling) {
    flow_drop(receive->flow, receive->filling, fate, now);
  }
  receive->begun = false;
  receive->filling = NULL;
  receive->since = 0;
  return clean;
}

/* -- taking over from the previous process ----------------------------------------------------------------------------- */

static bool framing_adopt(struct framing *framing, const struct framing *left) {
  size_t limit = framing->protocol == CONFIG_PROTOCOL_NATIVE ? NATIVE_FRAME_BYTES : PROTOCOL_LINE + 1;
  if ((unsigned)left->state > FRAMING_PAYLOAD || left->length >= limit || !y4m_look_is_sound(&left->look)) {
    return false;
  }
  framing->stamp = left->stamp;
  framing->rate = left->rate;
  framing->look = left->look;
  framing->state = left->state;
  framing->length = left->length;
  memcpy(framing->line, left->line, left->length);
  return true;
}

/* A begun frame is in the FILLING slot, or it has none and is being discarded. */
static bool receive_is_sound(const struct receive *receive) {
  unsigned filling = slot_count(&receive->flow->ring, SLOT_FILLING);
  return filling <= (receive->begun ? 1U : 0U) && (!receive->begun || filling == 1 || receive->discard) &&
         receive->filled <= receive->flow->input_bytes;
}

bool receive_adopt(struct receive *receive, const struct receive *left) {
  bool whole = (unsigned)left->protocol < CONFIG_PROTOCOL_COUNT && (unsigned)left->foreign < STRANGER_COUNT &&
               IMAGE_IS_FLAG(left->begun) && IMAGE_IS_FLAG(left->restart) && IMAGE_IS_FLAG(left->invalid) &&
               image_is_time(left->since) && left->staged_at <= left->staged_end && left->staged_end <= RECEIVE_STAGING;
  if (!whole) {
    return false;
  }
  receive->protocol = left->protocol;
  framing_start(&receive->framing, receive->protocol, &receive->format);
  receive->rate = left->rate;
  receive->begun = left->begun;
  receive->filled = left->filled;
  receive->since = left->since;
  receive->sequence = left->sequence;
  receive->producer = left->producer;
  receive->epoch = left->epoch;
  receive->restart = left->restart;
  receive->invalid = left->invalid;
  receive->foreign = left->foreign;
  receive->staged_at = left->staged_at;
  receive->staged_end = left->staged_end;
  memcpy(receive->staging, left->staging, sizeof receive->staging);
  receive->filling = slot_oldest(&receive->flow->ring, SLOT_FILLING);
  return framing_adopt(&receive->framing, &left->framing) && receive_is_sound(receive);
}
