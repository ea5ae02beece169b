#include "daemon/sink/loans.h"

#include <assert.h>
#include <string.h>

#include "daemon/sink/readers.h"

void loans_begin(struct reader *reader, const struct result *result) {
  struct borrower *borrower = reader->borrower;
  struct loans *loans = &reader->sink->loans;
  borrower->loans[borrower->completed % NATIVE_RING] = (struct loan){.slot = result->slot, .index = result->index};
  loans->count += loans->holders[result->slot->index]++ == 0;
  loans->flow = result->flow;
  borrower->completed++;
  reader->at++;
}

bool sink_is_lending(const struct sink *sink) { return sink->loans.count > 0; }

static struct result *find_result(struct sink *sink, const struct slot *slot) {
  struct result *aside = &sink->loans.aside[slot->index];
  for (uint64_t at = sink->first; at < sink->tail; at++) {
    if (sink_result(sink, at)->slot == slot) {
      return sink_result(sink, at);
    }
  }
  assert(aside->slot == slot);
  return aside;
}

/* No reader has a result that was set aside any more. */
static void release_aside(struct sink *sink, struct result *result, enum fate fate, int64_t now) {
  result_release(sink, result, fate, now);
  sink->loans.wanted = false;
}

/* The oldest loan of a reader is over, because it is done with the result (`taken`) or left. */
void loans_end(struct sink *sink, struct reader *reader, bool taken, int64_t now) {
  struct borrower *borrower = reader->borrower;
  struct slot *slot = borrower->loans[borrower->taken % NATIVE_RING].slot;
  borrower->taken++;
  if (!slot) {
    return;
  }
  struct result *result = find_result(sink, slot);
  sink->loans.holders[slot->index]--;
  sink->loans.count -= sink->loans.holders[slot->index] == 0;
  if (taken) {
    READER_COUNT(reader->emitted, 1U);
  }
  if (taken && result->state == RESULT_OPEN) {
    result_settle(result, FATE_EMITTED, now);
  } else if (result->state == RESULT_OPEN) {
    result_mark_again(result);
  }
  if (result == &sink->loans.aside[slot->index] && sink->loans.holders[slot->index] == 0) {
    release_aside(sink, result, FATE_UNREAD, now);
  }
}

/* At the end of the sink a reader that still has loans is told so; to any other the end of its connection says enough. */
void loans_leave(struct sink *sink, struct reader *reader, int64_t now) {
  struct borrower *borrower = reader->borrower;
  if (sink->stopping && borrower->taken != borrower->completed) {
    reader->farewell = NATIVE_E_STOPPING;
  }
  while (borrower->taken != borrower->completed) {
    loans_end(sink, reader, false, now);
  }
}

void loans_discard(struct sink *sink, enum fate fate, int64_t now) {
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    for (unsigned i = 0; reader->borrower && i < NATIVE_RING; i++) {
      reader->borrower->loans[i].slot = NULL;
    }
  }
  for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
    sink->loans.holders[i] = 0;
    if (sink->loans.aside[i].slot) {
      release_aside(sink, &sink->loans.aside[i], fate, now);
    }
  }
  sink->loans.count = 0;
  sink->loans.wanted = false;
}

static int youngest_aside(const struct loans *loans) {
  int found = -1;
  for (int i = 0; i < GPU_MAX_SLOTS; i++) {
    found = loans->aside[i].slot && (found < 0 || loans->order[i] > loans->order[found]) ? i : found;
  }
  return found;
}

void loans_recall(struct sink *sink) {
  struct loans *loans = &sink->loans;
  for (int i = youngest_aside(loans); i >= 0; i = youngest_aside(loans)) {
    sink->first--;
    *sink_result(sink, sink->first) = loans->aside[i];
    loans->aside[i].slot = NULL;
  }
}

/* -- of a process before this one -------------------------------------------------------------------------------- */

/* The slot with this index if it is in the queue, before where the reader is, and not lent to it yet; else NULL. */
static struct slot *find_lent(const struct reader *reader, unsigned index) {
  struct sink *sink = reader->sink;
  for (uint64_t at = sink->first; at < reader->at && at < sink->tail; at++) {
    struct slot *slot = sink_result(sink, at)->slot;
    if (slot->index == index) {
      for (unsigned i = 0; i < NATIVE_RING; i++) {
        slot = reader->borrower->loans[i].slot == sink_result(sink, at)->slot ? NULL : slot;
      }
      return slot;
    }
  }
  return NULL;
}

static bool adopt_loan(struct reader *reader, struct loan *loan, const struct loan *left) {
  if (!left->slot) {
    return true;
  }
  loan->index = left->index;
  loan->slot = find_lent(reader, left->index);
  if (!loan->slot) {
    return false;
  }
  struct loans *loans = &reader->sink->loans;
  loans->count += loans->holders[left->index]++ == 0;
  loans->flow = find_result(reader->sink, loan->slot)->flow;
  return true;
}

bool reader_adopt_loans(struct reader *reader, const struct reader *of) {
  struct borrower *borrower = reader->borrower;
  const struct borrower *left = image_left_at(of->borrower, IMAGE_BORROWER, sizeof *left);
  if (!left || left->completed - left->taken > NATIVE_RING) {
    return false;
  }
  borrower->memory = left->memory;
  borrower->completed = left->completed;
  borrower->taken = left->taken;
  borrower->asleep = true;  /* the reader may have seen that the lane slept, */
  borrower->unheard = true; /* and if the reader sleeps, nobody has rung for it yet */
  bool sound = true;
  for (uint32_t at = left->taken; at != left->completed && sound; at++) {
    sound = adopt_loan(reader, &borrower->loans[at % NATIVE_RING], &left->loans[at % NATIVE_RING]);
  }
  return sound;
}
