#include "daemon/intake.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/acceptor.h"
#include "daemon/departure.h"
#include "daemon/endpoint.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/seat.h"
#include "daemon/welcome.h"

enum { MOST_WAITING = 64 };

struct intake {
  uv_loop_t *loop;
  struct quota *quota;
  const struct config_pipeline *config;
  struct seat_setup seat_setup;
  struct seat *seats;
  unsigned count;
  struct guest waiting[MOST_WAITING]; /* for seats of producers that have hung up; in order */
  unsigned waiting_count;
  struct listener *listener;
  struct acceptor *acceptor;
  struct greeter *greeter; /* NULL: its producers say nothing but frames */
  struct native_welcome welcome;
  struct endpoint endpoint; /* of a file; its descriptor until the session gets it */
  struct loop_watch *fifo;  /* until a writer comes */
  session_listener *listen; /* hears of sessions; */
  void *context;            /* what it is told with it */
  uint64_t refused;
  bool for_readers; /* of the hold in force */
  bool closed, ended;
};

/* -- making it ------------------------------------------------------------------------------------------------- */

static bool out_of_memory(struct failure *failure) {
  return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory for the sessions of a pipeline");
}

static bool open_source(struct intake *intake, bool inherits, struct failure *failure) {
  const struct config_source *source = &intake->config->source;
  if (source->endpoint == CONFIG_FILE) {
    return endpoint_open_source(source, &intake->endpoint, failure);
  }
  if (!inherits) {
    intake->listener = listener_open(intake->config->name, source->path, &source->access, failure);
  }
  return inherits || intake->listener;
}

static enum gpu_graph_choice graph_choice(enum config_graph graph) {
  switch (graph) {
  case CONFIG_GRAPH_ON:
    return GPU_GRAPH_ON;
  case CONFIG_GRAPH_OFF:
    return GPU_GRAPH_OFF;
  case CONFIG_GRAPH_AUTO:
    break;
  }
  return GPU_GRAPH_AUTO;
}

/* What the first session's warm-up has measured need not be measured again. */
static void choose_alike(const struct session *first, struct session_setup *setup) {
  setup->graph = session_replays(first) ? GPU_GRAPH_ON : GPU_GRAPH_OFF;
  setup->timed_one_in = (int)session_timed_one_in(first);
}

static void on_renewed(void *context, struct seat *seat);

static bool make_sessions(struct intake *intake, const struct intake_setup *setup, struct failure *failure) {
  struct session_setup session = setup->session;
  session.graph = graph_choice(intake->config->graph);
  intake->seat_setup =
      (struct seat_setup){.loop = intake->loop, .pipeline = intake->config->name, .renewed = on_renewed, .context = intake};
  for (unsigned i = 0; i < intake->count; i++) {
    session.index = i;
    session.lane = setup->lanes[i];
    session.sink_lane = setup->sink_lanes[i];
    intake->seats[i].setup = &intake->seat_setup;
    intake->seats[i].producer.fd = -1;
    intake->seats[i].session = session_new(&session, failure);
    if (!intake->seats[i].session) {
      return false;
    }
    choose_alike(intake->seats[i].session, &session);
  }
  return true;
}

struct intake *intake_new(const struct intake_setup *setup, struct failure *failure) {
  struct intake *intake = calloc(1, sizeof *intake);
  if (!intake) {
    out_of_memory(failure);
    return NULL;
  }
  intake->loop = setup->loop;
  intake->quota = setup->quota;
  intake->config = setup->session.config;
  intake->listen = setup->session.listener;
  intake->context = setup->session.context;
  intake->count = intake->config->source.clients;
  intake->endpoint.fd = -1;
  intake->welcome = welcome_of(intake->config, gpu_chain_input(setup->session.chain), gpu_chain_output(setup->session.chain),
                               intake->config->sink.endpoint == CONFIG_REPLY ? NATIVE_BOTH : NATIVE_PRODUCER);
  intake->seats = calloc(intake->count, sizeof *intake->seats);
  if (!intake->seats) {
    out_of_memory(failure);
    return intake_free(intake);
  }
  if (!open_source(intake, setup->inherits, failure) || !make_sessions(intake, setup, failure)) {
    return intake_free(intake);
  }
  return intake;
}

