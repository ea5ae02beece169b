/*
 * The inputs of a pipeline through a codec: their listener, the seats with their producers and sessions, and whoever is on the
 * way to a seat. A producer keeps its connection, and a descriptor that the session was never told of is handed to it as any
 * other.
 */
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/pipeline/private.h"
#include "daemon/state/state.h"

/* -- both ways ----------------------------------------------------------------------------------------------------- */

static void pass_intake(struct inputs *inputs, struct codec *codec) {
  unsigned kind = inputs->endpoint.kind;
  CODEC_PASS(codec, inputs->refusals.count);
  CODEC_PASS(codec, inputs->ended);
  CODEC_PASS(codec, inputs->discards);
  CODEC_PASS(codec, inputs->welcome.session);
  trouble_pass(&inputs->trouble, codec);
  struct listener *listener = listener_pass(inputs->listener, codec);
  codec_pass_below(codec, &kind, ENDPOINT_FIFO + 1);
  codec_pass_descriptor(codec, &inputs->endpoint.fd);
  if (!codec->writing) { /* else a worker thread that prepares a reload may be looking */
    inputs->listener = listener;
    inputs->endpoint.kind = (enum endpoint_kind)kind;
  }
}

static void pass_seat(struct producer *producer, struct codec *codec) {
  client_pass(&producer->client, codec);
  CODEC_PASS(codec, producer->frames_before);
  CODEC_PASS(codec, producer->shares);
  CODEC_PASS(codec, producer->used);
}

static void pass_waiting(struct inputs *inputs, struct codec *codec) {
  codec_pass_below(codec, &inputs->waiting_count, MOST_WAITING + 1);
  for (unsigned i = 0; i < inputs->waiting_count; i++) {
    client_pass(&inputs->waiting[i], codec);
  }
}

/* -- out ------------------------------------------------------------------------------------------------------------ */

/* A worker thread may be at the memory of a seat that gets other memory; the next process makes that anew. */
static void put_seat(struct producer *producer, struct codec *codec) {
  bool memory = !producer->renewing && !producer->lost;
  struct producer put = {.client = producer->client,
                         .frames_before = producer->frames_before,
                         .shares = producer->shares,
                         .used = producer->used && memory};
  pass_seat(&put, codec);
  session_put(producer->session, codec, memory);
}

void inputs_put(struct inputs *inputs, struct codec *codec) {
  pass_intake(inputs, codec);
  for (unsigned i = 0; i < inputs->count; i++) {
    put_seat(&inputs->seats[i], codec);
  }
  pass_waiting(inputs, codec);
  if (!codec->live) { /* what is being said now is not for another process */
    handshakes_pass(inputs->handshakes, codec);
  }
}

unsigned inputs_running(const struct inputs *inputs, unsigned device) {
  unsigned running = 0;
  for (unsigned i = 0; i < inputs->count; i++) {
    running += session_running(inputs->seats[i].session, device);
  }
  return running;
}

void inputs_suspect(struct inputs *inputs, bool failed, unsigned device, bool alone) {
  for (unsigned i = 0; i < inputs->count; i++) {
    session_suspect(inputs->seats[i].session, failed, device, alone);
  }
}

/* -- in ------------------------------------------------------------------------------------------------------------- */

void inputs_take(struct inputs *inputs, struct codec *codec) {
  inputs->continues = true;
  pass_intake(inputs, codec);
}

void inputs_take_seat(struct producer *producer, struct codec *codec) { pass_seat(producer, codec); }

/* Whether what was read of the seat's producer fits what its session has. */
bool inputs_seat_is_sound(const struct producer *producer) {
  const struct session *session = producer->session;
  bool has_source = session_has_source(session);
  return (!has_source || (producer->client.fd >= 0 && session_shares(session) == producer->shares)) &&
         (!producer->shares || session_may_share(session));
}

