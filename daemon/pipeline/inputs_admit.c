/*
 * Admitting producers that connect: which get a seat, which wait for one, and which are refused.
 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/measure/clock.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/fd_table.h"

/* The first free seat on the device with the fewest producers. */
static struct producer *free_seat(struct inputs *inputs) {
  struct producer *found = NULL;
  unsigned fewest = UINT_MAX;
  assert(inputs->seats);
  for (unsigned i = 0; i < inputs->count; i++) {
    const unsigned producers = *inputs->placements[i].on[0].producers;
    if (producer_is_free(&inputs->seats[i]) && producers < fewest) {
      found = &inputs->seats[i];
      fewest = producers;
    }
  }
  return found;
}

/* Seats that have memory for a producer. */
static unsigned seats_left(const struct inputs *inputs) {
  unsigned left = 0;
  for (unsigned i = 0; i < inputs->count; i++) {
    left += !inputs->seats[i].lost;
  }
  return left;
}

/* Producers that have not hung up. The others only need to be read to their ends. */
static unsigned live_producers(const struct inputs *inputs) {
  unsigned live = 0;
  for (unsigned i = 0; i < inputs->count; i++) {
    live += inputs->seats[i].client.fd >= 0 && !peer_hung_up(inputs->seats[i].client.fd);
  }
  for (unsigned i = 0; i < inputs->waiting_count; i++) {
    live += !peer_hung_up(inputs->waiting[i].fd);
  }
  return live;
}

enum config_protocol inputs_protocol(const struct inputs *inputs, const struct client *client) {
  enum config_protocol configured = inputs->config->source.protocol;
  enum config_protocol otherwise = configured == CONFIG_PROTOCOL_AUTO ? CONFIG_PROTOCOL_Y4M : configured;
  return client->native ? CONFIG_PROTOCOL_NATIVE : otherwise;
}

static void producer_refuse(struct inputs *inputs, const struct client *client, enum native_error_code code,
                            const char *problem) {
  client_send_error(client, code, "%s", problem);
  refusals_add(&inputs->refusals, LOG_REFUSED, inputs->config->name, refusals_remedy(code),
               "producer pid %d (user %u) was refused: %s", (int)client->pid, (unsigned)client->uid, problem);
  rights_close(client->fd);
}

static void refuse_one_more(struct inputs *inputs, const struct client *client) {
  char problem[REFUSAL_TEXT / 2], holder[128] = "";
  const struct client *first = &inputs->seats[0].client;
  if (inputs->count == 1 && first->fd >= 0) {
    snprintf(holder, sizeof holder, ": pid %d (%s, user %u), connected for %.0f s", (int)first->pid,
             first->process[0] ? first->process : "of no known name", (unsigned)first->uid,
             (double)(clock_now() - first->since) / (double)NS_PER_S);
  }
  snprintf(problem, sizeof problem, "pipeline %s already has its %u producer%s%s", inputs->config->name, inputs->count,
           inputs->count == 1 ? "" : "s", holder);
  producer_refuse(inputs, client, NATIVE_E_BUSY, problem);
}

void inputs_count_producer(struct inputs *inputs, const struct producer *producer, bool comes) {
  const struct engine_placement *placement = &inputs->placements[producer - inputs->seats];
  for (unsigned i = 0; i < placement->count; i++) {
    *placement->on[i].producers += comes ? 1U : UINT_MAX;
  }
}

void inputs_attach_producer(struct inputs *inputs, struct producer *producer, const struct client *client) {
  struct session_view view;
  session_read(producer->session, &view);
  producer->client = *client;
  inputs_count_producer(inputs, producer, true);
  producer->frames_before = view.ledger.in;
  fd_table_mark();
  if (inputs->config->source.endpoint == CONFIG_SOCKET) {
    char name[CLIENT_NAME];
    log_event(LOG_CONNECTED, inputs->config->name, "producer pid %d (user %u) connected%s", (int)client->pid,
              (unsigned)client->uid, client_name(client, name));
  } else if (inputs->config->source.endpoint == CONFIG_CAMERA) {
    log_event(LOG_CONNECTED, inputs->config->name, "camera pid %d connected", (int)client->pid);
  }
  inputs->welcome.session += client->native;
  if (producer_share(producer, &inputs->welcome)) {
    return;
  }
  if (client->native) {
    client_welcome(client, &inputs->welcome, NULL, 0);
  }
  producer->used = true;
  session_attach(producer->session, client->fd, inputs_protocol(inputs, client), client_wants_acks(client));
}

/* Puts the client before all other waiting clients. */
static void producer_wait(struct inputs *inputs, const struct client *client) {
  assert(inputs->waiting_count < MOST_WAITING);
  memmove(inputs->waiting + 1, inputs->waiting, inputs->waiting_count * sizeof *inputs->waiting);
  inputs->waiting[0] = *client;
  inputs->waiting_count++;
  fd_table_mark();
}

/* Until the seat has new memory. */
static void wait_for_memory(struct inputs *inputs, struct producer *producer, const struct client *client) {
  producer_wait(inputs, client);
  producer_renew(producer);
}

/* True if another client of this user has left, and its memory will soon no longer be charged. */
static bool may_have_more_soon(const struct inputs *inputs, uid_t user) {
  bool soon = false;
  for (unsigned i = 0; i < inputs->count; i++) {
    soon = soon || producer_releases_memory(&inputs->seats[i], user);
  }
  return soon && inputs->waiting_count < MOST_WAITING;
}

