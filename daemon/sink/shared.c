#include "daemon/sink/shared.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/doorbell.h"
#include "daemon/sink/readers.h"

struct loan {
  struct slot *slot; /* NULL: it has ended without the reader */
  unsigned ticks;    /* for which it was the oldest, and wanted */
};

struct borrower {
  struct native_control *control;
  unsigned memory;           /* which of the session's it sees */
  uint32_t completed, taken; /* cursors: loans begun, and ended */
  struct loan loans[NATIVE_RING];
  bool asleep;  /* it was told to ring */
  bool unheard; /* it sleeps, and could not be rung for */
  bool readable;
  int64_t active;              /* when a loan last began or ended */
  enum native_error_code code; /* why it is sent away; 0: it left */
};

/* -- on the control loop -------------------------------------------------------------------------------------------- */

bool reader_share(struct reader *reader, struct native_control *control, unsigned memory) {
  reader->borrower = calloc(1, sizeof *reader->borrower);
  if (!reader->borrower) {
    return false;
  }
  reader->borrower->control = control;
  reader->borrower->memory = memory;
  reader_drop_room(reader); /* it never has a rest */
  return true;
}

struct borrower *borrower_free(struct borrower *borrower) {
  free(borrower);
  return NULL;
}

unsigned reader_farewell(const struct reader *reader) { return reader->borrower ? reader->borrower->code : 0; }

/* -- loans ------------------------------------------------------------------------------------------------------------ */

bool shared_lends(const struct sink *sink) { return sink->loans.count > 0; }

bool sink_is_lending(const struct sink *sink) { return shared_lends(sink); }

bool shared_has(const struct sink *sink, const struct result *result) { return sink->loans.holders[result->slot->index] > 0; }

void shared_want(struct sink *sink) { sink->loans.wanted = shared_lends(sink); }

static struct result *find_result(struct sink *sink, const struct slot *slot) {
  struct result *aside = &sink->loans.aside[slot->index];
  for (uint64_t at = sink->first; at < sink_tail(sink); at++) {
    if (sink_result(sink, at)->slot == slot) {
      return sink_result(sink, at);
    }
  }
  assert(aside->slot == slot);
  return aside;
}

void shared_set_aside(struct sink *sink) {
  struct result *result = sink_result(sink, sink->first);
  unsigned index = result->slot->index;
  assert(!sink->block && !sink->loans.aside[index].slot);
  sink->loans.aside[index] = *result;
  sink->loans.order[index] = sink->first;
  result->slot = NULL;
  sink->first++;
  sink->count--;
}

/* Nobody has it any more. */
static void release_aside(struct sink *sink, struct result *result, enum fate fate, int64_t now) {
  if (result->frame.open) {
    result_settle(result, fate, now);
  }
  result_release(result);
  result->slot = NULL;
  sink->loans.wanted = false;
}

/* The reader, which left before it was done, or a process that ends, may have seen it: it says so of itself, as a frame that
 * was sent again would. Only who gave it a mark makes anything of that. */
static void mark_again(struct result *result) {
  uint32_t flags;
  unsigned char *at = result->native + sizeof(struct native_header) + offsetof(struct native_result, flags);
  memcpy(&flags, at, sizeof flags);
  flags |= (flags & NATIVE_MARK) != 0 ? NATIVE_AGAIN : 0;
  memcpy(at, &flags, sizeof flags);
}

/* The oldest loan of a reader is over, because it is done with the result (`taken`) or left. */
static void end_loan(struct sink *sink, struct reader *reader, bool taken, int64_t now) {
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
  if (taken && result->frame.open) {
    result_settle(result, FATE_EMITTED, now);
  } else if (result->frame.open) {
    mark_again(result);
  }
  if (result == &sink->loans.aside[slot->index] && sink->loans.holders[slot->index] == 0) {
    release_aside(sink, result, FATE_UNREAD, now);
  }
}

/* At the end of a sink it is told so if that takes something from it; else the end of its connection says enough. */
void shared_leave(struct sink *sink, struct reader *reader, int64_t now) {
  struct borrower *borrower = reader->borrower;
  if (sink->stopping && borrower->taken != borrower->completed) {
    borrower->code = NATIVE_E_STOPPING;
  }
  while (borrower->taken != borrower->completed) {
    end_loan(sink, reader, false, now);
  }
}

