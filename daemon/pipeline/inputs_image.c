/*
 * An intake over a tape: its listener, its seats with their producers and sessions, and whoever is on the way to a seat. A
 * producer keeps its connection, and a descriptor that the session was never told of is handed to it as any other.
 */
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/pipeline/inputs_private.h"

/* -- both ways ----------------------------------------------------------------------------------------------------- */

static void pass_intake(struct intake *intake, struct tape *tape) {
  unsigned kind = intake->endpoint.kind;
  TAPE_PASS(tape, intake->refusals.count);
  TAPE_PASS(tape, intake->ended);
  TAPE_PASS(tape, intake->discards);
  TAPE_PASS(tape, intake->welcome.session);
  struct listener *listener = listener_pass(intake->listener, tape);
  tape_pass_below(tape, &kind, ENDPOINT_FIFO + 1);
  tape_pass_descriptor(tape, &intake->endpoint.fd);
  if (!tape->writing) { /* else a worker thread that prepares a reload may be looking */
    intake->listener = listener;
    intake->endpoint.kind = (enum endpoint_kind)kind;
  }
}

static void pass_seat(struct seat *seat, struct tape *tape) {
  guest_pass(&seat->producer, tape);
  TAPE_PASS(tape, seat->shares);
  TAPE_PASS(tape, seat->used);
}

static void pass_waiting(struct intake *intake, struct tape *tape) {
  tape_pass_below(tape, &intake->waiting_count, MOST_WAITING + 1);
  for (unsigned i = 0; i < intake->waiting_count; i++) {
    guest_pass(&intake->waiting[i], tape);
  }
}

/* -- out ------------------------------------------------------------------------------------------------------------ */

/* A worker thread may be at the memory of a seat that gets other memory; the next process makes that anew. */
static void put_seat(struct seat *seat, struct tape *tape) {
  bool memory = !seat->renewing && !seat->lost;
  struct seat put = {.producer = seat->producer, .shares = seat->shares, .used = seat->used && memory};
  pass_seat(&put, tape);
  if (tape->live) {
    session_put_live(seat->session, tape);
  } else {
    session_put(seat->session, tape, memory);
  }
}

void intake_put(struct intake *intake, struct tape *tape) {
  pass_intake(intake, tape);
  for (unsigned i = 0; i < intake->count; i++) {
    put_seat(&intake->seats[i], tape);
  }
  pass_waiting(intake, tape);
  greeter_pass(intake->greeter, tape);
}

unsigned intake_running(const struct intake *intake) {
  unsigned running = 0;
  for (unsigned i = 0; i < intake->count; i++) {
    running += session_running(intake->seats[i].session);
  }
  return running;
}

void intake_suspect(struct intake *intake, bool failed, bool alone) {
  for (unsigned i = 0; i < intake->count; i++) {
    session_suspect(intake->seats[i].session, failed, alone);
  }
}

bool intake_is_noted(const struct intake *intake) {
  bool noted = true;
  for (unsigned i = 0; i < intake->count; i++) {
    noted = noted && session_is_noted(intake->seats[i].session);
  }
  return noted;
}

/* -- in ------------------------------------------------------------------------------------------------------------- */

void intake_take(struct intake *intake, struct tape *tape) {
  intake->continues = true;
  pass_intake(intake, tape);
}

void intake_take_seat(struct seat *seat, struct tape *tape) { pass_seat(seat, tape); }

/* What is said of its producer and what its session has fit. */
bool intake_seat_is_sound(const struct seat *seat) {
  const struct session *session = seat->session;
  bool has_source = session_has_source(session);
  return (!has_source || (seat->producer.fd >= 0 && session_shares(session) == seat->shares)) &&
         (!seat->shares || session_may_share(session));
}

void intake_revive_seat(struct seat *seat) {
  enum session_revival revival = session_revival(seat->session);
  if (seat->producer.fd < 0 && session_has_source(seat->session)) {
    session_lose_source(seat->session);
  }
  seat->cut = seat->producer.fd >= 0 && revival != SESSION_NEVER_BEGAN && revival != SESSION_GOES_ON;
}

