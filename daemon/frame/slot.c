#include "daemon/frame/slot.h"

#include <assert.h>
#include <string.h>

const char *const slot_state_names[SLOT_STATES] = {"free", "filling", "ready", "running", "done", "emitting", "failed"};

#define TO(state) (1U << (state))

/* From each state, where a slot may go. Backwards to FREE means that its frame got its fate there. */
static const unsigned transitions[SLOT_STATES] = {
    [SLOT_FREE] = TO(SLOT_FILLING),
    [SLOT_FILLING] = TO(SLOT_READY) | TO(SLOT_FREE),
    [SLOT_READY] = TO(SLOT_RUNNING) | TO(SLOT_FREE),
    [SLOT_RUNNING] = TO(SLOT_DONE) | TO(SLOT_FAILED),
    [SLOT_DONE] = TO(SLOT_EMITTING) | TO(SLOT_FREE),
    [SLOT_EMITTING] = TO(SLOT_FREE),
    [SLOT_FAILED] = 0, /* a dead device may still write to it: never used again */
};

void slot_ring_init(struct slot_ring *ring, unsigned count) {
  assert(count >= 1 && count <= GPU_MAX_SLOTS);
  memset(ring, 0, sizeof *ring);
  ring->count = count;
  for (unsigned i = 0; i < count; i++) {
    ring->slots[i].index = i;
    ring->queues[SLOT_FREE].items[i] = &ring->slots[i];
  }
  ring->queues[SLOT_FREE].count = count;
}

bool slot_may_move(enum slot_state from, enum slot_state to) { return (transitions[from] & TO(to)) != 0; }

static struct slot **slot_place(struct slot_queue *queue, unsigned n) {
  return &queue->items[(queue->first + n) % GPU_MAX_SLOTS];
}

/* Moves those before the slot one place back, over it. */
static void slot_close_gap(struct slot_queue *queue, const struct slot *slot) {
  unsigned at = 0;
  while (*slot_place(queue, at) != slot) {
    at++;
    assert(at < queue->count);
  }
  for (; at > 0; at--) {
    *slot_place(queue, at) = *slot_place(queue, at - 1);
  }
}

/* Slots nearly always leave from the front. */
void slot_move(struct slot_ring *ring, struct slot *slot, enum slot_state to) {
  struct slot_queue *from = &ring->queues[slot->state], *queue = &ring->queues[to];
  assert((transitions[slot->state] & TO(to)) != 0);
  if (from->items[from->first] != slot) {
    slot_close_gap(from, slot);
  }
  from->first = (from->first + 1) % GPU_MAX_SLOTS;
  from->count--;
  slot->state = to;
  queue->items[(queue->first + queue->count) % GPU_MAX_SLOTS] = slot;
  queue->count++;
}

/* Slots in later states hold older frames, and go before those that are in a state already. */
void slot_ring_arrange(struct slot_ring *ring, const enum slot_state becomes[GPU_MAX_SLOTS],
                       const unsigned emitting[GPU_MAX_SLOTS]) {
  struct slot_ring before = *ring;
  unsigned emitted = 0;
  memset(ring->queues, 0, sizeof ring->queues);
  for (int from = SLOT_STATES - 1; from >= 0; from--) {
    for (unsigned i = 0; i < before.queues[from].count; i++) {
      struct slot *slot = slot_at(&before, (enum slot_state)from, i);
      slot->state = becomes[slot->index];
      emitted += slot->state == SLOT_EMITTING;
      if (slot->state != SLOT_EMITTING) {
        struct slot_queue *queue = &ring->queues[slot->state];
        queue->items[queue->count++] = slot;
      }
    }
  }
  for (unsigned i = 0; i < emitted; i++) {
    ring->queues[SLOT_EMITTING].items[ring->queues[SLOT_EMITTING].count++] = &ring->slots[emitting[i]];
  }
}

/* -- through a codec ------------------------------------------------------------------------------------------------- */

static bool are_times(const struct frame *frame) {
  const struct gpu_times *device = &frame->device;
  const int64_t times[] = {frame->began,   frame->first_byte, frame->complete,  frame->dispatched,  frame->seen,
                           device->begin,  device->copied_in, device->computed, device->copied_out, device->h2d,
                           device->kernel, device->d2h,       device->wait,     device->told};
  bool are = true;
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    are = are && codec_is_time(times[i]);
  }
  return are;
}

/* Looked at as bytes, since no other value may ever be read as a flag. */
static bool are_flags(const struct frame *frame) {
  const void *const flags[] = {&frame->open, &frame->restart, &frame->again, &frame->suspect};
  bool are = true;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    are = are && *(const unsigned char *)flags[i] <= 1;
  }
  return are;
}