/* Attaches the client if its user's quota allows the session's memory. Returns false if it waits until the quota allows it. */
static bool charge_and_attach(struct inputs *inputs, struct producer *producer, const struct client *client) {
  char problem[QUOTA_PROBLEM];
  bool is_ours = inputs->config->source.endpoint == CONFIG_CAMERA;
  if (is_ours ||
      quota_charge(inputs->quota, client->uid, QUOTA_SESSION, session_memory(producer->session), &producer->charge, problem)) {
    inputs_attach_producer(inputs, producer, client);
  } else if (may_have_more_soon(inputs, client->uid)) {
    producer_wait(inputs, client);
    return false;
  } else {
    producer_refuse(inputs, client, NATIVE_E_QUOTA, problem);
  }
  return true;
}

/* Closes waiting clients that hung up without unread bytes. */
static void drop_gone(struct inputs *inputs) {
  unsigned kept = 0;
  for (unsigned i = 0; i < inputs->waiting_count; i++) {
    int unread = 0;
    const struct client *client = &inputs->waiting[i];
    if (peer_hung_up(client->fd) && ioctl(client->fd, FIONREAD, &unread) == 0 && unread == 0) {
      rights_close(client->fd);
    } else {
      inputs->waiting[kept++] = *client;
    }
  }
  inputs->waiting_count = kept;
}

static void producer_or_refuse(struct inputs *inputs, const struct client *client) {
  struct producer *producer = free_seat(inputs);
  if (inputs->waiting_count == MOST_WAITING) {
    drop_gone(inputs);
  }
  if (producer && producer_must_renew(producer, client) && inputs->waiting_count < MOST_WAITING) {
    wait_for_memory(inputs, producer, client);
  } else if (producer && !producer_must_renew(producer, client)) {
    charge_and_attach(inputs, producer, client);
  } else if (inputs->waiting_count < MOST_WAITING && live_producers(inputs) < seats_left(inputs)) {
    inputs->waiting[inputs->waiting_count++] = *client;
    fd_table_mark();
  } else {
    refuse_one_more(inputs, client);
  }
}

void inputs_on_hello(void *context, const struct client *client) {
  struct inputs *inputs = context;
  if (!client->native || client->hello.role == inputs->welcome.role) {
    producer_or_refuse(inputs, client);
    return;
  }
  char problem[160];
  snprintf(problem, sizeof problem, "the source of pipeline %s takes clients of the role '%s' only, not '%s'",
           inputs->config->name, welcome_role_name(inputs->welcome.role), welcome_role_name(client->hello.role));
  producer_refuse(inputs, client, NATIVE_E_ROLE, problem);
}

void inputs_on_accepted(void *context, int fd, const struct peer *peer) {
  struct inputs *inputs = context;
  const struct client client = client_of(fd, peer);
  if (inputs->handshakes) {
    handshakes_receive(inputs->handshakes, fd, peer);
  } else {
    producer_or_refuse(inputs, &client);
  }
}

/* Attaches the first waiting client whose quota allows the seat. */
void inputs_attach_waiting(struct inputs *inputs, struct producer *producer) {
  bool goes_on = true;
  while (inputs->waiting_count > 0 && producer_is_free(producer) && goes_on) {
    struct client next = inputs->waiting[0];
    inputs->waiting_count--;
    memmove(inputs->waiting, inputs->waiting + 1, inputs->waiting_count * sizeof *inputs->waiting);
    if (producer_must_renew(producer, &next)) {
      wait_for_memory(inputs, producer, &next);
    } else {
      goes_on = charge_and_attach(inputs, producer, &next);
    }
  }
}

/* The seat's session has new memory, or none for now. */
void inputs_on_renewed(void *context, struct producer *producer) {
  struct inputs *inputs = context;
  fd_table_mark();
  if (producer->stopped) { /* reported again; the receiver may free all of this */
    inputs->listen(inputs->context, &(struct session_event){.kind = SESSION_STOPPED, .session = producer->session});
    return;
  }
  if (seats_left(inputs) == 0) {
    trouble_note(&inputs->memory, clock_now(), "it is tried again: free memory, or lower `slots` or `clients`",
                 "there is no memory for a producer: %s", producer->failure.text);
  } else if (!producer->lost) {
    trouble_clear(&inputs->memory);
  }
  for (unsigned i = 0; i < inputs->count && !inputs->closed; i++) {
    inputs_attach_waiting(inputs, &inputs->seats[i]); /* a waiting client may have waited for the quota that was just freed */
  }
  while (seats_left(inputs) == 0 && inputs->waiting_count > 0) { /* no seat is left to wait for */
    refuse_one_more(inputs, &inputs->waiting[--inputs->waiting_count]);
  }
}

bool inputs_share_outputs(const struct inputs *inputs, struct session_outputs *shared, struct failure *failure) {
  assert(inputs->count == 1 && inputs->seats);
  if (inputs->seats[0].renewing || inputs->seats[0].lost) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the memory of pipeline '%s' is being renewed",
                       inputs->config->name);
  }
  return session_share_outputs(inputs->seats[0].session, shared, failure);
}