struct intake *intake_free(struct intake *intake) {
  if (!intake) {
    return NULL;
  }
  for (unsigned i = 0; intake->seats && i < intake->count; i++) {
    quota_release(&intake->seats[i].charge);
    if (intake->seats[i].session) {
      intake->seats[i].session = session_free(intake->seats[i].session);
    }
  }
  intake->greeter = greeter_close(intake->greeter);
  intake->listener = listener_close(intake->listener);
  endpoint_close(&intake->endpoint);
  free(intake->seats);
  free(intake);
  return NULL;
}

/* -- producers ------------------------------------------------------------------------------------------------- */

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

static enum config_protocol protocol_of(const struct intake *intake, const struct guest *producer) {
  enum config_protocol configured = intake->config->source.protocol;
  enum config_protocol otherwise = configured == CONFIG_PROTOCOL_AUTO ? CONFIG_PROTOCOL_Y4M : configured;
  return producer->native ? CONFIG_PROTOCOL_NATIVE : otherwise;
}

static void refuse(struct intake *intake, const struct guest *producer, enum native_error_code code, const char *problem) {
  guest_tell(producer, code, "%s", problem);
  log_event(LOG_REFUSED, intake->config->name, "producer pid %d (user %u) was refused: %s", (int)producer->pid,
            (unsigned)producer->uid, problem);
  close(producer->fd);
  intake->refused++;
}

static void refuse_one_more(struct intake *intake, const struct guest *producer) {
  char problem[160];
  snprintf(problem, sizeof problem, "pipeline %s already has its %u producer%s", intake->config->name, intake->count,
           intake->count == 1 ? "" : "s");
  refuse(intake, producer, NATIVE_E_BUSY, problem);
}

static void sit_down(struct intake *intake, struct seat *seat, const struct guest *producer) {
  seat->producer = *producer;
  if (intake->config->source.endpoint == CONFIG_SOCKET) {
    log_event(LOG_CONNECTED, intake->config->name, "producer pid %d (user %u) connected", (int)producer->pid,
              (unsigned)producer->uid);
  }
  intake->welcome.session += producer->native;
  if (seat_share(seat, &intake->welcome)) {
    return;
  }
  if (producer->native) {
    guest_welcome(producer, &intake->welcome, NULL, 0);
  }
  seat->used = true;
  session_attach(seat->session, producer->fd, protocol_of(intake, producer));
}

/* If its user may have what the seat's session takes. */
static void sit_down_or_refuse(struct intake *intake, struct seat *seat, const struct guest *producer) {
  char problem[QUOTA_PROBLEM];
  if (quota_charge(intake->quota, producer->uid, session_memory(seat->session), &seat->charge, problem)) {
    sit_down(intake, seat, producer);
  } else {
    refuse(intake, producer, NATIVE_E_QUOTA, problem);
  }
}

/* The producer waits, before all others, until the seat has memory that nobody has used. */
static void wait_for_memory(struct intake *intake, struct seat *seat, const struct guest *producer) {
  assert(intake->waiting_count < MOST_WAITING);
  memmove(intake->waiting + 1, intake->waiting, intake->waiting_count * sizeof *intake->waiting);
  intake->waiting[0] = *producer;
  intake->waiting_count++;
  seat_renew(seat);
}

static void seat_or_refuse(struct intake *intake, const struct guest *producer) {
  struct seat *seat = free_seat(intake);
  if (seat && seat_must_renew(seat, producer) && intake->waiting_count < MOST_WAITING) {
    wait_for_memory(intake, seat, producer);
  } else if (seat && !seat_must_renew(seat, producer)) {
    sit_down_or_refuse(intake, seat, producer);
  } else if (intake->waiting_count < MOST_WAITING && live_producers(intake) < seats_left(intake)) {
    intake->waiting[intake->waiting_count++] = *producer;
  } else {
    refuse_one_more(intake, producer);
  }
}

