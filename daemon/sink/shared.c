/*
 * Readers with shared memory: they get leases of slots (leases.h), and the lane copies no byte of a result.
 *
 * Nothing that such a reader writes is trusted. Cursors and leases are kept here; the reader's one cursor is copied and
 * checked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/doorbell.h"
#include "daemon/sink/leases.h"
#include "daemon/sink/readers.h"

bool reader_share(struct reader *reader, struct native_control *control, unsigned memory) {
  reader->shared = image_new(IMAGE_SHARED_READER, sizeof *reader->shared);
  if (!reader->shared) {
    return false;
  }
  reader->shared->control = control;
  reader->shared->memory = memory;
  reader_drop_room(reader); /* a reader with shared memory never has a rest */
  return true;
}

/* -- input of the reader ----------------------------------------------------------------------------------------------- */

static void dismiss(struct sink *sink, struct reader *reader, enum native_error_code code, const char *why) {
  reader->final_error = code;
  reader_depart(sink, reader, why);
}

static void shared_on_ready(uv_poll_t *poll, int status, int events) {
  struct reader *reader = poll->data;
  (void)events;
  if (status < 0) {
    uv_poll_start(poll, UV_READABLE,
                  shared_on_ready); /* libuv stopped the poll, but bytes may precede the end that it reports */
  }
  reader->shared->readable = true;
  lane_schedule(&reader->sink->runner);
}

/* Ends the leases of results that the reader consumed. Returns false if it never had them. */
static bool shared_take_back(struct sink *sink, struct reader *reader, int64_t now) {
  struct shared_reader *shared = reader->shared;
  uint32_t taken = atomic_load_explicit(&shared->control->client.taken, memory_order_acquire);
  if (taken - shared->taken > shared->completed - shared->taken) {
    return false;
  }
  shared->active = taken != shared->taken ? now : shared->active;
  mark_set(&reader->mark);
  while (shared->taken != taken) {
    leases_end(sink, reader, true, now);
  }
  mark_clear(&reader->mark);
  return true;
}

/* Returns false if the reader left or is dismissed. Results that it consumed before still count. */
static bool read_doorbells(struct sink *sink, struct reader *reader, int64_t now) {
  enum doorbell_input input = reader->shared->readable ? doorbell_read(reader->fd) : DOORBELL_NOTHING;
  reader->shared->readable = input == DOORBELL_MORE;
  if (input == DOORBELL_NOTHING || input == DOORBELL_MORE) {
    return true;
  }
  int error = errno;
  shared_take_back(sink, reader, now);
  if (input == DOORBELL_NONSENSE) {
    dismiss(sink, reader, NATIVE_E_PROTOCOL, DOORBELL_COMPLAINT);
  } else {
    reader_depart(sink, reader, input == DOORBELL_ERROR ? strerror(error) : "");
  }
  return false;
}

/* -- leasing ----------------------------------------------------------------------------------------------------------- */

/* Under `drop` the session keeps two of the slots that may be past READY, or one if it has only two. */
static bool may_lease(const struct sink *sink, const struct result *result) {
  const struct flow *flow = result->flow;
  unsigned most = sink->block ? flow->ring.count : flow->depth - (flow->depth > 2 ? 2 : 1);
  return leases_has(sink, result) || sink->leases.count < most;
}

static void lease_result(struct reader *reader, const struct result *result, int64_t now) {
  struct shared_reader *shared = reader->shared;
  struct native_completion completion = {.slot = result->slot->index, .fate = FATE_EMITTED};
  memcpy(&completion.result, result->native + sizeof(struct native_header), sizeof completion.result);
  completion.result.dropped += reader->skipped;
  reader->skipped = 0;
  memcpy(&shared->control->completions[shared->completed % NATIVE_RING], &completion, sizeof completion);
  leases_begin(reader, result);
  shared->active = now;
}