void shared_discard(struct sink *sink, enum fate fate, int64_t now) {
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

void shared_recall(struct sink *sink) {
  struct loans *loans = &sink->loans;
  for (int i = youngest_aside(loans); i >= 0; i = youngest_aside(loans)) {
    sink->first--;
    sink->count++;
    *sink_result(sink, sink->first) = loans->aside[i];
    loans->aside[i].slot = NULL;
  }
}

static bool has_loan(const struct borrower *borrower, const struct slot *slot) {
  for (unsigned i = 0; i < NATIVE_RING; i++) {
    if (borrower->loans[i].slot == slot) {
      return true;
    }
  }
  return false;
}

/* It is in the queue, before where this reader is, and lent to it once. */
static struct slot *find_lent(const struct reader *reader, unsigned index) {
  struct sink *sink = reader->sink;
  for (uint64_t at = sink->first; at < reader->at && at < sink_tail(sink); at++) {
    struct slot *slot = sink_result(sink, at)->slot;
    if (slot->index == index) {
      return has_loan(reader->borrower, slot) ? NULL : slot;
    }
  }
  return NULL;
}

static void pass_loan(struct reader *reader, struct loan *loan, struct codec *codec) {
  enum { ENDED = GPU_MAX_SLOTS };
  unsigned index = loan->slot ? loan->slot->index : ENDED;
  codec_pass_below(codec, &index, ENDED + 1);
  if (codec->writing || index == ENDED) {
    return;
  }
  loan->slot = find_lent(reader, index);
  if (!loan->slot) {
    codec_break(codec);
    return;
  }
  struct loans *loans = &reader->sink->loans;
  loans->count += loans->holders[index]++ == 0;
  loans->flow = find_result(reader->sink, loan->slot)->flow;
}

void reader_pass_loans(struct reader *reader, struct codec *codec) {
  struct borrower *borrower = reader->borrower;
  CODEC_PASS(codec, borrower->memory);
  CODEC_PASS(codec, borrower->completed);
  CODEC_PASS(codec, borrower->taken);
  if (borrower->completed - borrower->taken > NATIVE_RING) {
    codec_break(codec);
  }
  for (unsigned n = 0; n < borrower->completed - borrower->taken && !codec->broken; n++) {
    pass_loan(reader, &borrower->loans[(borrower->taken + n) % NATIVE_RING], codec);
  }
  borrower->asleep |= !codec->writing;  /* if it was, the reader may have seen it, */
  borrower->unheard |= !codec->writing; /* and if that sleeps, nothing was said for it yet */
}

/* -- what the reader does ------------------------------------------------------------------------------------------- */

static void send_away(struct sink *sink, struct reader *reader, enum native_error_code code, const char *why) {
  reader->borrower->code = code;
  reader_depart(sink, reader, why);
}

static void on_ready(uv_poll_t *poll, int status, int events) {
  struct reader *reader = poll->data;
  (void)events;
  if (status < 0) {
    uv_poll_start(poll, UV_READABLE, on_ready); /* libuv stopped it, but bytes may wait before the end of which it tells */
  }
  reader->borrower->readable = true;
  lane_schedule(&reader->sink->runner);
}

/* Takes back what it says that it is done with. False: it was never given that. */
static bool take_back(struct sink *sink, struct reader *reader, int64_t now) {
  struct borrower *borrower = reader->borrower;
  uint32_t taken = atomic_load_explicit(&borrower->control->client.taken, memory_order_acquire);
  if (taken - borrower->taken > borrower->completed - borrower->taken) {
    return false;
  }
  borrower->active = taken != borrower->taken ? now : borrower->active;
  while (borrower->taken != taken) {
    end_loan(sink, reader, true, now);
  }
  return true;
}

/* False: it is no reader any more. What it took before it left counts. */
static bool hear(struct sink *sink, struct reader *reader, int64_t now) {
  enum doorbell_heard heard = reader->borrower->readable ? doorbell_hear(reader->fd) : DOORBELL_NOTHING;
  reader->borrower->readable = heard == DOORBELL_MORE;
  if (heard == DOORBELL_NOTHING || heard == DOORBELL_MORE) {
    return true;
  }
  int error = errno;
  take_back(sink, reader, now);
  if (heard == DOORBELL_NONSENSE) {
    send_away(sink, reader, NATIVE_E_PROTOCOL, DOORBELL_COMPLAINT);
  } else {
    reader_depart(sink, reader, heard == DOORBELL_ERROR ? strerror(error) : "");
  }
  return false;
}

/* -- lending ------------------------------------------------------------------------------------------------------------ */

/* Under `drop` the session keeps two slots of those that it may have past READY, or one where it has two. */
static unsigned most_lent(const struct sink *sink, const struct flow *flow) {
  return sink->block ? flow->ring.count : flow->depth - (flow->depth > 2 ? 2 : 1);
}

static bool may_lend(const struct sink *sink, const struct result *result) {
  return shared_has(sink, result) || sink->loans.count < most_lent(sink, result->flow);
}

static void lend(struct sink *sink, struct reader *reader, const struct result *result, int64_t now) {
  struct borrower *borrower = reader->borrower;
  struct native_completion completion = {.slot = result->slot->index, .fate = FATE_EMITTED};
  memcpy(&completion.result, result->native + sizeof(struct native_header), sizeof completion.result);
  completion.result.dropped += reader->skipped;
  reader->skipped = 0;
  memcpy(&borrower->control->completions[borrower->completed % NATIVE_RING], &completion, sizeof completion);
  borrower->loans[borrower->completed % NATIVE_RING] = (struct loan){.slot = result->slot};
  sink->loans.count += sink->loans.holders[result->slot->index]++ == 0;
  sink->loans.flow = result->flow;
  borrower->completed++;
  borrower->active = now;
  reader->at++;
}

/* False: there is a result in memory that this reader does not see. */
static bool lend_all(struct sink *sink, struct reader *reader, int64_t now) {
  struct borrower *borrower = reader->borrower;
  uint32_t before = borrower->completed;
  bool sees = true;
  while (reader->at < sink_tail(sink) && borrower->completed - borrower->taken < NATIVE_RING) {
    const struct result *result = sink_result(sink, reader->at);
    sees = result->flow->memory == borrower->memory;
    if (!sees || !may_lend(sink, result)) {
      break;
    }
    lend(sink, reader, result, now);
  }
  if (borrower->completed != before) {
    atomic_store_explicit(&borrower->control->daemon.completed, borrower->completed, memory_order_release);
  }
  if (borrower->completed != before || borrower->unheard) {
    borrower->unheard = !doorbell_ring(borrower->control, reader->fd);
  }
  return sees;
}

/* -- turns ---------------------------------------------------------------------------------------------------------- */

/* A reader rings for what it is done with only once it is told to. */
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
  if (!take_back(sink, reader, now)) {
    send_away(sink, reader, NATIVE_E_PROTOCOL, "in shared memory it took results that it was not given");
    return false;
  }
  readers_release(sink, now); /* what is set aside by that counts as lent, too */
  if (!lend_all(sink, reader, now)) {
    send_away(sink, reader, NATIVE_E_STOPPING, "the pipeline has other memory now: connect again");
    return false;
  }
  if (borrower->taken == borrower->completed && !borrower->readable) {
    return false; /* nothing is to be heard of it */
  }
  return borrower->readable || now - borrower->active < sink->spin_ns || !may_sleep(borrower);
}

