/*
 * The shared transport: frames and results stay where they are, and cursors in the control memory move.
 *
 * A slot is free, held by the caller, away (from its submission until the caller is done with its completion). Completions
 * are taken in their order: `seen` moves when one is looked at, `taken`, which gives slots back to us, when the caller is
 * done with it and with all before it. Nothing on this way asks the system, except to wake a daemon that sleeps and, ten
 * times a second while nothing happens, to see whether it is still there.
 *
 * Each connection has memory of its own, a lot. What a daemon that is gone has completed is received from the lot that it
 * left; what it has not is copied into the next one's. A lot goes when the caller holds nothing in it any more.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/client/client.h"

#define HEAR_EVERY (NS_PER_S / 10)

static bool is_consumer(const struct framed *client) { return client->info.role == FRAMED_CONSUMER; }

/* -- lots -------------------------------------------------------------------------------------------------------------- */

static bool shared_open(struct framed *client) {
  (void)client; /* all there is belongs to a connection */
  return true;
}

static bool cannot_map(struct framed *client, const char *what) {
  if (errno == EPROTO) {
    return client_break(client, FRAMED_E_DAEMON, 0, "the %s memory of pipeline %s is not as the welcome says", what,
                        client->info.pipeline);
  }
  return client_break(client, FRAMED_E_SYSTEM, errno, "cannot map the %s memory of pipeline %s", what, client->info.pipeline);
}

static bool map_lot(struct framed *client, struct lot *lot) {
  const struct native_welcome *welcome = &client->greeting.welcome;
  const int *descriptors = client->greeting.descriptors;
  const struct framed_info *info = &client->info;
  if (welcome->control_bytes != NATIVE_CONTROL ||
      !region_map(&lot->control, descriptors[SHARED_CONTROL], 1, NATIVE_CONTROL, NATIVE_CONTROL, true)) {
    errno = welcome->control_bytes != NATIVE_CONTROL ? EPROTO : errno;
    return cannot_map(client, "control");
  }
  if (!is_consumer(client) && !region_map(&lot->inputs, descriptors[SHARED_INPUT], lot->places, info->input_bytes,
                                          (size_t)welcome->input_stride, true)) {
    return cannot_map(client, "input");
  }
  if (info->role != FRAMED_PRODUCER && !region_map(&lot->outputs, descriptors[SHARED_OUTPUT], lot->places, info->output_bytes,
                                                   (size_t)welcome->output_stride, false)) {
    return cannot_map(client, "output");
  }
  lot->words = (struct native_control *)(void *)lot->control.base;
  return true;
}

/* A lot of a daemon that is gone, of which nobody wants anything any more. */
static bool is_spent(const struct lot *lot) {
  bool spent = lot->lost && lot->seen == lot->last;
  for (unsigned i = 0; i < lot->places; i++) {
    spent = spent && lot->frames[i] == PLACE_FREE;
  }
  return spent;
}

