#include "daemon/pipeline/inputs_private.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/rights.h"
#include "daemon/client/detach.h"
#include "daemon/client/hello_reply.h"
#include "daemon/state/fd_store.h"

/* -- making it ------------------------------------------------------------------------------------------------- */

static bool out_of_memory(struct failure *failure) {
  return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory for the sessions of a pipeline");
}

static bool open_source(struct intake *intake, bool inherits, struct failure *failure) {
  if (intake->continues) {
    return true;
  }
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
  setup->copy = session_copies_by_kernel(first) ? GPU_COPY_KERNEL : GPU_COPY_ENGINE;
  setup->timed_one_in = (int)session_timed_one_in(first);
  setup->costs = *session_costs(first);
}

static bool make_sessions(struct intake *intake, const struct intake_setup *setup, struct failure *failure) {
  struct session_setup session = setup->session;
  session.graph = graph_choice(intake->config->graph);
  intake->seat_setup = (struct seat_setup){
      .loop = intake->loop, .pipeline = intake->config->name, .renewed = intake_on_renewed, .context = intake};
  for (unsigned i = 0; i < intake->count; i++) {
    session.index = i;
    session.lane = setup->lanes[i];
    session.sink_lane = setup->sink_lanes[i];
    intake->seats[i].setup = &intake->seat_setup;
    intake->seats[i].producer.fd = -1;
    if (setup->tape) {
      intake_take_seat(&intake->seats[i], setup->tape);
      session.tape = setup->tape;
    }
    intake->seats[i].session = session_new(&session, failure);
    if (!intake->seats[i].session) {
      return false;
    }
    if (setup->tape && setup->tape->live) {
      intake_revive_seat(&intake->seats[i]);
    }
    if (setup->tape && !intake_seat_is_sound(&intake->seats[i])) {
      tape_break(setup->tape);
    }
    choose_alike(intake->seats[i].session, &session);
  }
  if (setup->tape) {
    intake_take_waiting(intake, setup->tape);
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
  if (setup->tape) {
    intake_take(intake, setup->tape);
  }
  if (!open_source(intake, setup->inherits, failure) || !make_sessions(intake, setup, failure)) {
    return setup->tape ? NULL : intake_free(intake); /* what came with the tape stays as it is, for another try */
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
  free(intake->visits);
  free(intake->seats);
  free(intake);
  return NULL;
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
                                      .greeted = intake_on_greeted,
                                      .refusals = &intake->refusals,
                                      .context = intake};
  intake->greeter = greeter_new(&setup, failure);
  return intake->greeter;
}

static bool start_accepting(struct intake *intake, struct failure *failure) {
  if (!intake->greeter && !start_greeting(intake, failure)) {
    return false;
  }
  const struct acceptor_setup setup = {.loop = intake->loop,
                                       .fd = listener_fd(intake->listener),
                                       .allow = &intake->config->source.access.allow,
                                       .pipeline = intake->config->name,
                                       .role = "producer",
                                       .native = intake->greeter != NULL,
                                       .accepted = intake_on_accepted,
                                       .refusals = &intake->refusals,
                                       .context = intake};
  intake->acceptor = acceptor_new(&setup, failure);
  return intake->acceptor;
}

static bool start(struct intake *intake, struct failure *failure) {
  if (intake->listener) {
    return start_accepting(intake, failure);
  }
  if (intake->endpoint.fd < 0) { /* it was read before this process, or is at its end, or could not be opened again */
    if (intake->endpoint.kind == ENDPOINT_FIFO && intake->seats[0].producer.fd < 0 && !intake->ended) {
      intake_await_next_writer(intake);
    }
    return true;
  }
  if (intake->endpoint.kind == ENDPOINT_FIFO) {
    intake->discards |= !intake->continues && keeper_was_killed(); /* which may have read a part of a frame */
    return intake_follow_name(intake) || intake_await_writer(intake, failure);
  }
  intake_attach_file(intake);
  return true;
}

bool intake_start(struct intake *intake, struct failure *failure) {
  intake_cut(intake);
  if (!start(intake, failure)) {
    return false;
  }
  if (intake->continues) {
    intake_continue(intake);
  }
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
  intake->retry = loop_timer_close(intake->retry);
  intake->listener = listener_close(intake->listener);
  endpoint_close(&intake->endpoint);
  for (unsigned i = 0; i < intake->waiting_count; i++) {
    guest_tell(&intake->waiting[i], NATIVE_E_STOPPING, "pipeline %s is stopping", intake->config->name);
    rights_close(intake->waiting[i].fd);
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

void intake_leave_partial(struct intake *intake) {
  intake->leaves_partial = true;
  for (unsigned i = 0; i < intake->count; i++) {
    session_leave_partial(intake->seats[i].session);
  }
}

void intake_resume(struct intake *intake) {
  for (unsigned i = 0; i < intake->count; i++) {
    intake->seats[i].idle = false;
    session_resume(intake->seats[i].session);
  }
}

void intake_stop(struct intake *intake) {
  intake->stops = true;
  for (unsigned i = 0; i < intake->count; i++) {
    session_stop(intake->seats[i].session);
  }
}

/* -- events ---------------------------------------------------------------------------------------------------- */

static void on_not_read(const struct intake *intake, const struct seat *seat) {
  log_event(
      LOG_NOT_READ, intake->config->name,
      "producer pid %d (user %u) has read no result to its end for %d s, so that its frames wait: it has to read while it "
      "sends, as framectl push does",
      (int)seat->producer.pid, (unsigned)seat->producer.uid, SESSION_PATIENCE_S);
}

static void on_foreign(const struct intake *intake, const struct seat *seat, const struct session_event *event) {
  bool is_client = intake->config->source.endpoint == CONFIG_SOCKET;
  char producer[64];
  snprintf(producer, sizeof producer, "producer pid %d (user %u)", (int)seat->producer.pid, (unsigned)seat->producer.uid);
  log_event(LOG_FOREIGN, intake->config->name,
            "the first frame of %s begins like %s, and is taken as raw bytes all the same: is `protocol` of the source right?",
            is_client ? producer : intake->config->source.path, event->text);
}

static struct seat *seat_of(struct intake *intake, const struct session *session) {
  unsigned i = 0;
  while (intake->seats[i].session != session) {
    i++;
  }
  return &intake->seats[i];
}

static void on_detached(struct intake *intake, struct seat *seat, const struct session_event *event) {
  departure_log(intake->config, event, &seat->producer, &intake->refusals);
  departure_tell(intake->config, event, &seat->producer, seat->shares);
  seat->producer.fd = -1;
  if (!seat->shares) {
    quota_release(&seat->charge);
  }
  if (seat->shares) {
    seat_renew(seat);
  } else if (!intake->closed && intake->config->source.endpoint == CONFIG_SOCKET) {
    intake_seat_next(intake, seat);
  } else if (!intake->closed && intake->endpoint.kind == ENDPOINT_FIFO) {
    intake_await_next_writer(intake);
  } else {
    intake->ended = true;
  }
  rights_close(event->fd);
  keeper_mark();
}

/* What it told may be from before it was resumed and held again: then it is asked once more. */
static void on_idle(const struct intake *intake, struct seat *seat) {
  struct session_view view;
  session_read(seat->session, &view);
  seat->idle = view.ledger.in_flight == 0 || (intake->leaves_partial && view.ledger.in_flight == 1);
  if (!seat->idle && !intake->stops) {
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
  case SESSION_NOT_READ:
    on_not_read(intake, seat);
    break;
  case SESSION_FOREIGN:
    on_foreign(intake, seat, event);
    break;
  case SESSION_HELD:
  case SESSION_GPU_FAULT:
    break;
  }
}

/* -- questions ------------------------------------------------------------------------------------------------- */

bool intake_held(const struct intake *intake) {
  bool held = true;
  for (unsigned i = 0; i < intake->count; i++) {
    held = held && session_is_held(intake->seats[i].session);
  }
  return held;
}

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

const struct refusals *intake_refusals(const struct intake *intake) { return &intake->refusals; }
