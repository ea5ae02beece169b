#include "daemon/frame/slot.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "daemon/state/image.h"

const char *const slot_state_names[SLOT_STATES] = {"free", "filling", "ready", "running", "done", "emitting", "failed"};

#define TO(state) (1U << (state))

/* From each state, where a slot may go. Backwards to FREE means that its frame got its fate there. */
static const unsigned transitions[SLOT_STATES] = {
    [SLOT_FREE] = TO(SLOT_FILLING),
    [SLOT_FILLING] = TO(SLOT_READY) | TO(SLOT_FREE),
    [SLOT_READY] = TO(SLOT_RUNNING) | TO(SLOT_FREE),
    [SLOT_RUNNING] = TO(SLOT_DONE) | TO(SLOT_FAILED) | TO(SLOT_FREE),
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

/* Moves those before the slot one place back, over it. */
static void slot_close_gap(struct slot_queue *queue, const struct slot *slot) {
  struct slot *before = NULL;
  for (unsigned n = 0; before != slot; n++) {
    assert(n < queue->count);
    struct slot **place = &queue->items[(queue->first + n) % GPU_MAX_SLOTS], *here = *place;
    *place = before;
    before = here;
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
  atomic_signal_fence(memory_order_seq_cst); /* the frame is whole before the state says so */
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

/* -- of a process before this one -------------------------------------------------------------------------------------- */

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
  if (left->state == SLOT_FREE || left->state == SLOT_FAILED) { /* what a failed one had has gone with its process */
    return true;
  }
  if (!frame_is_sound(&left->frame)) {
    return false;
  }
  bool told = left->state != SLOT_EMITTING && !left->frame.open;
  slot->frame = left->frame;
  slot->awaits_fate = left->awaits_fate;
  slot->state = told ? SLOT_FREE : left->state == SLOT_RUNNING ? SLOT_READY : left->state;
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