/* But the newest, which others are compared with. */
static void drop_spent(struct framed *client) {
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

/* A frame that a daemon gave up because it ends is to be sent again. */
static bool is_undone(const struct framed *client, const struct native_completion *completion) {
  return client->keeps && (completion->fate == FRAMED_CLIENT_GONE || completion->fate == FRAMED_SHUTDOWN);
}

/* -- completions ------------------------------------------------------------------------------------------------------ */

/* So many are there to be looked at. Broken: there cannot be so many. */
static uint32_t waiting_in(struct framed *client, const struct lot *lot) {
  if (lot->lost) {
    return lot->last - lot->seen;
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

/* Gives back what the caller is done with, up to the first that it still holds. */
static void move_taken(struct lot *lot) {
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
  }
}

static void be_done(struct framed *client, struct lot *lot, uint32_t cursor) {
  lot->done[cursor % NATIVE_RING] = true;
  move_taken(lot);
  drop_spent(client);
}

/* Takes note of the next one. False: it is a lie, and the client is broken. */
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

/* So many results are there for the caller. Those of frames that will be sent again are none. */
static uint32_t skip_undone(struct framed *client, struct lot *lot) {
  struct native_completion completion;
  uint32_t count = waiting_in(client, lot);
  while (count > 0) {
    copy_completion(lot, lot->seen, &completion);
    if (!is_undone(client, &completion)) {
      return count;
    }
    if (lot->lost) { /* lose() has dealt with it */
      lot->slots[lot->seen % NATIVE_RING] = (unsigned char)completion.slot;
      lot->done[lot->seen % NATIVE_RING] = true;
      lot->seen++;
      move_taken(lot);
    } else if (see(client, lot, &completion)) {
      lot->done[(lot->seen - 1) % NATIVE_RING] = true;
      move_taken(lot);
    } else {
      return 0;
    }
    count--;
  }
  return 0;
}

/* The oldest lot with results. */
static struct lot *lot_with_results(struct framed *client) {
  struct lot *found = NULL;
  for (struct lot *lot = client->lot; lot; lot = lot->older) {
    found = skip_undone(client, lot) > 0 ? lot : found;
  }
  return found;
}

/* A producer only wants its slots back. */
static void take_all(struct framed *client) {
  struct native_completion completion;
  for (struct lot *lot = lot_with_results(client); lot && see(client, lot, &completion); lot = lot_with_results(client)) {
    be_done(client, lot, lot->seen - 1);
  }
}

/* Where a result lies is the number of its lot and the place in the ring. */
static bool receive(struct framed *client, struct framed_result *result) {
  struct native_completion completion;
  struct lot *lot = client->info.role == FRAMED_PRODUCER ? NULL : lot_with_results(client);
  if (!lot || !see(client, lot, &completion)) {
    return false;
  }
  uint32_t cursor = lot->seen - 1;
  *result = (struct framed_result){.sequence = completion.result.sequence,
                                   .dropped = completion.result.dropped,
                                   .timestamp = completion.result.timestamp,
                                   .fate = (int)completion.fate,
                                   .session = completion.result.session,
                                   .flags = completion.result.flags & ~NATIVE_MARK,
                                   .place = lot->number * NATIVE_RING + cursor % NATIVE_RING};
  memcpy(result->steps, completion.result.steps, sizeof result->steps);
  if (completion.fate == FRAMED_EMITTED) {
    result->data = lot->outputs.base + completion.slot * lot->outputs.stride;
    result->size = client->info.output_bytes;
  } else {
    be_done(client, lot, cursor);
  }
  return true;
}

static void release(struct framed *client, unsigned place) {
  struct lot *lot = client->lot;
  while (lot && lot->number != place / NATIVE_RING) {
    lot = lot->older;
  }
  uint32_t behind = lot ? (place - lot->taken) % NATIVE_RING : 0;
  if (lot && behind < lot->seen - lot->taken) {
    be_done(client, lot, lot->taken + behind);
  }
}

/* -- the connection ---------------------------------------------------------------------------------------------------- */

/* Doorbells say nothing more; an ERROR may begin behind any of them. */
static void take_byte(struct framed *client, unsigned char byte) {
  struct message *message = &client->message;
  if (client->broken || (message->count == 0 && byte == NATIVE_DOORBELL)) {
    return;
  }
  message->bytes[message->count++] = byte;
  if (message->count == message_wanted(client)) {
    client_told(client, message);
  }
}

static void hear_end(struct framed *client) {
  if (is_consumer(client) && !client->keeps) {
    client->shared.ended = true;
  } else {
    client->reconnect.quietly = is_consumer(client);
    client_break(client, FRAMED_E_CLOSED, 0, "the daemon closed the connection to pipeline %s", client->info.pipeline);
  }
}

static void hear(struct framed *client) {
  unsigned char bytes[64];
  ssize_t got = (ssize_t)sizeof bytes;
  while (got == (ssize_t)sizeof bytes && !client->broken) {
    got = recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    for (ssize_t i = 0; i < got; i++) {
      take_byte(client, bytes[i]);
    }
  }
  if (got == 0 || (got < 0 && errno == ECONNRESET)) {
    hear_end(client);
  } else if (got < 0 && errno != EAGAIN && errno != EINTR) {
    client_break(client, FRAMED_E_SYSTEM, errno, "cannot read the connection to pipeline %s", client->info.pipeline);
  }
  client->shared.heard = framed_clock();
}

static void ring(const struct framed *client) {
  const unsigned char doorbell = NATIVE_DOORBELL;
  struct native_control *words = client->lot->words;
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&words->daemon.sleeps, memory_order_relaxed) != 0) {
    atomic_store_explicit(&words->daemon.sleeps, 0, memory_order_relaxed);
    /* If it does not fit, enough of them wait there already; if nobody is there, that shows when the connection is heard. */
    (void)!send(client->fd, &doorbell, sizeof doorbell, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

/* -- frames ------------------------------------------------------------------------------------------------------------ */

static void put(struct framed *client, unsigned index, const struct native_frame *stamp) {
  struct lot *lot = client->lot;
  const struct native_submission submission = {.slot = index, .frame = *stamp};
  memcpy(&lot->words->submissions[lot->submitted % NATIVE_RING], &submission, sizeof submission);
  lot->submitted++;
  atomic_store_explicit(&lot->words->client.submitted, lot->submitted, memory_order_release);
  ring(client);
}

static int free_slot(const struct lot *lot) {
  for (unsigned i = 0; i < lot->places; i++) {
    if (lot->frames[i] == PLACE_FREE) {
      return (int)i;
    }
  }
  return -1;
}

/* Into the memory of the daemon that is there; false: no slot is free for it now. */
static bool move_over(struct framed *client, struct kept *kept) {
  struct lot *lot = client->lot;
  int to = kept->lot == lot ? (int)kept->index : free_slot(lot);
  if (to < 0) {
    return false;
  }
  if (kept->lot != lot) {
    memcpy(lot->inputs.base + (unsigned)to * lot->inputs.stride,
           kept->lot->inputs.base + kept->index * kept->lot->inputs.stride, client->info.input_bytes);
    kept->lot->frames[kept->index] = PLACE_FREE;
    lot->frames[to] = PLACE_AWAY;
    kept->lot = lot;
    kept->index = (unsigned)to;
  }
  return true;
}

/* Frames go in their order: behind one that cannot go, none does. */
static void send_kept(struct framed *client) {
  struct shared *shared = &client->shared;
  for (unsigned i = 0; i < shared->count && !client->paused; i++) {
    struct kept *kept = &shared->kept[i];
    if (kept->parked || (!kept->sent && !move_over(client, kept))) {
      break;
    }
    if (!kept->sent) {
      kept->sent = true;
      put(client, kept->index, &kept->stamp);
    }
  }
  drop_spent(client);
}

static void submit(struct framed *client, struct lot *lot, unsigned index, const struct native_frame *stamp) {
  struct shared *shared = &client->shared;
  if (!client->keeps) {
    put(client, index, stamp);
    return;
  }
  shared->kept[shared->count++] = (struct kept){.lot = lot, .index = index, .stamp = *stamp};
  send_kept(client);
}

/* Frames that the caller holds and those that are kept are together no more than the daemon has slots, so that there is a slot
 * for each. */
static bool has_room(const struct framed *client) {
  const struct lot *newest = client->lot;
  unsigned taken = client->shared.count;
  if (is_consumer(client) || client->finished || free_slot(newest) < 0) {
    return false;
  }
  const struct lot *lot = newest;
  do {
    for (unsigned i = 0; i < lot->places; i++) {
      taken += lot->frames[i] == PLACE_HELD;
    }
    lot = lot->older;
  } while (lot);
  return !client->keeps || taken < newest->places;
}

static bool is_at_end(const struct framed *client, bool results) {
  const struct lot *lot = client->lot;
  if (is_consumer(client)) {
    return !results && client->shared.ended;
  }
  return !results && client->finished && (client->keeps ? client->shared.count == 0 : lot->submitted == lot->seen);
}

static unsigned events(struct framed *client) {
  if (client->info.role == FRAMED_PRODUCER) {
    take_all(client);
  }
  if (client->keeps) {
    send_kept(client);
  }
  bool results = lot_with_results(client) != NULL;
  bool received = results && client->info.role != FRAMED_PRODUCER; /* whose completions only give room */
  return (received ? FRAMED_RESULT : 0U) | (has_room(client) ? FRAMED_ROOM : 0U) |
         (is_at_end(client, results) ? FRAMED_END : 0U);
}

/* Whether what a client waits for has not come, so that it may be asked whether anybody is still there. */
static bool is_quiet(const struct framed *client, unsigned there) {
  return (there & (client->info.role == FRAMED_PRODUCER ? FRAMED_ROOM : FRAMED_RESULT)) == 0;
}

static unsigned look(struct framed *client) {
  unsigned there = events(client);
  if (is_quiet(client, there) && !client->broken && framed_clock() - client->shared.heard > HEAR_EVERY) {
    hear(client);
    there = events(client);
  }
  return there;
}

/* -- sleeping ---------------------------------------------------------------------------------------------------------- */

static short arm(struct framed *client) {
  atomic_store_explicit(&client->lot->words->client.sleeps, 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  return POLLIN;
}

static void wake(struct framed *client, short conditions) {
  atomic_store_explicit(&client->lot->words->client.sleeps, 0, memory_order_relaxed);
  if (conditions != 0) {
    hear(client);
  }
}

/* The daemon takes an end of the connection for an end of the client, so there is nothing to say to it. */
static void finish(struct framed *client) { (void)client; }

/* -- another connection ------------------------------------------------------------------------------------------------ */

/* What the daemon has completed is done, also where the caller does not know of it yet; all else is to be sent. */
static void lose(struct framed *client) {
  struct shared *shared = &client->shared;
  struct lot *lot = client->lot;
  struct native_completion completion;
  uint32_t count = waiting_in(client, lot);
  uint32_t cursor = lot->seen;
  for (; cursor != lot->seen + count; cursor++) {
    copy_completion(lot, cursor, &completion);
    struct kept *kept = completion.slot < lot->places ? find_kept(client, lot, completion.slot) : NULL;
    if (!is_consumer(client) && (!kept || !kept->sent || kept->parked)) {
      break; /* a lie, of a daemon that is gone */
    }
    if (kept && !is_undone(client, &completion)) {
      forget_kept(client, kept);
    } else if (kept) {
      kept->parked = true;
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

static void end(struct framed *client) { client->shared.ended = true; }

static bool resume(struct framed *client) {
  struct lot *lot = lot_new(client, client->greeting.welcome.slots);
  if (!lot || !map_lot(client, lot)) {
    if (lot) {
      lot->older = NULL;
      lot_free(lot);
    }
    return false;
  }
  client->lot = lot;
  client->shared.heard = framed_clock();
  return true;
}

const struct transport shared_transport = {shared_open, look,    events, arm,  wake, has_room, submit,
                                           receive,     release, finish, lose, end,  resume};
