#include "daemon/frame/trace_ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = sizeof(struct trace_record) / sizeof(uint64_t) };
static_assert(sizeof(struct trace_record) % sizeof(uint64_t) == 0, "a record is copied word by word");

struct cell {
  _Atomic uint64_t words[WORDS];
};

/* `begun` counts records whose cells may have been written to, `ended` complete records. A copy is valid if the next record for
 * its cell had not begun when the copy was made. */
struct trace_ring {
  atomic_uint holders;
  unsigned capacity;
  _Atomic uint64_t begun, ended;
  struct cell cells[];
};

struct trace_ring *trace_ring_new(unsigned capacity) {
  struct trace_ring *ring = malloc(sizeof *ring + capacity * sizeof(struct cell));
  if (!ring) {
    return NULL;
  }
  atomic_init(&ring->holders, 1);
  ring->capacity = capacity;
  atomic_init(&ring->begun, 0);
  atomic_init(&ring->ended, 0);
  for (unsigned i = 0; i < capacity; i++) { /* touch each page now, so that no lane causes a page fault */
    for (int word = 0; word < WORDS; word++) {
      atomic_init(&ring->cells[i].words[word], UINT64_MAX);
    }
  }
  return ring;
}

struct trace_ring *trace_ring_hold(struct trace_ring *ring) {
  atomic_fetch_add(&ring->holders, 1);
  return ring;
}

struct trace_ring *trace_ring_drop(struct trace_ring *ring) {
  if (ring && atomic_fetch_sub(&ring->holders, 1) == 1) {
    free(ring);
  }
  return NULL;
}

static struct trace_record trace_record_of(const struct frame *frame, enum fate fate, int64_t now) {
  return (struct trace_record){
      .sequence = frame->sequence,
      .epoch = frame->epoch,
      .first_byte = frame->first_byte,
      .complete = frame->complete,
      .dispatched = frame->dispatched,
      .seen = frame->seen,
      .settled = now,
      .begin = frame->device.begin,
      .copied_in = frame->device.copied_in,
      .computed = frame->device.computed,
      .copied_out = frame->device.copied_out,
      .h2d = frame->device.h2d,
      .kernel = frame->device.kernel,
      .d2h = frame->device.d2h,
      .modelled = frame->device.modelled,
      .model = frame->device.model,
      .instance = frame->device.instance,
      .batch = frame->device.batch,
      .fate = (uint32_t)fate,
      .stream = frame->stream,
  };
}

void trace_ring_append(struct trace_ring *ring, const struct frame *frame, enum fate fate, int64_t now) {
  const struct trace_record record = trace_record_of(frame, fate, now);
  uint64_t words[WORDS];
  uint64_t position = atomic_load_explicit(&ring->ended, memory_order_relaxed);
  struct cell *cell = &ring->cells[position % ring->capacity];
  memcpy(words, &record, sizeof record);
  atomic_store_explicit(&ring->begun, position + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  for (int i = 0; i < WORDS; i++) {
    atomic_store_explicit(&cell->words[i], words[i], memory_order_relaxed);
  }
  atomic_store_explicit(&ring->ended, position + 1, memory_order_release);
}

uint64_t trace_ring_end(const struct trace_ring *ring) { return atomic_load_explicit(&ring->ended, memory_order_acquire); }

/* Returns false if the record was being overwritten. */
static bool trace_ring_copy(const struct trace_ring *ring, uint64_t position, struct trace_record *record) {
  const struct cell *cell = &ring->cells[position % ring->capacity];
  uint64_t words[WORDS];
  for (int i = 0; i < WORDS; i++) {
    words[i] = atomic_load_explicit(&cell->words[i], memory_order_relaxed);
  }
  atomic_thread_fence(memory_order_acquire);
  memcpy(record, words, sizeof *record);
  return atomic_load_explicit(&ring->begun, memory_order_relaxed) <= position + ring->capacity;
}

unsigned trace_ring_read(const struct trace_ring *ring, uint64_t *position, struct trace_record *records, unsigned room,
                         uint64_t *overwritten) {
  uint64_t end = trace_ring_end(ring);
  unsigned count = 0;
  if (end - *position > ring->capacity) {
    *overwritten += end - ring->capacity - *position;
    *position = end - ring->capacity;
  }
  for (; *position < end && count < room; (*position)++) {
    if (trace_ring_copy(ring, *position, &records[count])) {
      count++;
    } else {
      (*overwritten)++;
    }
  }
  return count;
}
