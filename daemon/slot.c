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