/* One that lies is sent away at its turn. */
void shared_look(struct sink *sink, int64_t now) {
  for (struct reader *reader = sink->readers; reader; reader = reader->next) {
    if (reader->borrower) {
      take_back(sink, reader, now);
    }
  }
}

static bool holds_too_long(const struct sink *sink, struct borrower *borrower) {
  struct loan *oldest = &borrower->loans[borrower->taken % NATIVE_RING];
  return sink->loans.wanted && borrower->taken != borrower->completed && ++oldest->ticks > HOLD_TICKS;
}

/* What a reader is done with is looked at now and then even if it does not ring. */
void shared_tick(struct sink *sink, int64_t now) {
  bool lends = shared_lends(sink);
  struct reader *next = NULL;
  for (struct reader *reader = sink->readers; lends && reader; reader = next) {
    next = reader->next;
    if (reader->borrower && take_back(sink, reader, now) && holds_too_long(sink, reader->borrower)) {
      char why[128];
      snprintf(why, sizeof why, "it held a result for more than %d ms while its slot was needed", HOLD_TICKS * TICK_MS);
      send_away(sink, reader, NATIVE_E_TIMEOUT, why);
    }
  }
  if (lends) {
    lane_schedule(&sink->runner); /* where the rest follows */
  }
  if (sink->loans.wanted) { /* the session says so again if it still is so */
    sink->loans.wanted = false;
    sink->loans.flow->wake(sink->loans.flow->session);
  }
}

int shared_attach(struct reader *reader) {
  reader->borrower->readable = true;
  return uv_poll_start(&reader->poll, UV_READABLE, on_ready);
}
