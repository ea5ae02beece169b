/*
 * The life of a slot.
 *
 * Problem. A frame is received, computed by another process, and written to readers, and each step may be slow. The process may
 * be killed, or its worker may die, between any two instructions. No frame may get lost, be counted twice or overtake another,
 * and no step may allocate or copy.
 *
 * Idea. A session owns a fixed number of slots. Frames exist only in slots, except for the rest of a result that a slow reader
 * has yet to get (sink/rest.c). A step passes a frame on by changing the state of its slot:
 *
 *   FREE -> FILLING -> READY -> RUNNING -> DONE -> EMITTING -> FREE
 *                             RUNNING -> FAILED
 *
 * All states from FILLING to EMITTING also lead back to FREE, which means that the frame got its fate there. The table below
 * holds all transitions, and slot_move() is the only function that makes them. It asserts that the transition is in the table.
 *
 * Invariants.
 * - A slot is on exactly one queue of its ring: the queue of its state. Frames on a queue are in the order in which they
 *   came.
 * - The state is one word. The frame is written before the state that announces it, so a killed process leaves a valid ring.
 * - Only the session's lane writes states and queues. While a slot is EMITTING nobody writes its frame, so a sink on another
 *   lane may read it.
 * - A FAILED slot is never used again by this process, because its device may still write there.
 *
 * The exceptions write states directly while no lane runs, and then call slot_ring_order() to rebuild the queues. One is the
 * takeover from a previous process, which begins with slot_ring_adopt(). The other is session_rewind(), which makes RUNNING
 * frames READY again after their worker died.
 *
 * Number of slots: measured on an H200 with 4 MiB frames, two slots carry 45.6 GB/s and three carry 47.9 GB/s. With 64 KiB
 * frames three slots carry 1.4 times the frames of two.
 */
#include "daemon/frame/slot.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "daemon/state/image.h"

const char *const slot_state_names[SLOT_STATES] = {"free", "filling", "ready", "running", "done", "emitting", "failed"};

#define TO(state) (1U << (state))

/* Allowed next states. A move back to FREE means that the frame got its fate in that state. */
static const unsigned transitions[SLOT_STATES] = {
    [SLOT_FREE] = TO(SLOT_FILLING),
    [SLOT_FILLING] = TO(SLOT_READY) | TO(SLOT_FREE),
    [SLOT_READY] = TO(SLOT_RUNNING) | TO(SLOT_FREE),
    [SLOT_RUNNING] = TO(SLOT_DONE) | TO(SLOT_FAILED) | TO(SLOT_FREE),
    [SLOT_DONE] = TO(SLOT_EMITTING) | TO(SLOT_FREE),
    [SLOT_EMITTING] = TO(SLOT_FREE),
    [SLOT_FAILED] = 0, /* a dead device may still write to it, so the slot is never used again */
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

/* Shifts the slots before this one by one position, over it. */
static void slot_close_gap(struct slot_queue *queue, const struct slot *slot) {
  struct slot *before = NULL;
  for (unsigned n = 0; before != slot; n++) {
    assert(n < queue->count);
    struct slot **place = &queue->items[(queue->first + n) % GPU_MAX_SLOTS], *here = *place;
    *place = before;
    before = here;
  }
}

/* The common case is the front of the queue; only other positions cost a loop. */
void slot_move(struct slot_ring *ring, struct slot *slot, enum slot_state to) {
  struct slot_queue *from = &ring->queues[slot->state], *queue = &ring->queues[to];
  assert((transitions[slot->state] & TO(to)) != 0);
  if (from->items[from->first] != slot) {
    slot_close_gap(from, slot);
  }
  from->first = (from->first + 1) % GPU_MAX_SLOTS;
  from->count--;
  atomic_signal_fence(memory_order_seq_cst); /* the frame must be complete before the state announces it */
  slot->state = to;
  atomic_signal_fence(memory_order_seq_cst);
  queue->items[(queue->first + queue->count) % GPU_MAX_SLOTS] = slot;
  queue->count++;
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
  const int64_t steps[NATIVE_STEPS] = {
      [NATIVE_RECEIVE] = frame->complete - frame->first_byte,
      [NATIVE_QUEUE] = frame->dispatched - frame->complete,
      [NATIVE_GPU_WAIT] = device->wait,
      [NATIVE_H2D] = device->h2d,
      [NATIVE_KERNEL] = device->kernel,
      [NATIVE_D2H] = device->d2h,
      [NATIVE_WAKE] = frame->seen - device->copied_out,
      [NATIVE_TOTAL] = now - frame->began,
  };
  for (int step = 0; step < NATIVE_STEPS; step++) {
    const bool of_device = step >= NATIVE_GPU_WAIT && step <= NATIVE_WAKE;
    const int64_t ns = of_device && device->begin == 0 ? 0 : steps[step];
    result.steps[step] = ns < 0 ? 0 : ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
  }
  return result;
}

/* -- taking over the ring of the previous process ---------------------------------------------------------------------- */

static bool are_times(const struct frame *frame) {
  const struct gpu_times *device = &frame->device;
  const int64_t times[] = {frame->began,       frame->first_byte, frame->complete,   frame->dispatched,
                           frame->seen,        device->begin,     device->copied_in, device->computed,
                           device->copied_out, device->h2d,       device->kernel,    device->d2h,
                           device->wait,       device->told,      device->modelled,  device->model};
  bool are = true;
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    are = are && image_is_time(times[i]);
  }
  return are;
}

