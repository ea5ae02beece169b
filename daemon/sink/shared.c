/*
 * Readers with shared memory: results are lent to them (see loans.h), and no byte of a result passes through the lane.
 *
 * Nothing that such a reader can write needs to be trusted: cursors and loans are kept here, and the one cursor that is the
 * reader's is copied and checked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/doorbell.h"
#include "daemon/sink/loans.h"
#include "daemon/sink/readers.h"

bool reader_share(struct reader *reader, struct native_control *control, unsigned memory) {
  reader->borrower = image_new(IMAGE_BORROWER, sizeof *reader->borrower);
  if (!reader->borrower) {
    return false;
  }
  reader->borrower->control = control;
  reader->borrower->memory = memory;
  reader_drop_room(reader); /* a reader with shared memory never has a rest */
  return true;
}

/* -- what the reader does ---------------------------------------------------------------------------------------------- */

static void send_away(struct sink *sink, struct reader *reader, enum native_error_code code, const char *why) {
  reader->farewell = code;
  reader_depart(sink, reader, why);
}

static void shared_on_ready(uv_poll_t *poll, int status, int events) {
  struct reader *reader = poll->data;
  (void)events;
  if (status < 0) {
    uv_poll_start(poll, UV_READABLE,
                  shared_on_ready); /* libuv stopped the poll, but bytes may wait before the end that it tells of */
  }
  reader->borrower->readable = true;
  lane_schedule(&reader->sink->runner);
}

/* Takes back what the reader says that it is done with. False: it was never given that. */
static bool shared_take_back(struct sink *sink, struct reader *reader, int64_t now) {
  struct borrower *borrower = reader->borrower;
  uint32_t taken = atomic_load_explicit(&borrower->control->client.taken, memory_order_acquire);
  if (taken - borrower->taken > borrower->completed - borrower->taken) {
    return false;
  }
  borrower->active = taken != borrower->taken ? now : borrower->active;
  mark_set(&reader->mark);
  while (borrower->taken != taken) {
    loans_end(sink, reader, true, now);
  }
  mark_clear(&reader->mark);
  return true;
}

/* False: the reader has left, or is sent away. What it took before counts. */
static bool hear(struct sink *sink, struct reader *reader, int64_t now) {
  enum doorbell_heard heard = reader->borrower->readable ? doorbell_hear(reader->fd) : DOORBELL_NOTHING;
  reader->borrower->readable = heard == DOORBELL_MORE;
  if (heard == DOORBELL_NOTHING || heard == DOORBELL_MORE) {
    return true;
  }
  int error = errno;
  shared_take_back(sink, reader, now);
  if (heard == DOORBELL_NONSENSE) {
    send_away(sink, reader, NATIVE_E_PROTOCOL, DOORBELL_COMPLAINT);
  } else {
    reader_depart(sink, reader, heard == DOORBELL_ERROR ? strerror(error) : "");
  }
  return false;
}

/* -- lending ----------------------------------------------------------------------------------------------------------- */

/* Under `drop` the session keeps two slots of those that it may have past READY, or one where it has two. */
static bool may_lend(const struct sink *sink, const struct result *result) {
  const struct flow *flow = result->flow;
  unsigned most = sink->block ? flow->ring.count : flow->depth - (flow->depth > 2 ? 2 : 1);
  return loans_have(sink, result) || sink->loans.count < most;
}

static void lend(struct reader *reader, const struct result *result, int64_t now) {
  struct borrower *borrower = reader->borrower;
  struct native_completion completion = {.slot = result->slot->index, .fate = FATE_EMITTED};
  memcpy(&completion.result, result->native + sizeof(struct native_header), sizeof completion.result);
  completion.result.dropped += reader->skipped;
  reader->skipped = 0;
  memcpy(&borrower->control->completions[borrower->completed % NATIVE_RING], &completion, sizeof completion);
  loans_begin(reader, result);
  borrower->active = now;
}