/* Returns false if a result is in memory that this reader does not map. */
static bool lease_all(struct sink *sink, struct reader *reader, int64_t now) {
  struct shared_reader *shared = reader->shared;
  uint32_t before = shared->completed;
  bool sees = true;
  mark_set(&reader->mark);
  while (reader->at < sink->tail && shared->completed - shared->taken < NATIVE_RING) {
    const struct result *result = sink_result(sink, reader->at);
    sees = result->flow->memory == shared->memory;
    if (!sees || !may_lease(sink, result)) {
      break;
    }
    lease_result(reader, result, now);
  }
  if (shared->completed != before) {
    atomic_store_explicit(&shared->control->daemon.completed, shared->completed, memory_order_release);
  }
  mark_clear(&reader->mark);
  if (shared->completed != before || shared->ring_pending) {
    shared->ring_pending = !doorbell_ring(shared->control, reader->fd);
  }
  return sees;
}

/* -- turns ------------------------------------------------------------------------------------------------------------- */

/* Asks the reader to ring for results that it consumes. Returns true if the lane may sleep. */
static bool may_sleep(struct shared_reader *shared) {
  shared->asleep = true;
  atomic_store_explicit(&shared->control->daemon.sleeps, 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  return atomic_load_explicit(&shared->control->client.taken, memory_order_relaxed) == shared->taken;
}

bool shared_turn(struct sink *sink, struct reader *reader, int64_t now) {
  struct shared_reader *shared = reader->shared;
  if (shared->asleep) {
    shared->asleep = false;
    atomic_store_explicit(&shared->control->daemon.sleeps, 0, memory_order_relaxed);
  }
  if (!read_doorbells(sink, reader, now)) {
    return false;
  }
  if (!shared_take_back(sink, reader, now)) {
    dismiss(sink, reader, NATIVE_E_PROTOCOL, "in shared memory it consumed results that were not completed");
    return false;
  }
  sink_release(sink, now); /* before leasing, because results that this sets aside count as leased */
  if (!lease_all(sink, reader, now)) {
    dismiss(sink, reader, NATIVE_E_STOPPING, "the pipeline has other memory now: connect again");
    return false;
  }
  if (shared->taken == shared->completed && !shared->readable) {
    return false; /* the reader holds nothing, so it has nothing to report */
  }
  return shared->readable || now - shared->active < sink->spin_ns || !may_sleep(shared);
}

/* A reader with an invalid cursor is dismissed at its turn. */
void shared_collect(struct sink *sink, int64_t now) {
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader->shared) {
      shared_take_back(sink, reader, now);
    }
  }
}

/* Reads the cursors of readers regularly, even if they do not ring. */
void shared_tick(struct sink *sink, int64_t now) {
  bool has_leases = sink_has_leases(sink);
  struct reader *next = NULL;
  for (struct reader *reader = sink->readers; has_leases && reader; reader = next) {
    next = reader->next;
    struct shared_reader *shared = reader->shared;
    if (!shared || !shared_take_back(sink, reader, now) || !sink->leases.wanted || shared->taken == shared->completed) {
      continue;
    }
    if (++shared->leases[shared->taken % NATIVE_RING].ticks > HOLD_TICKS) {
      char why[128];
      snprintf(why, sizeof why, "it held a result for more than %d ms while its slot was needed", HOLD_TICKS * TICK_MS);
      dismiss(sink, reader, NATIVE_E_TIMEOUT, why);
    }
  }
  if (has_leases) {
    lane_schedule(&sink->runner); /* that turn releases slots and leases them again */
  }
  if (sink->leases.wanted) { /* the session sets it again if it still needs one */
    sink->leases.wanted = false;
    sink->leases.flow->wake(sink->leases.flow->session);
  }
}

int shared_attach(struct reader *reader) {
  reader->shared->readable = true;
  return uv_poll_start(&reader->poll, UV_READABLE, shared_on_ready);
}