bool frame_is_sound(const struct frame *frame) {
  return IMAGE_IS_FLAG(frame->open) && IMAGE_IS_FLAG(frame->restart) && IMAGE_IS_FLAG(frame->again) &&
         IMAGE_IS_FLAG(frame->recorded) && IMAGE_IS_FLAG(frame->suspect) && are_times(frame) &&
         (unsigned)frame->fate < FATE_COUNT && frame->stream < GPU_MAX_SLOTS && y4m_look_is_sound(&frame->look);
}

static bool slot_adopt(struct slot *slot, const struct slot *left) {
  if ((unsigned)left->state >= SLOT_STATES || !IMAGE_IS_FLAG(left->awaits_fate)) {
    return false;
  }
  if (left->state == SLOT_FREE || left->state == SLOT_FAILED) { /* a failed slot's frame got its fate in the previous process */
    return true;
  }
  if (!frame_is_sound(&left->frame)) {
    return false;
  }
  bool settled = left->state != SLOT_EMITTING && !left->frame.open;
  slot->frame = left->frame;
  slot->awaits_fate = left->awaits_fate;
  slot->state = settled ? SLOT_FREE : left->state == SLOT_RUNNING ? SLOT_READY : left->state;
  slot->frame.suspect = slot->frame.suspect && slot->state == SLOT_READY;
  return true;
}

bool slot_ring_adopt(struct slot_ring *ring, const struct slot_ring *left) {
  bool sound = left->count == ring->count;
  for (unsigned i = 0; i < ring->count && sound; i++) {
    sound = slot_adopt(&ring->slots[i], &left->slots[i]);
  }
  slot_ring_order(ring);
  return sound;
}

static bool is_older(const struct frame *one, const struct frame *other) {
  return one->producer != other->producer ? one->producer < other->producer : one->sequence < other->sequence;
}

bool slot_is_older(const struct slot *slot, const struct slot *other) { return is_older(&slot->frame, &other->frame); }

void slot_ring_order(struct slot_ring *ring) {
  memset(ring->queues, 0, sizeof ring->queues);
  for (unsigned i = 0; i < ring->count; i++) {
    struct slot *slot = &ring->slots[i];
    struct slot_queue *queue = &ring->queues[slot->state];
    unsigned at = queue->count++;
    for (; at > 0 && is_older(&slot->frame, &queue->items[at - 1]->frame); at--) {
      queue->items[at] = queue->items[at - 1];
    }
    queue->items[at] = slot;
  }
}
