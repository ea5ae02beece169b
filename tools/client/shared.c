/*
 * The shared transport: frames and results stay where they are, and cursors in the control memory move.
 *
 * A slot is free, held by the caller, away (from its submission until the caller is done with its completion). Completions
 * are taken in their order: `seen` moves when one is looked at, `taken`, which gives slots back to us, when the caller is
 * done with it and with all before it. Nothing on this way asks the system, except to wake a daemon that sleeps and, ten
 * times a second while nothing happens, to see whether it is still there.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/client/client.h"

#define HEAR_EVERY (NS_PER_S / 10)

static bool is_consumer(const struct framed *client) { return client->info.role == FRAMED_CONSUMER; }

static bool cannot_map(struct framed *client, const char *what) {
  if (errno == EPROTO) {
    return client_break(client, FRAMED_E_DAEMON, 0, "the %s memory of pipeline %s is not as the welcome says", what,
                        client->info.pipeline);
  }
  return client_break(client, FRAMED_E_SYSTEM, errno, "cannot map the %s memory of pipeline %s", what, client->info.pipeline);
}

bool shared_open(struct framed *client, const struct native_welcome *welcome, const int descriptors[SHARED_DESCRIPTORS]) {
  const struct framed_info *info = &client->info;
  client->transport = &shared_transport;
  if (welcome->control_bytes != NATIVE_CONTROL ||
      !region_map(&client->control, descriptors[SHARED_CONTROL], 1, NATIVE_CONTROL, NATIVE_CONTROL, true)) {
    errno = welcome->control_bytes != NATIVE_CONTROL ? EPROTO : errno;
    return cannot_map(client, "control");
  }
  if (!is_consumer(client) && !region_map(&client->inputs, descriptors[SHARED_INPUT], info->slots, info->input_bytes,
                                          (size_t)welcome->input_stride, true)) {
    return cannot_map(client, "input");
  }
  if (info->role != FRAMED_PRODUCER && !region_map(&client->outputs, descriptors[SHARED_OUTPUT], info->slots,
                                                   info->output_bytes, (size_t)welcome->output_stride, false)) {
    return cannot_map(client, "output");
  }
  client->shared.control = (struct native_control *)(void *)client->control.base;
  client->shared.heard = framed_clock();
  return true;
}

/* -- completions ------------------------------------------------------------------------------------------------------ */

/* So many are there to be looked at. Broken: there cannot be so many. */
static uint32_t waiting(struct framed *client) {
  const struct shared *shared = &client->shared;
  uint32_t count = atomic_load_explicit(&shared->control->daemon.completed, memory_order_acquire) - shared->seen;
  if (count > client->info.slots) {
    client_break(client, FRAMED_E_DAEMON, 0, "pipeline %s claims %u completions of %u slots", client->info.pipeline, count,
                 client->info.slots);
    return 0;
  }
  return count;
}

static bool is_expected(const struct framed *client, const struct native_completion *completion) {
  enum place expected = is_consumer(client) ? PLACE_FREE : PLACE_AWAY;
  return completion->slot < client->info.slots && client->frames[completion->slot] == expected;
}

/* Gives back what the caller is done with, up to the first that it still holds. */
static void move_taken(struct framed *client) {
  struct shared *shared = &client->shared;
  uint32_t before = shared->taken;
  while (shared->taken != shared->seen && shared->done[shared->taken % NATIVE_RING]) {
    client->frames[shared->slots[shared->taken % NATIVE_RING]] = PLACE_FREE;
    shared->taken++;
  }
  if (shared->taken != before) {
    atomic_store_explicit(&shared->control->client.taken, shared->taken, memory_order_release);
  }
}

/* Takes note of the next one. False: it is a lie, and the client is broken. */
static bool see(struct framed *client, struct native_completion *completion) {
  struct shared *shared = &client->shared;
  memcpy(completion, &shared->control->completions[shared->seen % NATIVE_RING], sizeof *completion);
  if (!is_expected(client, completion)) {
    return client_break(client, FRAMED_E_DAEMON, 0, "pipeline %s completed slot %u, which it does not have",
                        client->info.pipeline, completion->slot);
  }
  shared->slots[shared->seen % NATIVE_RING] = (unsigned char)completion->slot;
  shared->done[shared->seen % NATIVE_RING] = false;
  shared->seen++;
  client->frames[completion->slot] = PLACE_READY;
  return true;
}

