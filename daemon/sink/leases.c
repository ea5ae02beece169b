#include "daemon/sink/leases.h"

#include <assert.h>
#include <string.h>

#include "daemon/sink/readers.h"

void leases_begin(struct reader *reader, const struct result *result) {
  struct shared_reader *shared = reader->shared;
  struct leases *leases = &reader->sink->leases;
  shared->leases[shared->completed % NATIVE_RING] = (struct lease){.slot = result->slot, .index = result->index};
  leases->count += leases->holders[result->slot->index]++ == 0;
  leases->flow = result->flow;
  shared->completed++;
  reader->at++;
}

bool sink_has_leases(const struct sink *sink) { return sink->leases.count > 0; }

static struct result *find_result(struct sink *sink, const struct slot *slot) {
  struct result *aside = &sink->leases.aside[slot->index];
  for (uint64_t at = sink->first; at < sink->tail; at++) {
    if (sink_result(sink, at)->slot == slot) {
      return sink_result(sink, at);
    }
  }
  assert(aside->slot == slot);
  return aside;
}

/* No reader holds a result that was set aside any more. */
static void release_aside(struct sink *sink, struct result *result, enum fate fate, int64_t now) {
  result_release(sink, result, fate, now);
  sink->leases.wanted = false;
}

/* Ends the oldest lease of a reader: it consumed the result (`taken`) or left. */
void leases_end(struct sink *sink, struct reader *reader, bool taken, int64_t now) {
  struct shared_reader *shared = reader->shared;
  struct slot *slot = shared->leases[shared->taken % NATIVE_RING].slot;
  shared->taken++;
  if (!slot) {
    return;
  }
  struct result *result = find_result(sink, slot);
  sink->leases.holders[slot->index]--;
  sink->leases.count -= sink->leases.holders[slot->index] == 0;
  if (taken) {
    READER_COUNT(reader->emitted, 1U);
  }
  if (taken && result->state == RESULT_OPEN) {
    result_settle(result, FATE_EMITTED, now);
  } else if (result->state == RESULT_OPEN) {
    result_mark_again(result);
  }
  if (result == &sink->leases.aside[slot->index] && sink->leases.holders[slot->index] == 0) {
    release_aside(sink, result, FATE_UNREAD, now);
  }
}

/* At the end of the sink, readers with leases get an ERROR. For all others the end of the connection is enough. */
void leases_leave(struct sink *sink, struct reader *reader, int64_t now) {
  struct shared_reader *shared = reader->shared;
  if (sink->stopping && shared->taken != shared->completed) {
    reader->final_error = NATIVE_E_STOPPING;
  }
  while (shared->taken != shared->completed) {
    leases_end(sink, reader, false, now);
  }
}

void leases_discard(struct sink *sink, enum fate fate, int64_t now) {
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    for (unsigned i = 0; reader->shared && i < NATIVE_RING; i++) {
      reader->shared->leases[i].slot = NULL;
    }
  }
  for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
    sink->leases.holders[i] = 0;
    if (sink->leases.aside[i].slot) {
      release_aside(sink, &sink->leases.aside[i], fate, now);
    }
  }
  sink->leases.count = 0;
  sink->leases.wanted = false;
}

static int youngest_aside(const struct leases *leases) {
  int found = -1;
  for (int i = 0; i < GPU_MAX_SLOTS; i++) {
    found = leases->aside[i].slot && (found < 0 || leases->order[i] > leases->order[found]) ? i : found;
  }
  return found;
}

void leases_recall(struct sink *sink) {
  struct leases *leases = &sink->leases;
  for (int i = youngest_aside(leases); i >= 0; i = youngest_aside(leases)) {
    sink->first--;
    *sink_result(sink, sink->first) = leases->aside[i];
    leases->aside[i].slot = NULL;
  }
}

/* -- taking over from the previous process ----------------------------------------------------------------------- */

/* The slot with this index, if it is in the queue before the reader's position and has no lease of it yet; else NULL. */
static struct slot *find_leased(const struct reader *reader, unsigned index) {
  struct sink *sink = reader->sink;
  for (uint64_t at = sink->first; at < reader->at && at < sink->tail; at++) {
    struct slot *slot = sink_result(sink, at)->slot;
    if (slot->index == index) {
      for (unsigned i = 0; i < NATIVE_RING; i++) {
        slot = reader->shared->leases[i].slot == sink_result(sink, at)->slot ? NULL : slot;
      }
      return slot;
    }
  }
  return NULL;
}

static bool adopt_lease(struct reader *reader, struct lease *lease, const struct lease *left) {
  if (!left->slot) {
    return true;
  }
  lease->index = left->index;
  lease->slot = find_leased(reader, left->index);
  if (!lease->slot) {
    return false;
  }
  struct leases *leases = &reader->sink->leases;
  leases->count += leases->holders[left->index]++ == 0;
  leases->flow = find_result(reader->sink, lease->slot)->flow;
  return true;
}

bool reader_adopt_leases(struct reader *reader, const struct reader *of) {
  struct shared_reader *shared = reader->shared;
  const struct shared_reader *left = image_left_at(of->shared, IMAGE_SHARED_READER, sizeof *left);
  if (!left || left->completed - left->taken > NATIVE_RING) {
    return false;
  }
  shared->memory = left->memory;
  shared->completed = left->completed;
  shared->taken = left->taken;
  shared->asleep = true;       /* the reader may have seen that the lane slept */
  shared->ring_pending = true; /* if the reader sleeps, its doorbell was not rung yet */
  bool sound = true;
  for (uint32_t at = left->taken; at != left->completed && sound; at++) {
    sound = adopt_lease(reader, &shared->leases[at % NATIVE_RING], &left->leases[at % NATIVE_RING]);
  }
  return sound;
}