static void log_cut(const struct intake *intake, const struct seat *seat) {
  const char *name = intake->config->name;
  bool is_fifo = intake->endpoint.kind == ENDPOINT_FIFO;
  if (session_revival(seat->session) != SESSION_CUT) {
    log_event(LOG_DISCONNECTED, name, "producer pid %d (user %u) had ended", (int)seat->producer.pid,
              (unsigned)seat->producer.uid);
  } else {
    log_event(LOG_CUT_OFF, name, "producer pid %d (user %u) is cut off: the process before was killed while it %s%s",
              (int)seat->producer.pid, (unsigned)seat->producer.uid,
              intake->config->sink.endpoint == CONFIG_REPLY ? "read from it or wrote to it" : "read from it",
              is_fifo ? "; what it writes is thrown away until it closes the FIFO" : "");
  }
}

/* A FIFO stays open for the next writer. */
static void cut(struct intake *intake, struct seat *seat) {
  if (intake->endpoint.kind == ENDPOINT_FIFO) {
    intake->endpoint.fd = seat->producer.fd;
  } else {
    rights_close(seat->producer.fd);
    intake->ended |= intake->config->source.endpoint != CONFIG_SOCKET;
  }
  seat->producer.fd = -1;
  seat->cut = false;
}

/* Whoever comes next writes to the same FIFO, and may have been read already. */
static bool is_amid(const struct intake *intake) {
  enum session_revival revival = session_revival(intake->seats[0].session);
  return intake->endpoint.kind == ENDPOINT_FIFO && (revival == SESSION_CUT || revival == SESSION_FOLLOWED);
}

void intake_cut(struct intake *intake) {
  intake->discards |= is_amid(intake);
  for (unsigned i = 0; i < intake->count; i++) {
    if (intake->seats[i].cut) {
      log_cut(intake, &intake->seats[i]);
      cut(intake, &intake->seats[i]);
    }
  }
}

void intake_take_waiting(struct intake *intake, struct tape *tape) {
  pass_waiting(intake, tape);
  intake->visits = greeter_pass(NULL, tape);
}

bool intake_taken(const struct intake *intake, struct failure *failure) {
  bool taken = true;
  for (unsigned i = 0; i < intake->count && taken; i++) {
    taken = session_taken(intake->seats[i].session, failure);
  }
  return taken;
}

unsigned intake_condemned(const struct intake *intake, uint64_t *last) {
  unsigned condemned = 0;
  for (unsigned i = 0; i < intake->count; i++) {
    condemned += session_condemned(intake->seats[i].session, last);
  }
  return condemned;
}

/* It has its seat already, so that what its user may have is not asked again. */
static void charge(struct intake *intake, struct seat *seat) {
  char problem[QUOTA_PROBLEM];
  if (intake->config->source.endpoint == CONFIG_SOCKET &&
      !quota_charge(intake->quota, seat->producer.uid, QUOTA_SESSION, session_memory(seat->session), &seat->charge, problem)) {
    log_event(LOG_CLIENT_ERROR, intake->config->name, "a producer keeps a seat that would not be given now: %s", problem);
  }
}

static void attach(struct intake *intake, struct seat *seat) {
  charge(intake, seat);
  if (session_has_source(seat->session)) {
    session_attach_again(seat->session, seat->producer.fd);
  } else if (seat->shares) {
    session_attach_shared(seat->session, seat->producer.fd);
  } else {
    session_attach(seat->session, seat->producer.fd, intake_protocol(intake, &seat->producer),
                   guest_wants_acks(&seat->producer));
  }
}

/* The session has its producer before its first turn, and no frame begins before it is known whether any may. Without a
 * producer, what is left of frames goes on. */
static void continue_seat(struct intake *intake, struct seat *seat) {
  if (seat->producer.fd >= 0) {
    attach(intake, seat);
  }
  if (intake->starts_held) {
    session_hold(seat->session, false);
  } else {
    session_resume(seat->session);
  }
}

void intake_start_held(struct intake *intake) { intake->starts_held = true; }

void intake_continue(struct intake *intake) {
  for (unsigned i = 0; i < intake->count; i++) {
    continue_seat(intake, &intake->seats[i]);
  }
  if (intake->greeter) {
    greeter_receive_again(intake->greeter, intake->visits);
    intake->visits = NULL;
  }
  for (unsigned i = 0; i < intake->count && intake->config->source.endpoint == CONFIG_SOCKET; i++) {
    intake_seat_next(intake, &intake->seats[i]);
  }
}