void inputs_revive_seat(struct producer *producer) {
  enum session_revival revival = session_revival(producer->session);
  if (producer->client.fd < 0 && session_has_source(producer->session)) {
    session_lose_source(producer->session);
  }
  producer->used = true; /* that may be newer than what the control loop said last */
  producer->cut = producer->client.fd >= 0 && revival != SESSION_NEVER_BEGAN && revival != SESSION_GOES_ON;
}

static void log_cut(const struct inputs *inputs, const struct producer *producer) {
  const char *name = inputs->config->name;
  bool is_fifo = inputs->endpoint.kind == ENDPOINT_FIFO;
  if (session_revival(producer->session) != SESSION_CUT) {
    log_event(LOG_DISCONNECTED, name, "producer pid %d (user %u) had ended", (int)producer->client.pid,
              (unsigned)producer->client.uid);
  } else {
    log_event(LOG_CUT_OFF, name, "producer pid %d (user %u) is cut off: the process before was killed while it %s%s",
              (int)producer->client.pid, (unsigned)producer->client.uid,
              inputs->config->sink.endpoint == CONFIG_REPLY ? "read from it or wrote to it" : "read from it",
              is_fifo ? "; what it writes is thrown away until it closes the FIFO" : "");
  }
}

/* A FIFO stays open for the next writer. */
static void seat_cut(struct inputs *inputs, struct producer *producer) {
  if (inputs->endpoint.kind == ENDPOINT_FIFO) {
    inputs->endpoint.fd = producer->client.fd;
  } else {
    rights_close(producer->client.fd);
    inputs->ended |= inputs->config->source.endpoint != CONFIG_SOCKET;
  }
  producer->client.fd = -1;
  producer->cut = false;
  if (producer->shares) {
    producer_renew(producer);
  }
}

/* Whether the FIFO may hold the rest of a frame that the killed process had begun to read. */
static bool is_amid(const struct inputs *inputs) {
  enum session_revival revival = session_revival(inputs->seats[0].session);
  return inputs->endpoint.kind == ENDPOINT_FIFO && (revival == SESSION_CUT || revival == SESSION_FOLLOWED);
}

void inputs_cut(struct inputs *inputs) {
  inputs->discards |= is_amid(inputs);
  for (unsigned i = 0; i < inputs->count; i++) {
    if (inputs->seats[i].cut) {
      log_cut(inputs, &inputs->seats[i]);
      seat_cut(inputs, &inputs->seats[i]);
    }
  }
}

void inputs_take_waiting(struct inputs *inputs, struct codec *codec) {
  pass_waiting(inputs, codec);
  inputs->visits = codec->live ? NULL : handshakes_pass(NULL, codec);
}

bool inputs_taken(const struct inputs *inputs, struct failure *failure) {
  bool taken = true;
  for (unsigned i = 0; i < inputs->count && taken; i++) {
    taken = session_taken(inputs->seats[i].session, failure);
  }
  return taken;
}

unsigned inputs_condemned(const struct inputs *inputs, struct frame_name *last) {
  unsigned quarantined = 0;
  for (unsigned i = 0; i < inputs->count; i++) {
    quarantined += session_quarantined(inputs->seats[i].session, last);
  }
  return quarantined;
}

/* A producer that was handed over keeps its seat: that its user may not have it any more is only logged. */
static void charge(struct inputs *inputs, struct producer *producer) {
  char problem[QUOTA_PROBLEM];
  if (inputs->config->source.endpoint == CONFIG_SOCKET &&
      !quota_charge(inputs->quota, producer->client.uid, QUOTA_SESSION, session_memory(producer->session), &producer->charge,
                    problem)) {
    log_event(LOG_CLIENT_ERROR, inputs->config->name, "a producer keeps a seat that would not be given now: %s", problem);
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

/* The session has its producer before its first turn, and no frame begins before it is known whether any may. Without a
 * producer, what is left of frames goes on. */
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
    handshakes_receive_again(inputs->handshakes, inputs->visits);
    inputs->visits = NULL;
  }
  for (unsigned i = 0; i < inputs->count && inputs->config->source.endpoint == CONFIG_SOCKET; i++) {
    inputs_seat_next(inputs, &inputs->seats[i]);
  }
}
