#include "daemon/frame/account.h"

#include <assert.h>
#include <string.h>

#include "daemon/state/image.h"

/* -- acks ---------------------------------------------------------------------------------------------------------- */

static void acks_forget(struct acks *acks, unsigned at) {
  memmove(acks->open + at, acks->open + at + 1, (acks->count - at - 1) * sizeof *acks->open);
  acks->count--;
}

void acks_open(struct acks *acks, const struct frame *frame) {
  if (frame->producer != acks->producer) {
    *acks = (struct acks){.producer = frame->producer};
  }
  if (acks->count == ACKS_OPEN) {
    acks_forget(acks, 0); /* Only slow readers under `drop` still hold it. `drop` does not promise them a result. */
  }
  acks->open[acks->count++] = frame->sequence;
  acks->next = frame->sequence + 1;
}

void acks_close(struct acks *acks, const struct frame *frame, enum fate fate) {
  if (frame->producer != acks->producer || fate == FATE_CLIENT_GONE || fate == FATE_SHUTDOWN) {
    return;
  }
  for (unsigned i = 0; i < acks->count; i++) {
    if (acks->open[i] == frame->sequence) {
      acks_forget(acks, i);
      return;
    }
  }
}

uint64_t acks_count(const struct acks *acks, unsigned producer) {
  if (acks->producer != producer) {
    return 0;
  }
  return acks->count > 0 ? acks->open[0] : acks->next;
}

static bool is_open_there(const struct slot_ring *ring, unsigned producer, uint64_t sequence) {
  bool open = false;
  for (unsigned i = 0; i < ring->count; i++) {
    const struct slot *slot = &ring->slots[i];
    open |= slot->frame.producer == producer && slot->frame.sequence == sequence && (slot->frame.open || slot->awaits_fate);
  }
  return open;
}

void acks_repair(struct acks *acks, const struct slot_ring *ring) {
  unsigned count = acks->count;
  acks->count = 0;
  for (unsigned i = 0; i < count; i++) {
    bool again = acks->count > 0 && acks->open[acks->count - 1] >= acks->open[i];
    if (!again && is_open_there(ring, acks->producer, acks->open[i])) {
      acks->open[acks->count++] = acks->open[i];
    }
  }
}

/* -- the account ---------------------------------------------------------------------------------------------------- */

void account_publish(struct account *account) {
  static_assert(sizeof account->now % sizeof(uint64_t) == 0, "it is copied by whole words");
  uint32_t sequence = atomic_load_explicit(&account->sequence, memory_order_relaxed);
  atomic_store_explicit(&account->sequence, sequence + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  for (unsigned i = 0; i < ACCOUNT_WORDS; i++) {
    uint64_t word;
    memcpy(&word, (const char *)&account->now + i * sizeof word, sizeof word);
    atomic_store_explicit(&account->published[i], word, memory_order_relaxed);
  }
  atomic_store_explicit(&account->sequence, sequence + 2, memory_order_release);
}

void account_read(const struct account *account, struct session_view *view) {
  uint64_t words[ACCOUNT_WORDS];
  uint32_t before;
  uint32_t after;
  do {
    before = atomic_load_explicit(&account->sequence, memory_order_acquire);
    for (unsigned i = 0; i < ACCOUNT_WORDS; i++) {
      words[i] = atomic_load_explicit(&account->published[i], memory_order_relaxed);
    }
    atomic_thread_fence(memory_order_acquire);
    after = atomic_load_explicit(&account->sequence, memory_order_relaxed);
  } while (before != after || (before & 1) != 0);
  memcpy(view, words, sizeof *view);
}

void account_open(struct account *account, struct frame *frame) {
  assert(!frame->open);
  frame->open = true;
  acks_open(&account->acks, frame);
  if (account->now.ledger.in == 0) {
    account->now.began = frame->first_byte;
  }
  account->now.ledger.in++;
  account->now.last_in = frame->first_byte;
}

void account_settle(struct account *account, struct frame *frame, enum fate fate, int64_t now) {
  assert(frame->open);
  account_begin(account, fate);
  frame->open = false;
  frame->fate = fate;
  account_close(account, frame, fate, now);
}

void account_close(struct account *account, const struct frame *frame, enum fate fate, int64_t now) {
  acks_close(&account->acks, frame, fate);
  account->now.ledger.fates[fate]++;
  atomic_signal_fence(memory_order_seq_cst);
  atomic_store_explicit(&account->settling, 0, memory_order_relaxed);
  if (fate == FATE_EMITTED) {
    account->now.last_out = now;
    histogram_record(&account->steps[STEP_EMIT], now - frame->seen);
    histogram_record(&account->steps[STEP_TOTAL], now - frame->began);
  }
  struct trace_ring *trace = atomic_load_explicit(&account->trace, memory_order_acquire);
  if (trace) {
    trace_ring_append(trace, frame, fate, now);
  }
}

/* -- taking over the account of the previous process ------------------------------------------------------------------- */

bool account_adopt(struct account *account, const struct account *left) {
  const struct session_view *view = &left->now;
  account->now.ledger = view->ledger;
  account->now.began = view->began;
  account->now.last_in = view->last_in;
  account->now.last_out = view->last_out;
  account->now.busy = view->busy;
  account->now.worked = view->worked;
  account->now.submitted = account->now.completed = view->submitted; /* no frame is on the device now */
  memcpy(account->steps, left->steps, sizeof account->steps);
  account->acks = left->acks;
  return image_is_time(view->began) && image_is_time(view->last_in) && image_is_time(view->last_out) &&
         image_is_time(view->busy) && image_is_time(view->worked) && left->acks.count <= ACKS_OPEN &&
         left->settling <= FATE_COUNT;
}

bool account_repair(struct account *account, unsigned settling, enum fate lost, uint64_t most) {
  struct ledger *ledger = &account->now.ledger;
  uint64_t counted = ledger->in_flight;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    counted += ledger->fates[fate];
  }
  uint64_t missing = ledger->in - counted;
  bool balances = missing <= most;
  if (settling > 0 && missing > 0) {
    ledger->fates[settling - 1]++;
    missing--;
  }
  if (lost < FATE_COUNT) {
    ledger->fates[lost] += missing;
  } else {
    ledger->in -= missing;
  }
  return balances;
}
