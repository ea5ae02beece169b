#include "daemon/frame/account.h"

#include <assert.h>
#include <string.h>

void account_publish(struct account *account) {
  uint64_t words[ACCOUNT_WORDS] = {0};
  memcpy(words, &account->now, sizeof account->now);
  uint32_t sequence = atomic_load_explicit(&account->sequence, memory_order_relaxed);
  atomic_store_explicit(&account->sequence, sequence + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  for (unsigned i = 0; i < ACCOUNT_WORDS; i++) {
    atomic_store_explicit(&account->published[i], words[i], memory_order_relaxed);
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
}

void account_settle(struct account *account, struct frame *frame, enum fate fate, int64_t now) {
  assert(frame->open);
  frame->open = false;
  frame->fate = fate;
  account_close(account, frame, fate, now);
}

void account_close(struct account *account, const struct frame *frame, enum fate fate, int64_t now) {
  acks_close(&account->acks, frame, fate);
  account->now.ledger.fates[fate]++;
  if (fate == FATE_EMITTED) {
    histogram_record(&account->steps[STEP_EMIT], now - frame->seen);
    histogram_record(&account->steps[STEP_TOTAL], now - frame->began);
  }
  struct trace_ring *trace = atomic_load_explicit(&account->trace, memory_order_acquire);
  if (trace) {
    trace_ring_append(trace, frame, fate, now);
  }
}
