/*
 * The shared transport: frames and results stay in place, and cursors in the control memory move.
 *
 * A slot is free, held by the caller, or away: from its submission until the caller releases its completion. Completions are
 * handled in order. `seen` moves when one is read. `taken` moves when the caller has released it and all before it, and frees
 * its slot. The fast path makes no system call, except to wake a sleeping daemon. Without results it also checks ten times a
 * second whether the daemon is still connected.
 *
 * Each connection has its own memory, a lot. Completions of a lost connection are received from its lot. Unfinished frames are
 * copied into the next lot. A lot is freed when the caller holds nothing in it any more.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/client/shared.h"

#define READ_EVERY (NS_PER_S / 10)

/* -- lots -------------------------------------------------------------------------------------------------------------- */

static bool shared_open(struct framed *client) {
  (void)client; /* all state belongs to a connection */
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
  const int *descriptors = client->greeting.descriptors - (is_consumer(client) ? SHARED_OUTPUT : SHARED_INPUT);
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

/* -- the connection ---------------------------------------------------------------------------------------------------- */

/* A doorbell carries no data. An ERROR may follow any doorbell. */
static void take_byte(struct framed *client, unsigned char byte) {
  struct message *message = &client->message;
  if (client->broken || (message->count == 0 && byte == NATIVE_DOORBELL)) {
    return;
  }
  message->bytes[message->count++] = byte;
  if (message->count == message_wanted(client)) {
    client_break_by_error(client, message);
  }
}

static void handle_close(struct framed *client) {
  if (is_consumer(client) && !client->keeps) {
    client->shared.ended = true;
  } else {
    client->reconnect.quietly = is_consumer(client);
    client_break(client, FRAMED_E_CLOSED, 0, "the daemon closed the connection to pipeline %s", client->info.pipeline);
  }
}

static void read_connection(struct framed *client) {
  unsigned char bytes[64];
  ssize_t got = (ssize_t)sizeof bytes;
  while (got == (ssize_t)sizeof bytes && !client->broken) {
    got = recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    for (ssize_t i = 0; i < got; i++) {
      take_byte(client, bytes[i]);
    }
  }
  if (got == 0 || (got < 0 && errno == ECONNRESET)) {
    handle_close(client);
  } else if (got < 0 && errno != EAGAIN && errno != EINTR) {
    client_break(client, FRAMED_E_SYSTEM, errno, "cannot read the connection to pipeline %s", client->info.pipeline);
  }
  client->shared.read_at = framed_clock();
}

/* -- frames ------------------------------------------------------------------------------------------------------------ */

static void put(struct framed *client, unsigned index, const struct native_frame *stamp) {
  struct lot *lot = client->lot;
  const struct native_submission submission = {.slot = index, .frame = *stamp};
  memcpy(&lot->words->submissions[lot->submitted % NATIVE_RING], &submission, sizeof submission);
  lot->submitted++;
  atomic_store_explicit(&lot->words->client.submitted, lot->submitted, memory_order_release);
  shared_ring(client);
}

static int free_slot(const struct lot *lot) {
  for (unsigned i = 0; i < lot->places; i++) {
    if (lot->frames[i] == PLACE_FREE) {
      return (int)i;
    }
  }
  return -1;
}

/* Copies a frame into the current daemon's memory. False: no slot is free yet. */
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

/* Frames keep their order, so the first one that cannot be sent stops the loop. */
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
  shared_drop_spent(client);
}

static void shared_submit(struct framed *client, struct lot *lot, unsigned index, const struct native_frame *stamp) {
  struct shared *shared = &client->shared;
  if (!client->keeps) {
    put(client, index, stamp);
    return;
  }
  shared->kept[shared->count++] = (struct kept){.lot = lot, .index = index, .stamp = *stamp};
  send_kept(client);
}

/* Held and kept frames together must not exceed the daemon's slots, so that each one gets a slot. */
static bool shared_has_room(const struct framed *client) {
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

static unsigned shared_events(struct framed *client) {
  if (is_silent(client)) {
    shared_take_all(client);
  }
  if (client->keeps) {
    send_kept(client);
  }
  bool results = shared_with_results(client) != NULL;
  bool received = results && !is_silent(client); /* a silent producer's completions only free slots */
  return (received ? FRAMED_RESULT : 0U) | (shared_has_room(client) ? FRAMED_ROOM : 0U) |
         (is_at_end(client, results) ? FRAMED_END : 0U);
}

/* True if the client still waits for its event, so a check of the connection is due. */
static bool is_quiet(const struct framed *client, unsigned there) {
  return (there & (is_silent(client) ? FRAMED_ROOM : FRAMED_RESULT)) == 0;
}

static unsigned shared_look(struct framed *client) {
  unsigned there = shared_events(client);
  if (is_quiet(client, there) && !client->broken && framed_clock() - client->shared.read_at > READ_EVERY) {
    read_connection(client);
    there = shared_events(client);
  }
  return there;
}

/* -- sleeping ---------------------------------------------------------------------------------------------------------- */

static short shared_arm(struct framed *client) {
  atomic_store_explicit(&client->lot->words->client.sleeps, 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  return POLLIN;
}

static void shared_wake(struct framed *client, short conditions) {
  atomic_store_explicit(&client->lot->words->client.sleeps, 0, memory_order_relaxed);
  if (conditions != 0) {
    read_connection(client);
  }
}

/* The daemon treats a closed connection as a client that left, so nothing is sent. */
static void shared_finish(struct framed *client) { (void)client; }

/* -- another connection ------------------------------------------------------------------------------------------------ */

static void shared_end(struct framed *client) { client->shared.ended = true; }

static bool shared_resume(struct framed *client) {
  struct lot *lot = lot_new(client, client->greeting.welcome.slots);
  if (!lot || !map_lot(client, lot)) {
    if (lot) {
      lot->older = NULL;
      lot_free(lot);
    }
    return false;
  }
  client->lot = lot;
  client->shared.read_at = framed_clock();
  return true;
}

const struct transport shared_transport = {
    .open = shared_open,
    .look = shared_look,
    .events = shared_events,
    .arm = shared_arm,
    .wake = shared_wake,
    .has_room = shared_has_room,
    .submit = shared_submit,
    .receive = shared_receive,
    .release = shared_release,
    .finish = shared_finish,
    .lose = shared_lose,
    .end = shared_end,
    .resume = shared_resume,
};
