/*
 * Completions in shared memory. Each has the fate of a submitted frame, and they outlive their connection. They are received in
 * order, those of an older lot first.
 *
 * A completion is valid only for a slot that is away, and with kept frames only for one that was sent. A frame that a stopping
 * daemon gave up is parked: it is no result, and goes to the next daemon.
 */
#include <string.h>
#include <sys/socket.h>

#include "tools/client/shared.h"

void shared_ring(const struct framed *client) {
  const unsigned char doorbell = NATIVE_DOORBELL;
  struct native_control *words = client->lot->words;
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&words->daemon.sleeps, memory_order_relaxed) != 0) {
    atomic_store_explicit(&words->daemon.sleeps, 0, memory_order_relaxed);
    /* A failure is harmless: either the socket already holds enough doorbells, or the next read notices the end. */
    (void)!send(client->fd, &doorbell, sizeof doorbell, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

/* -- lots that are left behind ------------------------------------------------------------------------------------------ */

/* True for a lot of a lost connection without unread completions and held places. */
static bool is_spent(const struct lot *lot) {
  bool spent = lot->lost && lot->seen == lot->last;
  for (unsigned i = 0; i < lot->places; i++) {
    spent = spent && lot->frames[i] == PLACE_FREE;
  }
  return spent;
}

/* Keeps the newest lot, since new frames are placed there. */
void shared_drop_spent(struct framed *client) {
  struct lot **link = &client->lot->older;
  while (*link) {
    struct lot *lot = *link;
    if (is_spent(lot)) {
      *link = lot->older;
      lot->older = NULL;
      lot_free(lot);
    } else {
      link = &lot->older;
    }
  }
}

/* -- what is kept ------------------------------------------------------------------------------------------------------ */

static struct kept *find_kept(struct framed *client, const struct lot *lot, unsigned index) {
  struct shared *shared = &client->shared;
  for (unsigned i = 0; i < shared->count; i++) {
    if (shared->kept[i].lot == lot && shared->kept[i].index == index) {
      return &shared->kept[i];
    }
  }
  return NULL;
}

static void forget_kept(struct framed *client, struct kept *kept) {
  struct shared *shared = &client->shared;
  shared->count--;
  memmove(kept, kept + 1, (size_t)(&shared->kept[shared->count] - kept) * sizeof *kept);
}

/* A frame that a stopping daemon gave up is sent again. A consumer may have received its result before. */
static bool is_undone(const struct framed *client, const struct native_completion *completion) {
  if (is_consumer(client)) {
    return reconnect_knows(client, completion->result.flags);
  }
  return client->keeps && (completion->fate == FRAMED_CLIENT_GONE || completion->fate == FRAMED_SHUTDOWN);
}

/* -- completions ------------------------------------------------------------------------------------------------------ */

/* A consumer loses its unreceived results with the connection, since the pipeline may overwrite them. */
static bool is_withdrawn(const struct framed *client) {
  return is_consumer(client) && (client->broken || client->shared.ended);
}

/* The number of unread completions. A number above the slots breaks the client. */
static uint32_t waiting_in(struct framed *client, const struct lot *lot) {
  if (lot->lost) {
    return lot->last - lot->seen;
  }
  if (is_withdrawn(client)) {
    return 0;
  }
  uint32_t count = atomic_load_explicit(&lot->words->daemon.completed, memory_order_acquire) - lot->seen;
  if (count > lot->places) {
    client_break(client, FRAMED_E_DAEMON, 0, "pipeline %s claims %u completions of %u slots", client->info.pipeline, count,
                 lot->places);
    return 0;
  }
  return count;
}

static void copy_completion(const struct lot *lot, uint32_t cursor, struct native_completion *completion) {
  memcpy(completion, &lot->words->completions[cursor % NATIVE_RING], sizeof *completion);
}

static bool is_expected(struct framed *client, const struct lot *lot, const struct native_completion *completion) {
  enum place expected = is_consumer(client) ? PLACE_FREE : PLACE_AWAY;
  if (completion->slot >= lot->places || lot->frames[completion->slot] != expected) {
    return false;
  }
  const struct kept *kept = client->keeps && !is_consumer(client) ? find_kept(client, lot, completion->slot) : NULL;
  return !client->keeps || is_consumer(client) || lot->lost || (kept && kept->sent && !kept->parked);
}

/* Moves `taken` over all released completions, up to the first that the caller still holds. */
static void move_taken(const struct framed *client, struct lot *lot) {
  uint32_t before = lot->taken;
  while (lot->taken != lot->seen && lot->done[lot->taken % NATIVE_RING]) {
    unsigned char slot = lot->slots[lot->taken % NATIVE_RING];
    if (lot->frames[slot] == PLACE_READY) {
      lot->frames[slot] = PLACE_FREE;
    }
    lot->taken++;
  }
  if (lot->taken != before) {
    atomic_store_explicit(&lot->words->client.taken, lot->taken, memory_order_release);
    if (is_consumer(client) && !lot->lost) {
      shared_ring(client); /* a waiting daemon has no other notification */
    }
  }
}

static void be_done(struct framed *client, struct lot *lot, uint32_t cursor) {
  lot->done[cursor % NATIVE_RING] = true;
  move_taken(client, lot);
  shared_drop_spent(client);
}

/* Reads the next completion. False: it is invalid, and the client is broken. */
static bool see(struct framed *client, struct lot *lot, struct native_completion *completion) {
  copy_completion(lot, lot->seen, completion);
  if (!is_expected(client, lot, completion)) {
    return client_break(client, FRAMED_E_DAEMON, 0, "pipeline %s completed slot %u, which it does not have",
                        client->info.pipeline, completion->slot);
  }
  struct kept *kept = client->keeps ? find_kept(client, lot, completion->slot) : NULL;
  lot->slots[lot->seen % NATIVE_RING] = (unsigned char)completion->slot;
  lot->done[lot->seen % NATIVE_RING] = false;
  lot->seen++;
  if (kept && is_undone(client, completion)) {
    kept->parked = true;
    return true;
  }
  if (kept) {
    forget_kept(client, kept);
  }
  lot->frames[completion->slot] = PLACE_READY;
  return true;
}

/* The number of results for the caller. Skips those of frames that will be sent again. */
static uint32_t skip_undone(struct framed *client, struct lot *lot) {
  struct native_completion completion;
  uint32_t count = waiting_in(client, lot);
  while (count > 0) {
    copy_completion(lot, lot->seen, &completion);
    if (!is_undone(client, &completion)) {
      return count;
    }
    if (lot->lost) { /* shared_lose() has already handled its frame */
      lot->slots[lot->seen % NATIVE_RING] = (unsigned char)completion.slot;
      lot->done[lot->seen % NATIVE_RING] = true;
      lot->seen++;
      move_taken(client, lot);
    } else if (see(client, lot, &completion)) {
      lot->done[(lot->seen - 1) % NATIVE_RING] = true;
      move_taken(client, lot);
    } else {
      return 0;
    }
    count--;
  }
  return 0;
}

struct lot *shared_with_results(struct framed *client) {
  struct lot *found = NULL;
  for (struct lot *lot = client->lot; lot; lot = lot->older) {
    found = skip_undone(client, lot) > 0 ? lot : found;
  }
  return found;
}

void shared_take_all(struct framed *client) {
  struct native_completion completion;
  for (struct lot *lot = shared_with_results(client); lot && see(client, lot, &completion); lot = shared_with_results(client)) {
    be_done(client, lot, lot->seen - 1);
  }
}

/* A result's place is the number of its lot and its index in the ring. */
bool shared_receive(struct framed *client, struct framed_result *result) {
  struct native_completion completion;
  struct lot *lot = is_silent(client) ? NULL : shared_with_results(client);
  if (!lot || !see(client, lot, &completion)) {
    return false;
  }
  uint32_t cursor = lot->seen - 1;
  if (is_consumer(client)) {
    reconnect_is_new(client, completion.result.flags); /* notes that it was received */
  }
  *result = (struct framed_result){.sequence = completion.result.sequence,
                                   .dropped = completion.result.dropped,
                                   .timestamp = completion.result.timestamp,
                                   .fate = (int)completion.fate,
                                   .session = completion.result.session,
                                   .flags = completion.result.flags & ~NATIVE_MARK,
                                   .number = completion.result.number,
                                   .epoch = completion.result.epoch,
                                   .place = lot->number * NATIVE_RING + cursor % NATIVE_RING};
  memcpy(result->steps, completion.result.steps, sizeof result->steps);
  if (completion.fate == FRAMED_EMITTED && client->info.role != FRAMED_PRODUCER) {
    result->data = lot->outputs.base + completion.slot * lot->outputs.stride;
    result->size = client->info.output_bytes;
  } else {
    be_done(client, lot, cursor);
  }
  return true;
}

void shared_release(struct framed *client, unsigned place) {
  struct lot *lot = client->lot;
  while (lot && lot->number != place / NATIVE_RING) {
    lot = lot->older;
  }
  uint32_t behind = lot ? (place - lot->taken) % NATIVE_RING : 0;
  if (lot && behind < lot->seen - lot->taken) {
    be_done(client, lot, lot->taken + behind);
  }
}

/* -- the end of a connection -------------------------------------------------------------------------------------------- */

/*
 * Frames with a completion are finished, even if the caller has not read it. All others will be sent again. A consumer gets
 * unreceived results from the next connection.
 */
void shared_lose(struct framed *client) {
  struct shared *shared = &client->shared;
  struct lot *lot = client->lot;
  struct native_completion completion;
  uint32_t count = waiting_in(client, lot);
  uint32_t cursor = lot->seen;
  for (; cursor != lot->seen + count; cursor++) {
    copy_completion(lot, cursor, &completion);
    struct kept *kept = completion.slot < lot->places ? find_kept(client, lot, completion.slot) : NULL;
    if (!kept || !kept->sent || kept->parked) {
      break; /* invalid, and the daemon is gone */
    }
    if (is_undone(client, &completion)) {
      kept->parked = true;
    } else {
      forget_kept(client, kept);
    }
  }
  lot->last = cursor;
  lot->lost = true;
  for (unsigned i = 0; i < shared->count; i++) {
    struct kept *kept = &shared->kept[i];
    kept->stamp.flags |= kept->sent ? NATIVE_AGAIN : 0;
    kept->sent = kept->parked = false;
  }
}
