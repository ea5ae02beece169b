/*
 * Seats for producers that connect: who is let in, who waits for a seat whose producer has hung up, and who is turned away.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/client/hello_reply.h"
#include "daemon/pipeline/inputs_private.h"
#include "daemon/state/fd_store.h"

static struct seat *free_seat(struct intake *intake) {
  assert(intake->seats);
  for (unsigned i = 0; i < intake->count; i++) {
    if (seat_is_free(&intake->seats[i])) {
      return &intake->seats[i];
    }
  }
  return NULL;
}

/* Seats that are not lost for now. */
static unsigned seats_left(const struct intake *intake) {
  unsigned left = 0;
  for (unsigned i = 0; i < intake->count; i++) {
    left += !intake->seats[i].lost;
  }
  return left;
}

/* Producers that have not hung up: the others only need to be read to their ends. */
static unsigned live_producers(const struct intake *intake) {
  unsigned live = 0;
  for (unsigned i = 0; i < intake->count; i++) {
    live += intake->seats[i].producer.fd >= 0 && !peer_hung_up(intake->seats[i].producer.fd);
  }
  for (unsigned i = 0; i < intake->waiting_count; i++) {
    live += !peer_hung_up(intake->waiting[i].fd);
  }
  return live;
}

enum config_protocol intake_protocol(const struct intake *intake, const struct guest *producer) {
  enum config_protocol configured = intake->config->source.protocol;
  enum config_protocol otherwise = configured == CONFIG_PROTOCOL_AUTO ? CONFIG_PROTOCOL_Y4M : configured;
  return producer->native ? CONFIG_PROTOCOL_NATIVE : otherwise;
}

static void refuse(struct intake *intake, const struct guest *producer, enum native_error_code code, const char *problem) {
  guest_tell(producer, code, "%s", problem);
  refusals_add(&intake->refusals, LOG_REFUSED, intake->config->name, refusals_remedy(code),
               "producer pid %d (user %u) was refused: %s", (int)producer->pid, (unsigned)producer->uid, problem);
  rights_close(producer->fd);
}

static void refuse_one_more(struct intake *intake, const struct guest *producer) {
  char problem[160];
  snprintf(problem, sizeof problem, "pipeline %s already has its %u producer%s", intake->config->name, intake->count,
           intake->count == 1 ? "" : "s");
  refuse(intake, producer, NATIVE_E_BUSY, problem);
}

void intake_seat_down(struct intake *intake, struct seat *seat, const struct guest *producer) {
  seat->producer = *producer;
  keeper_mark();
  if (intake->config->source.endpoint == CONFIG_SOCKET) {
    char client[GUEST_NAME];
    log_event(LOG_CONNECTED, intake->config->name, "producer pid %d (user %u) connected%s", (int)producer->pid,
              (unsigned)producer->uid, guest_name(producer, client));
  }
  intake->welcome.session += producer->native;
  if (seat_share(seat, &intake->welcome)) {
    return;
  }
  if (producer->native) {
    guest_welcome(producer, &intake->welcome, NULL, 0);
  }
  seat->used = true;
  session_attach(seat->session, producer->fd, intake_protocol(intake, producer), guest_wants_acks(producer));
}

/* Before all others. */
static void wait(struct intake *intake, const struct guest *producer) {
  assert(intake->waiting_count < MOST_WAITING);
  memmove(intake->waiting + 1, intake->waiting, intake->waiting_count * sizeof *intake->waiting);
  intake->waiting[0] = *producer;
  intake->waiting_count++;
  keeper_mark();
}

/* Until the seat has memory that nobody has used. */
static void wait_for_memory(struct intake *intake, struct seat *seat, const struct guest *producer) {
  wait(intake, producer);
  seat_renew(seat);
}

/* What another client of that user has left here does not count against it for long any more. */
static bool may_have_more_soon(const struct intake *intake, uid_t user) {
  bool soon = false;
  for (unsigned i = 0; i < intake->count; i++) {
    soon = soon || seat_owes_memory(&intake->seats[i], user);
  }
  return soon && intake->waiting_count < MOST_WAITING;
}