/* False: there is a result in memory that this reader does not see. */
static bool lend_all(struct sink *sink, struct reader *reader, int64_t now) {
  struct borrower *borrower = reader->borrower;
  uint32_t before = borrower->completed;
  bool sees = true;
  mark_set(&reader->mark);
  while (reader->at < sink->tail && borrower->completed - borrower->taken < NATIVE_RING) {
    const struct result *result = sink_result(sink, reader->at);
    sees = result->flow->memory == borrower->memory;
    if (!sees || !may_lend(sink, result)) {
      break;
    }
    lend(reader, result, now);
  }
  if (borrower->completed != before) {
    atomic_store_explicit(&borrower->control->daemon.completed, borrower->completed, memory_order_release);
  }
  mark_clear(&reader->mark);
  if (borrower->completed != before || borrower->unheard) {
    borrower->unheard = !doorbell_ring(borrower->control, reader->fd);
  }
  return sees;
}

/* -- turns ------------------------------------------------------------------------------------------------------------- */

/* Whether the lane may sleep: a reader rings for what it is done with only once it is told to. */
static bool may_sleep(struct borrower *borrower) {
  borrower->asleep = true;
  atomic_store_explicit(&borrower->control->daemon.sleeps, 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  return atomic_load_explicit(&borrower->control->client.taken, memory_order_relaxed) == borrower->taken;
}

bool shared_turn(struct sink *sink, struct reader *reader, int64_t now) {
  struct borrower *borrower = reader->borrower;
  if (borrower->asleep) {
    borrower->asleep = false;
    atomic_store_explicit(&borrower->control->daemon.sleeps, 0, memory_order_relaxed);
  }
  if (!hear(sink, reader, now)) {
    return false;
  }
  if (!shared_take_back(sink, reader, now)) {
    send_away(sink, reader, NATIVE_E_PROTOCOL, "in shared memory it took results that it was not given");
    return false;
  }
  sink_release(sink, now); /* results that this sets aside count as lent, too */
  if (!lend_all(sink, reader, now)) {
    send_away(sink, reader, NATIVE_E_STOPPING, "the pipeline has other memory now: connect again");
    return false;
  }
  if (borrower->taken == borrower->completed && !borrower->readable) {
    return false; /* the reader has nothing, and will say nothing */
  }
  return borrower->readable || now - borrower->active < sink->spin_ns || !may_sleep(borrower);
}

/* A reader whose cursor makes no sense is sent away at its turn. */
void shared_look(struct sink *sink, int64_t now) {
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader->borrower) {
      shared_take_back(sink, reader, now);
    }
  }
}

/* What a reader is done with is looked at now and then even if it does not ring. */
void shared_tick(struct sink *sink, int64_t now) {
  bool lends = sink_is_lending(sink);
  struct reader *next = NULL;
  for (struct reader *reader = sink->readers; lends && reader; reader = next) {
    next = reader->next;
    struct borrower *borrower = reader->borrower;
    if (!borrower || !shared_take_back(sink, reader, now) || !sink->loans.wanted || borrower->taken == borrower->completed) {
      continue;
    }
    if (++borrower->loans[borrower->taken % NATIVE_RING].ticks > HOLD_TICKS) {
      char why[128];
      snprintf(why, sizeof why, "it held a result for more than %d ms while its slot was needed", HOLD_TICKS * TICK_MS);
      send_away(sink, reader, NATIVE_E_TIMEOUT, why);
    }
  }
  if (lends) {
    lane_schedule(&sink->runner); /* in that turn slots are released and lent again */
  }
  if (sink->loans.wanted) { /* the session says so again while it is so */
    sink->loans.wanted = false;
    sink->loans.flow->wake(sink->loans.flow->session);
  }
}

int shared_attach(struct reader *reader) {
  reader->borrower->readable = true;
  return uv_poll_start(&reader->poll, UV_READABLE, shared_on_ready);
}