static void on_greeted(void *context, const struct guest *guest) {
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

static void on_accepted(void *context, int fd, const struct peer *peer) {
  struct intake *intake = context;
  const struct guest producer = {.fd = fd, .pid = peer->pid, .uid = peer->uid};
  if (intake->greeter) {
    greeter_receive(intake->greeter, fd, peer);
  } else {
    seat_or_refuse(intake, &producer);
  }
}

static void on_refused(void *context) { ((struct intake *)context)->refused++; }

/* The first that waits and may have the seat. */
static void seat_next(struct intake *intake, struct seat *seat) {
  while (intake->waiting_count > 0 && seat_is_free(seat)) {
    struct guest next = intake->waiting[0];
    intake->waiting_count--;
    memmove(intake->waiting, intake->waiting + 1, intake->waiting_count * sizeof *intake->waiting);
    if (seat_must_renew(seat, &next)) {
      wait_for_memory(intake, seat, &next);
    } else {
      sit_down_or_refuse(intake, seat, &next);
    }
  }
}

/* Its session has other memory than the last client's, or none for now. */
static void on_renewed(void *context, struct seat *seat) {
  struct intake *intake = context;
  if (seat->stopped) { /* told again, and whoever hears it may free all of this */
    intake->listen(intake->context, &(struct session_event){.kind = SESSION_STOPPED, .session = seat->session});
    return;
  }
  if (!intake->closed && seat_is_free(seat)) {
    seat_next(intake, seat);
  }
  while (seats_left(intake) == 0 && intake->waiting_count > 0) { /* for nothing any more */
    refuse_one_more(intake, &intake->waiting[--intake->waiting_count]);
  }
}

/* -- files ----------------------------------------------------------------------------------------------------- */

static void attach_file(struct intake *intake) {
  const struct guest file = {.fd = intake->endpoint.fd};
  intake->endpoint.fd = -1;
  sit_down(intake, &intake->seats[0], &file);
}

static void on_writer(void *context) {
  struct intake *intake = context;
  intake->fifo = loop_watch_close(intake->fifo);
  attach_file(intake);
}

/* A FIFO that nobody has opened for writing reads as ended, so it is left alone until a writer comes. */
static bool wait_for_writer(struct intake *intake, struct failure *failure) {
  intake->fifo = loop_watch_new(intake->loop, intake->endpoint.fd, on_writer, intake);
  if (!intake->fifo) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "cannot watch the FIFO '%s'", intake->config->source.path);
  }
  loop_watch_start(intake->fifo);
  return true;
}

/* The next writer needs a reader at all times, or it would get SIGPIPE: the FIFO is opened anew before it is closed. */
static void await_next_writer(struct intake *intake) {
  struct failure failure;
  if (!endpoint_open_source(&intake->config->source, &intake->endpoint, &failure) || !wait_for_writer(intake, &failure)) {
    log_event(LOG_CLIENT_ERROR, intake->config->name, "no more writers can come: %s", failure.text);
    intake->ended = true;
  }
}

/* -- control --------------------------------------------------------------------------------------------------- */

static bool start_greeting(struct intake *intake, struct failure *failure) {
  enum config_protocol protocol = intake->config->source.protocol;
  if (protocol != CONFIG_PROTOCOL_NATIVE && protocol != CONFIG_PROTOCOL_AUTO) {
    return true;
  }
  const struct greeter_setup setup = {.loop = intake->loop,
                                      .pipeline = intake->config->name,
                                      .who = "producer",
                                      .y4m_too = protocol == CONFIG_PROTOCOL_AUTO,
                                      .timeout_ns = intake->config->source.timeout_ns,
                                      .greeted = on_greeted,
                                      .refused = on_refused,
                                      .context = intake};
  intake->greeter = greeter_new(&setup, failure);
  return intake->greeter;
}

static bool start_accepting(struct intake *intake, struct failure *failure) {
  if (!start_greeting(intake, failure)) {
    return false;
  }
  const struct acceptor_setup setup = {.loop = intake->loop,
                                       .fd = listener_fd(intake->listener),
                                       .allow = &intake->config->source.access.allow,
                                       .pipeline = intake->config->name,
                                       .role = "producer",
                                       .native = intake->greeter != NULL,
                                       .accepted = on_accepted,
                                       .refused = on_refused,
                                       .context = intake};
  intake->acceptor = acceptor_new(&setup, failure);
  return intake->acceptor;
}

bool intake_start(struct intake *intake, struct failure *failure) {
  if (intake->listener) {
    return start_accepting(intake, failure);
  }
  if (intake->endpoint.kind == ENDPOINT_FIFO) {
    return wait_for_writer(intake, failure);
  }
  attach_file(intake);
  return true;
}

void intake_suspend(struct intake *intake) {
  if (intake->acceptor) {
    acceptor_suspend(intake->acceptor);
  }
  if (intake->greeter) {
    greeter_suspend(intake->greeter);
  }
}

void intake_unsuspend(struct intake *intake) {
  if (intake->acceptor) {
    acceptor_resume(intake->acceptor);
  }
  if (intake->greeter) {
    greeter_resume(intake->greeter);
  }
}