/* If its user may have what the seat's session takes. False: it waits until that may be. */
static bool sit_down_or_refuse(struct intake *intake, struct seat *seat, const struct guest *producer) {
  char problem[QUOTA_PROBLEM];
  if (quota_charge(intake->quota, producer->uid, QUOTA_SESSION, session_memory(seat->session), &seat->charge, problem)) {
    intake_seat_down(intake, seat, producer);
  } else if (may_have_more_soon(intake, producer->uid)) {
    wait(intake, producer);
    return false;
  } else {
    refuse(intake, producer, NATIVE_E_QUOTA, problem);
  }
  return true;
}

/* Those that have gone and left nothing to read are in nobody's way. */
static void forget_gone(struct intake *intake) {
  unsigned kept = 0;
  for (unsigned i = 0; i < intake->waiting_count; i++) {
    int unread = 0;
    const struct guest *guest = &intake->waiting[i];
    if (peer_hung_up(guest->fd) && ioctl(guest->fd, FIONREAD, &unread) == 0 && unread == 0) {
      rights_close(guest->fd);
    } else {
      intake->waiting[kept++] = *guest;
    }
  }
  intake->waiting_count = kept;
}

static void seat_or_refuse(struct intake *intake, const struct guest *producer) {
  struct seat *seat = free_seat(intake);
  if (intake->waiting_count == MOST_WAITING) {
    forget_gone(intake);
  }
  if (seat && seat_must_renew(seat, producer) && intake->waiting_count < MOST_WAITING) {
    wait_for_memory(intake, seat, producer);
  } else if (seat && !seat_must_renew(seat, producer)) {
    sit_down_or_refuse(intake, seat, producer);
  } else if (intake->waiting_count < MOST_WAITING && live_producers(intake) < seats_left(intake)) {
    intake->waiting[intake->waiting_count++] = *producer;
    keeper_mark();
  } else {
    refuse_one_more(intake, producer);
  }
}

void intake_on_greeted(void *context, const struct guest *guest) {
  struct intake *intake = context;
  if (!guest->native || guest->hello.role == intake->welcome.role) {
    seat_or_refuse(intake, guest);
    return;
  }
  char problem[160];
  snprintf(problem, sizeof problem, "the source of pipeline %s takes clients of the role '%s' only, not '%s'",
           intake->config->name, welcome_role_name(intake->welcome.role), welcome_role_name(guest->hello.role));
  refuse(intake, guest, NATIVE_E_ROLE, problem);
}

void intake_on_accepted(void *context, int fd, const struct peer *peer) {
  struct intake *intake = context;
  const struct guest producer = {.fd = fd, .pid = peer->pid, .uid = peer->uid};
  if (intake->greeter) {
    greeter_receive(intake->greeter, fd, peer);
  } else {
    seat_or_refuse(intake, &producer);
  }
}

/* The first that waits and may have the seat. */
void intake_seat_next(struct intake *intake, struct seat *seat) {
  bool goes_on = true;
  while (intake->waiting_count > 0 && seat_is_free(seat) && goes_on) {
    struct guest next = intake->waiting[0];
    intake->waiting_count--;
    memmove(intake->waiting, intake->waiting + 1, intake->waiting_count * sizeof *intake->waiting);
    if (seat_must_renew(seat, &next)) {
      wait_for_memory(intake, seat, &next);
    } else {
      goes_on = sit_down_or_refuse(intake, seat, &next);
    }
  }
}

/* Its session has other memory than the last client's, or none for now. */
void intake_on_renewed(void *context, struct seat *seat) {
  struct intake *intake = context;
  if (seat->stopped) { /* told again, and whoever hears it may free all of this */
    intake->listen(intake->context, &(struct session_event){.kind = SESSION_STOPPED, .session = seat->session});
    return;
  }
  for (unsigned i = 0; i < intake->count && !intake->closed; i++) {
    intake_seat_next(intake, &intake->seats[i]); /* whoever waits may have waited for what this one gave up */
  }
  while (seats_left(intake) == 0 && intake->waiting_count > 0) { /* for nothing any more */
    refuse_one_more(intake, &intake->waiting[--intake->waiting_count]);
  }
}

bool intake_lend(const struct intake *intake, struct session_lent *lent, struct failure *failure) {
  assert(intake->count == 1 && intake->seats);
  if (intake->seats[0].renewing || intake->seats[0].lost) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the memory of pipeline '%s' is made anew", intake->config->name);
  }
  return session_lend(intake->seats[0].session, lent, failure);
}
