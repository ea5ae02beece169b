#include "daemon/base/spsc.h"

#include <assert.h>

static_assert((RING_PLACES & (RING_PLACES - 1)) == 0, "counters that wrap around need a power of two");

void spsc_init(struct spsc *ring, struct lane *lane, struct runner *runner) {
  *ring = (struct spsc){.lane = lane, .runner = runner};
}

void spsc_push(struct spsc *ring, unsigned item) {
  unsigned pushed = atomic_load_explicit(&ring->pushed, memory_order_relaxed);
  assert(pushed - atomic_load_explicit(&ring->popped, memory_order_acquire) < RING_PLACES);
  ring->items[pushed % RING_PLACES] = item;
  atomic_store_explicit(&ring->pushed, pushed + 1, memory_order_release);
  /* orders the push before this check, as the other side orders its flag before its last check */
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&ring->asleep, memory_order_relaxed) && atomic_exchange(&ring->asleep, false)) {
    lane_wake(ring->lane, ring->runner);
  }
}

bool spsc_pop(struct spsc *ring, unsigned *item) {
  if (atomic_load_explicit(&ring->asleep, memory_order_relaxed)) {
    atomic_store_explicit(&ring->asleep, false, memory_order_relaxed); /* something else woke it */
  }
  unsigned popped = atomic_load_explicit(&ring->popped, memory_order_relaxed);
  if (popped == atomic_load_explicit(&ring->pushed, memory_order_acquire)) {
    return false;
  }
  *item = ring->items[popped % RING_PLACES];
  atomic_store_explicit(&ring->popped, popped + 1, memory_order_release);
  return true;
}

bool spsc_may_sleep(struct spsc *ring) {
  atomic_store_explicit(&ring->asleep, true, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&ring->popped, memory_order_relaxed) == atomic_load_explicit(&ring->pushed, memory_order_relaxed)) {
    return true;
  }
  atomic_store_explicit(&ring->asleep, false, memory_order_relaxed);
  return false;
}