void intake_close(struct intake *intake) {
  intake->closed = true;
  for (unsigned i = 0; i < intake->count; i++) {
    seat_close(&intake->seats[i]);
  }
  intake->acceptor = acceptor_close(intake->acceptor);
  intake->greeter = greeter_close(intake->greeter);
  intake->fifo = loop_watch_close(intake->fifo);
  intake->listener = listener_close(intake->listener);
  endpoint_close(&intake->endpoint);
  for (unsigned i = 0; i < intake->waiting_count; i++) {
    guest_tell(&intake->waiting[i], NATIVE_E_STOPPING, "pipeline %s is stopping", intake->config->name);
    close(intake->waiting[i].fd);
  }
  intake->waiting_count = 0;
}

struct listener *intake_take_listener(struct intake *intake) {
  struct listener *listener = intake->listener;
  intake->acceptor = acceptor_close(intake->acceptor);
  intake->greeter = greeter_close(intake->greeter);
  intake->listener = NULL;
  return listener;
}

void intake_give_listener(struct intake *intake, struct listener *listener) { intake->listener = listener; }

struct listener *intake_listener(struct intake *intake) {
  return intake->listener;
}

void intake_hold(struct intake *intake, bool for_readers) {
  intake->for_readers = for_readers;
  for (unsigned i = 0; i < intake->count; i++) {
    intake->seats[i].idle = false;
    session_hold(intake->seats[i].session, for_readers);
  }
}

void intake_resume(struct intake *intake) {
  for (unsigned i = 0; i < intake->count; i++) {
    intake->seats[i].idle = false;
    session_resume(intake->seats[i].session);
  }
}

void intake_stop(struct intake *intake) {
  for (unsigned i = 0; i < intake->count; i++) {
    session_stop(intake->seats[i].session);
  }
}

/* -- events ---------------------------------------------------------------------------------------------------- */

static struct seat *seat_of(struct intake *intake, const struct session *session) {
  unsigned i = 0;
  while (intake->seats[i].session != session) {
    i++;
  }
  return &intake->seats[i];
}

static void on_detached(struct intake *intake, struct seat *seat, const struct session_event *event) {
  departure_log(intake->config, event, seat->producer.pid, seat->producer.uid);
  departure_tell(intake->config, event, &seat->producer, seat->shares);
  seat->producer.fd = -1;
  quota_release(&seat->charge);
  if (seat->shares) {
    seat_renew(seat);
  } else if (!intake->closed && intake->config->source.endpoint == CONFIG_SOCKET) {
    seat_next(intake, seat);
  } else if (!intake->closed && intake->endpoint.kind == ENDPOINT_FIFO) {
    await_next_writer(intake);
  } else {
    intake->ended = true;
  }
  close(event->fd);
}

/* What it told may be from before it was resumed and held again: then it is asked once more. */
static void on_idle(const struct intake *intake, struct seat *seat) {
  struct session_view view;
  session_read(seat->session, &view);
  seat->idle = view.ledger.in_flight == 0;
  if (!seat->idle) {
    session_hold(seat->session, intake->for_readers);
  }
}

void intake_on_event(struct intake *intake, const struct session_event *event) {
  struct seat *seat = seat_of(intake, event->session);
  switch (event->kind) {
  case SESSION_DETACHED:
    on_detached(intake, seat, event);
    break;
  case SESSION_IDLE:
    on_idle(intake, seat);
    break;
  case SESSION_STOPPED:
    seat->stopped = true;
    break;
  case SESSION_GPU_FAULT:
    break;
  }
}

/* -- questions ------------------------------------------------------------------------------------------------- */

bool intake_idle(const struct intake *intake) {
  bool idle = true;
  for (unsigned i = 0; i < intake->count; i++) {
    idle = idle && intake->seats[i].idle;
  }
  return idle;
}

bool intake_stopped(const struct intake *intake) {
  bool stopped = true;
  for (unsigned i = 0; i < intake->count; i++) {
    stopped = stopped && intake->seats[i].stopped && !intake->seats[i].renewing;
  }
  return stopped;
}

bool intake_ended(const struct intake *intake) { return intake->ended; }

unsigned intake_seats(const struct intake *intake) { return intake->count; }

struct session *intake_session(const struct intake *intake, unsigned seat) {
  return intake->seats[seat].session;
}

unsigned intake_producers(const struct intake *intake) {
  unsigned count = 0;
  for (unsigned i = 0; i < intake->count; i++) {
    count += intake->seats[i].producer.fd >= 0;
  }
  return count;
}

uint64_t intake_refused(const struct intake *intake) { return intake->refused; }
