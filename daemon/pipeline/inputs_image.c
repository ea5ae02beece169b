/*
 * Taking over the inputs of a pipeline: the seats with producers and sessions, and the waiting clients. A producer keeps its
 * connection. If its session had not got the descriptor yet, it is attached like any other.
 */
#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

/* -- before the end ------------------------------------------------------------------------------------------------ */

/* A set-up thread may be renewing the memory of a seat; then the next process makes it again. */
static bool has_memory(const struct producer *producer) { return !producer->renewing && !producer->lost; }

/* A handshake under way goes to the next process only at an orderly end. */
void inputs_keep(struct inputs *inputs, bool program, bool live) {
  if (program) {
    inputs_keep_camera(inputs);
  }
  fd_table_want(inputs->endpoint.fd);
  handshakes_keep(live ? NULL : inputs->handshakes);
  for (unsigned i = 0; i < inputs->count; i++) {
    fd_table_want(inputs->seats[i].client.fd);
    if (has_memory(&inputs->seats[i])) {
      session_keep(inputs->seats[i].session);
    }
  }
  for (unsigned i = 0; i < inputs->waiting_count; i++) {
    fd_table_want(inputs->waiting[i].fd);
  }
}

/* -- taking over ---------------------------------------------------------------------------------------------------- */

bool inputs_adopt(struct inputs *inputs, const struct inputs *address) {
  const struct inputs *left = inputs->left = image_left_at(address, IMAGE_INPUTS, sizeof *left);
  bool sound = left && (unsigned)left->endpoint.kind <= ENDPOINT_FIFO && IMAGE_IS_FLAG(left->ended) &&
               IMAGE_IS_FLAG(left->closed) && IMAGE_IS_FLAG(left->discards) && left->waiting_count <= MOST_WAITING &&
               trouble_adopt(&inputs->trouble, &left->trouble) && trouble_adopt(&inputs->memory, &left->memory);
  if (!sound) {
    return false;
  }
  if (!state_left()->by_manager && !inputs_adopt_camera(inputs, &left->camera_process)) {
    return false;
  }
  inputs->continues = true;
  inputs->left_handshakes = left->handshakes;
  inputs->refusals.count = left->refusals.count;
  inputs->welcome.session = left->welcome.session;
  inputs->ended = left->ended && !left->closed;
  inputs->discards = left->discards;
  inputs->endpoint = (struct endpoint){.kind = left->endpoint.kind, .fd = fd_table_take(left->endpoint.fd)};
  for (unsigned i = 0; i < left->waiting_count && sound; i++) {
    struct client *client = &inputs->waiting[inputs->waiting_count];
    sound = client_adopt(client, &left->waiting[i]);
    inputs->waiting_count += client->fd >= 0;
  }
  return sound;
}

bool inputs_adopt_seat(const struct inputs *inputs, struct producer *producer, struct session_setup *session) {
  const struct producer *seats = image_left_at(inputs->left->seats, IMAGE_PRODUCERS, inputs->count * sizeof *seats);
  const struct producer *left = seats ? &seats[producer - inputs->seats] : NULL;
  bool sound = left && IMAGE_IS_FLAG(left->renewing) && IMAGE_IS_FLAG(left->lost) && IMAGE_IS_FLAG(left->shares) &&
               IMAGE_IS_FLAG(left->used) && client_adopt(&producer->client, &left->client);
  if (sound) {
    session->left = left->session;
    session->left_memory = has_memory(left);
    producer->frames_before = left->frames_before;
    producer->shares = left->shares;
    producer->used = left->used && session->left_memory;
  }
  return sound;
}

bool inputs_check_seat(struct producer *producer) {
  const struct session *session = producer->session;
  const bool is_there = producer->client.fd >= 0, was_killed = state_left()->live;
  if (was_killed && !is_there && session_has_source(session)) {
    session_lose_source(producer->session);
  }
  producer->used |= was_killed; /* the session may have changed after the control loop's last record */
  producer->cut = was_killed && is_there && session_is_cut(session);
  return (is_there || !session_has_source(session)) && session_may_share(session, producer->shares);
}

/* A producer that was taken over keeps its seat even if its user's quota is exceeded; that is only logged. */
static void charge(struct inputs *inputs, struct producer *producer) {
  char problem[QUOTA_PROBLEM];
  if (inputs->config->source.endpoint == CONFIG_SOCKET &&
      !quota_charge(inputs->quota, producer->client.uid, QUOTA_SESSION, session_memory(producer->session), &producer->charge,
                    problem)) {
    log_event(LOG_CLIENT_ERROR, inputs->config->name, "a producer stays connected although its user's quota is exceeded: %s",
              problem);
  }
}

static void seat_attach(struct inputs *inputs, struct producer *producer) {
  charge(inputs, producer);
  if (session_has_source(producer->session)) {
    session_attach_again(producer->session, producer->client.fd);
  } else if (producer->shares) {
    session_attach_shared(producer->session, producer->client.fd);
  } else {
    session_attach(producer->session, producer->client.fd, inputs_protocol(inputs, &producer->client),
                   client_wants_acks(&producer->client));
  }
}

/* Attaches the producer before the session's first turn. No frame begins before it is known whether the pipeline is paused.
 * Without a producer, remaining frames continue. */
static void continue_seat(struct inputs *inputs, struct producer *producer) {
  if (producer->client.fd >= 0) {
    inputs_count_producer(inputs, producer, true);
    seat_attach(inputs, producer);
  }
  if (inputs->starts_held) {
    session_hold(producer->session, false);
  } else {
    session_resume(producer->session);
  }
}

void inputs_start_held(struct inputs *inputs) { inputs->starts_held = true; }

void inputs_continue(struct inputs *inputs) {
  for (unsigned i = 0; i < inputs->count; i++) {
    continue_seat(inputs, &inputs->seats[i]);
  }
  if (inputs->handshakes) {
    handshakes_adopt(inputs->handshakes, inputs->left_handshakes);
  }
  for (unsigned i = 0; i < inputs->count && inputs->config->source.endpoint != CONFIG_FILE; i++) {
    inputs_attach_waiting(inputs, &inputs->seats[i]);
  }
}