static uint32_t clamp(int64_t ns) {
  if (ns < 0) {
    return 0;
  }
  return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

struct native_result frame_result(const struct frame *frame, unsigned seat, int64_t now) {
  const struct gpu_times *device = &frame->device;
  struct native_result result = {.sequence = frame->tag,
                                 .dropped = frame->missing,
                                 .timestamp = frame->began,
                                 .session = seat,
                                 .number = frame->sequence,
                                 .epoch = frame->epoch,
                                 .flags = frame->flags | (frame->restart ? NATIVE_RESULT_STATE_RESTARTED : 0)};
  result.steps[NATIVE_RECEIVE] = clamp(frame->complete - frame->first_byte);
  result.steps[NATIVE_QUEUE] = clamp(frame->dispatched - frame->complete);
  result.steps[NATIVE_TOTAL] = clamp(now - frame->began);
  if (device->begin != 0) {
    result.steps[NATIVE_GPU_WAIT] = clamp(device->wait);
    result.steps[NATIVE_H2D] = clamp(device->h2d);
    result.steps[NATIVE_KERNEL] = clamp(device->kernel);
    result.steps[NATIVE_D2H] = clamp(device->d2h);
    result.steps[NATIVE_WAKE] = clamp(frame->seen - device->copied_out);
  }
  return result;
}

/* A frame passes in one piece, since every frame is checkpointed. */
void frame_pass(struct frame *frame, struct codec *codec) {
  codec_pass(codec, frame, sizeof *frame);
  if (!codec->writing &&
      (!are_flags(frame) || !are_times(frame) || (unsigned)frame->fate >= FATE_COUNT || frame->stream >= GPU_MAX_SLOTS)) {
    memset(frame, 0, sizeof *frame);
    codec_break(codec);
  }
}

/* A frame has no fate while it is on its way here, and none is suspected that will not run again. One that is being emitted is
 * the sink's. */
static bool slot_is_sound(const struct slot *slot) {
  if (slot->state == SLOT_EMITTING) {
    return !slot->frame.suspect;
  }
  return slot->frame.open == (slot->state != SLOT_FREE) && (!slot->frame.suspect || slot->state == SLOT_READY);
}

/* Which slots are in each state, in order. */
struct slot_order {
  unsigned char counts[SLOT_STATES], slots[GPU_MAX_SLOTS];
};

static void list_state(struct slot_order *order, unsigned *at, enum slot_state becomes, const struct slot_ring *ring,
                       enum slot_state state) {
  unsigned count = slot_count(ring, state);
  order->counts[becomes] = (unsigned char)(order->counts[becomes] + count);
  for (unsigned i = 0; i < count; i++) {
    order->slots[(*at)++] = (unsigned char)slot_at(ring, state, i)->index;
  }
}

/* The order in which the next process has the slots: those that were on the device are READY again, before the others. */
static struct slot_order list_order(const struct slot_ring *ring) {
  struct slot_order order = {0};
  unsigned at = 0;
  list_state(&order, &at, SLOT_FREE, ring, SLOT_FAILED);
  list_state(&order, &at, SLOT_FREE, ring, SLOT_FREE);
  list_state(&order, &at, SLOT_FILLING, ring, SLOT_FILLING);
  list_state(&order, &at, SLOT_READY, ring, SLOT_RUNNING);
  list_state(&order, &at, SLOT_READY, ring, SLOT_READY);
  list_state(&order, &at, SLOT_DONE, ring, SLOT_DONE);
  list_state(&order, &at, SLOT_EMITTING, ring, SLOT_EMITTING);
  return order;
}

/* False: it is not an order of these slots. */
static bool put_in_order(struct slot_ring *ring, const struct slot_order *order) {
  unsigned at = 0, seen = 0;
  memset(ring->queues, 0, sizeof ring->queues);
  for (int state = 0; state < SLOT_STATES; state++) {
    for (unsigned i = 0; i < order->counts[state]; i++) {
      unsigned index = at < ring->count ? order->slots[at++] : ring->count;
      if (index >= ring->count || (seen & 1U << index) != 0) {
        return false;
      }
      seen |= 1U << index;
      ring->slots[index].state = (enum slot_state)state;
      ring->queues[state].items[i] = &ring->slots[index];
    }
    ring->queues[state].count = order->counts[state];
  }
  return at == ring->count;
}

static void pass_order(struct slot_ring *ring, struct codec *codec) {
  unsigned count = ring->count;
  struct slot_order order = codec->writing ? list_order(ring) : (struct slot_order){0};
  CODEC_PASS(codec, count);
  CODEC_PASS(codec, order);
  if (!codec->writing && !codec->broken && (count != ring->count || !put_in_order(ring, &order))) {
    codec_break(codec);
  }
}

void slot_ring_pass(struct slot_ring *ring, struct codec *codec) {
  pass_order(ring, codec);
  for (unsigned i = 0; i < ring->count && !codec->broken; i++) {
    struct slot *slot = &ring->slots[i];
    if (slot->state != SLOT_FREE && slot->state != SLOT_FAILED) { /* what a failed one had goes with this process */
      frame_pass(&slot->frame, codec);
    } else if (!codec->writing) {
      slot->frame = (struct frame){0};
    }
    if (!codec->writing && !slot_is_sound(slot)) {
      codec_break(codec);
    }
  }
}