static void be_done(struct framed *client, uint32_t cursor) {
  client->shared.done[cursor % NATIVE_RING] = true;
  move_taken(client);
}

/* A producer only wants its slots back. */
static void take_all(struct framed *client) {
  struct native_completion completion;
  for (uint32_t left = waiting(client); left > 0 && see(client, &completion); left--) {
    be_done(client, client->shared.seen - 1);
  }
}

static bool receive(struct framed *client, struct framed_result *result) {
  struct native_completion completion;
  if (client->info.role == FRAMED_PRODUCER || waiting(client) == 0 || !see(client, &completion)) {
    return false;
  }
  uint32_t cursor = client->shared.seen - 1;
  *result = (struct framed_result){.sequence = completion.result.sequence,
                                   .dropped = completion.result.dropped,
                                   .timestamp = completion.result.timestamp,
                                   .fate = (int)completion.fate,
                                   .session = completion.result.session,
                                   .flags = completion.result.flags,
                                   .place = cursor % NATIVE_RING};
  memcpy(result->steps, completion.result.steps, sizeof result->steps);
  if (completion.fate == FRAMED_EMITTED) {
    result->data = client->outputs.base + completion.slot * client->outputs.stride;
    result->size = client->info.output_bytes;
  } else {
    be_done(client, cursor);
  }
  return true;
}

static void release(struct framed *client, unsigned place) {
  const struct shared *shared = &client->shared;
  uint32_t behind = (place - shared->taken) % NATIVE_RING;
  if (behind < shared->seen - shared->taken) {
    be_done(client, shared->taken + behind);
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
  client->shared.ended = true;
  if (!is_consumer(client)) {
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

static void ring(struct framed *client) {
  const unsigned char doorbell = NATIVE_DOORBELL;
  struct native_control *control = client->shared.control;
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&control->daemon.sleeps, memory_order_relaxed) != 0) {
    atomic_store_explicit(&control->daemon.sleeps, 0, memory_order_relaxed);
    /* If it does not fit, enough of them wait there already; if nobody is there, that shows when the connection is heard. */
    (void)!send(client->fd, &doorbell, sizeof doorbell, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

/* -- frames ------------------------------------------------------------------------------------------------------------ */

static void submit(struct framed *client, unsigned index, const struct native_frame *stamp) {
  struct shared *shared = &client->shared;
  const struct native_submission submission = {.slot = index, .frame = *stamp};
  memcpy(&shared->control->submissions[shared->submitted % NATIVE_RING], &submission, sizeof submission);
  shared->submitted++;
  atomic_store_explicit(&shared->control->client.submitted, shared->submitted, memory_order_release);
  ring(client);
}

static bool is_at_end(const struct framed *client, uint32_t results) {
  const struct shared *shared = &client->shared;
  return results == 0 && (is_consumer(client) ? shared->ended : client->finished && shared->submitted == shared->seen);
}

static bool has_room(const struct framed *client) {
  for (unsigned i = 0; i < client->info.slots && !is_consumer(client) && !client->finished; i++) {
    if (client->frames[i] == PLACE_FREE) {
      return true;
    }
  }
  return false;
}

static unsigned events(struct framed *client) {
  if (client->info.role == FRAMED_PRODUCER) {
    take_all(client);
  }
  uint32_t results = waiting(client);
  return (results > 0 ? FRAMED_RESULT : 0U) | (has_room(client) ? FRAMED_ROOM : 0U) |
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
  atomic_store_explicit(&client->shared.control->client.sleeps, 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  return POLLIN;
}

static void wake(struct framed *client, short conditions) {
  atomic_store_explicit(&client->shared.control->client.sleeps, 0, memory_order_relaxed);
  if (conditions != 0) {
    hear(client);
  }
}

/* The daemon takes an end of the connection for an end of the client, so there is nothing to say to it. */
static void finish(struct framed *client) { (void)client; }

const struct transport shared_transport = {look, arm, wake, submit, receive, release, finish};
