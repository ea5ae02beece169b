#include "daemon/slot.h"

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

/* Queues are short (16 at most) and slots nearly always leave from the front. */
static void take_out(struct slot_queue *queue, const struct slot *slot) {
  unsigned at = 0;
  while (queue->items[at] != slot) {
    at++;
    assert(at < queue->count);
  }
  queue->count--;
  memmove(&queue->items[at], &queue->items[at + 1], (queue->count - at) * sizeof queue->items[0]);
}

void slot_move(struct slot_ring *ring, struct slot *slot, enum slot_state to) {
  assert(slot_may_move(slot->state, to));
  take_out(&ring->queues[slot->state], slot);
  slot->state = to;
  struct slot_queue *queue = &ring->queues[to];
  queue->items[queue->count++] = slot;
}

/* Slots further down the road hold older frames, and go before those that are in a state already. */
void slot_ring_arrange(struct slot_ring *ring, const enum slot_state becomes[GPU_MAX_SLOTS],
                       const unsigned emitting[GPU_MAX_SLOTS]) {
  struct slot_ring before = *ring;
  unsigned emitted = 0;
  memset(ring->queues, 0, sizeof ring->queues);
  for (int from = SLOT_STATES - 1; from >= 0; from--) {
    for (unsigned i = 0; i < before.queues[from].count; i++) {
      struct slot *slot = before.queues[from].items[i];
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

/* -- over a tape -------------------------------------------------------------------------------------------------- */

/* The slots that will be in this state, in order. */
static unsigned list_slots(const struct slot_ring *ring, enum slot_state state, unsigned list[GPU_MAX_SLOTS]) {
  static const enum slot_state becomes[SLOT_STATES] = {
      [SLOT_FREE] = SLOT_FREE, [SLOT_FILLING] = SLOT_FILLING,   [SLOT_READY] = SLOT_READY, [SLOT_RUNNING] = SLOT_READY,
      [SLOT_DONE] = SLOT_DONE, [SLOT_EMITTING] = SLOT_EMITTING, [SLOT_FAILED] = SLOT_FREE,
  };
  unsigned count = 0;
  for (int from = SLOT_STATES - 1; from >= 0; from--) { /* those that were on the device come first */
    for (unsigned i = 0; becomes[from] == state && i < ring->queues[from].count; i++) {
      list[count++] = ring->queues[from].items[i]->index;
    }
  }
  return count;
}

static void pass_device_times(struct gpu_times *times, struct tape *tape) {
  int64_t *const all[] = {&times->begin,  &times->copied_in, &times->computed, &times->copied_out, &times->h2d,
                          &times->kernel, &times->d2h,       &times->wait,     &times->told};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    tape_pass_time(tape, all[i]);
  }
}

void frame_pass(struct frame *frame, struct tape *tape) {
  int64_t *const times[] = {&frame->began, &frame->first_byte, &frame->complete, &frame->dispatched, &frame->seen};
  unsigned fate = frame->fate;
  TAPE_PASS(tape, frame->sequence);
  TAPE_PASS(tape, frame->producer);
  TAPE_PASS(tape, frame->open);
  tape_pass_below(tape, &fate, FATE_COUNT);
  frame->fate = (enum fate)fate;
  TAPE_PASS(tape, frame->restart);
  TAPE_PASS(tape, frame->rate);
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    tape_pass_time(tape, times[i]);
  }
  TAPE_PASS(tape, frame->deadline);
  TAPE_PASS(tape, frame->tag);
  TAPE_PASS(tape, frame->flags);
  TAPE_PASS(tape, frame->missing);
  tape_pass_below(tape, &frame->stream, GPU_MAX_SLOTS);
  pass_device_times(&frame->device, tape);
  TAPE_PASS(tape, frame->again);
  TAPE_PASS(tape, frame->suspect);
  TAPE_PASS(tape, frame->failures);
}

/* A frame has no fate while it is on its way here, and none is suspected that will not run again. One that is being emitted is
 * the sink's. */
static bool is_sound(const struct slot *slot) {
  if (slot->state == SLOT_EMITTING) {
    return !slot->frame.suspect;
  }
  return slot->frame.open == (slot->state != SLOT_FREE) && (!slot->frame.suspect || slot->state == SLOT_READY);
}

static void pass_queue(struct slot_ring *ring, enum slot_state state, struct tape *tape, unsigned *seen) {
  unsigned list[GPU_MAX_SLOTS] = {0};
  unsigned count = tape->writing ? list_slots(ring, state, list) : 0;
  tape_pass_below(tape, &count, GPU_MAX_SLOTS + 1);
  for (unsigned i = 0; i < count; i++) {
    tape_pass_below(tape, &list[i], ring->count);
    if (!tape->writing && (*seen & 1U << list[i]) != 0) {
      tape_break(tape);
      return;
    }
    if (!tape->writing) {
      struct slot *slot = &ring->slots[list[i]];
      slot->state = state;
      ring->queues[state].items[ring->queues[state].count++] = slot;
    }
    *seen |= 1U << list[i];
  }
}

void slot_ring_pass(struct slot_ring *ring, struct tape *tape) {
  unsigned seen = 0, count = ring->count;
  TAPE_PASS(tape, count);
  if (!tape->writing && count != ring->count) {
    tape_break(tape);
    return;
  }
  if (!tape->writing) {
    memset(ring->queues, 0, sizeof ring->queues);
  }
  for (int state = 0; state < SLOT_STATES; state++) {
    pass_queue(ring, (enum slot_state)state, tape, &seen);
  }
  for (unsigned i = 0; i < ring->count; i++) {
    frame_pass(&ring->slots[i].frame, tape);
    if (!tape->writing && !is_sound(&ring->slots[i])) {
      tape_break(tape);
    }
  }
  if (seen != (1U << ring->count) - 1) {
    tape_break(tape);
  }
}
