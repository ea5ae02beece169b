/*
 * The orders from the control loop to a session. Each is one message embedded in the session, so sending it allocates nothing.
 * session_X() posts an order, and run_X() carries it out on the lane.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/session/private.h"

static struct session *ordered(struct message *message) {
  struct session *session = ((struct session_message *)message)->session;
  if (!session->runner.lane) {
    session->ticked = clock_now();
    lane_join(session->setup.lane, &session->runner);
  }
  lane_schedule(&session->runner);
  return session;
}

static void post(struct session *session, struct session_message *order, void (*run)(struct message *message)) {
  order->message.run = run;
  order->session = session;
  lane_post(session->setup.lane, &order->message);
}

/* Returns false if the producer cannot be served, which is reported. */
static bool attach_new(struct session *session) {
  session->receive.sequence = 0;
  session->receive.protocol = session->attach_protocol;
  session->shares = session->attach_shares;
  session->acknowledges = session->attach_acknowledges && !session->shares;
  session->acknowledged = 0;
  session->unread_since = 0;
  session->unreported |= 1U << SESSION_NOT_READ | 1U << SESSION_FOREIGN;
  if (session->is_reply && !session->shares && !session->attach_reader) {
    session->source.reason = DETACH_ERROR;
    snprintf(session->source.text, sizeof session->source.text, "no memory or descriptor for its results");
    session_report(session, SESSION_DETACHED);
    return false;
  }
  return true;
}

static void session_run_attach(struct message *message) {
  struct session *session = ordered(message);
  session->account.now.attached = true;
  session->attached = session->attaches;
  session->flow.active = clock_now();
  if (!session->attach_continues && !attach_new(session)) {
    return;
  }
  session->source.channel = session->shares ? &session->channel : NULL;
  if (session->shares) {
    channel_open(&session->channel, (struct native_control *)session->control.base, &session->flow, &session->source.mark,
                 session->attach_fd, session->is_reply, session->attach_continues);
  }
  if (session->attach_continues) { /* the previous process left all but what belongs to one process */
    source_open_again(&session->source, session->setup.lane, session->attach_fd);
  } else {
    source_open(&session->source, session->setup.lane, session->attach_fd);
  }
  if (session->is_reply && !session->shares && session->attach_reader) {
    struct reader *reader = session->attach_reader;
    session->attach_reader = NULL;
    session_attach_client(session, reader);
  }
  if (session->stopping) {
    source_end(&session->source, DETACH_STOPPED, "the pipeline ends");
  }
}

/* Two handles cannot poll one descriptor, so with `reply` the results use a duplicate. */
static struct reader *reply_reader(struct session *session, int fd) {
  struct failure failure;
  int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (duplicate < 0) {
    return NULL;
  }
  struct reader *reader = reader_new(session->sink, duplicate, &failure);
  if (!reader) {
    close(duplicate);
  }
  return reader;
}

void session_attach(struct session *session, int fd, enum config_protocol protocol, bool acknowledges) {
  session->attach_shares = session->attach_continues = false;
  session->attach_acknowledges = acknowledges;
  session->attaches++;
  session->attach_fd = fd;
  session->attach_protocol = protocol;
  if (session->is_reply) {
    session->attach_reader = reply_reader(session, fd);
    session->client_at = session->attach_reader;
  }
  if (session->attach_reader && protocol == CONFIG_PROTOCOL_NATIVE) {
    reader_set_protocol(session->attach_reader, protocol);
  }
  post(session, &session->attach_order, session_run_attach);
}

void session_attach_shared(struct session *session, int fd) {
  session->attach_shares = true;
  session->attach_continues = false;
  session->attaches++;
  session->client_at = NULL;
  session->attach_fd = fd;
  session->attach_protocol = CONFIG_PROTOCOL_NATIVE;
  post(session, &session->attach_order, session_run_attach);
}

void session_attach_again(struct session *session, int fd) {
  session->attach_continues = true;
  session->attach_fd = fd;
  if (session->attach_reader && session->attach_reader->fd < 0) {
    session->attach_reader->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* if this fails, the client leaves as soon as it is attached */
  }
  post(session, &session->attach_order, session_run_attach);
}

static void run_hold(struct message *message) {
  struct session *session = ordered(message);
  atomic_store(&session->hold_posted, false);
  unsigned hold = atomic_load(&session->hold_wanted);
  session->receive.held = hold != 0 || session->stopping;
  session->unreported = (session->unreported & ~(1U << SESSION_IDLE)) | (hold != 0 ? 1U << SESSION_IDLE : 0);
  session->flow.active = clock_now();
  atomic_store(&session->hold, hold);
  if (hold != 0) {
    session_report(session, SESSION_HELD); /* if an event is still on its way, it also reports this hold */
  }
}

/* Holds are numbered, so that an answer to an earlier hold is not taken for this one; 0: no hold. */
static void want_hold(struct session *session, unsigned number) {
  atomic_store(&session->hold_wanted, number);
  if (!atomic_exchange(&session->hold_posted, true)) {
    post(session, &session->hold_order, run_hold);
  }
}

void session_hold(struct session *session, bool for_readers) {
  atomic_store(&session->hold_for_readers, for_readers);
  session->holds = session->holds == UINT_MAX ? 1 : session->holds + 1;
  want_hold(session, session->holds);
}

bool session_is_held(const struct session *session) {
  unsigned wanted = atomic_load(&session->hold_wanted);
  return wanted != 0 && atomic_load(&session->hold) == wanted;
}

void session_leave_partial(struct session *session) { atomic_store(&session->hold_leaves_partial, true); }

void session_resume(struct session *session) { want_hold(session, 0); }

static void run_change(struct message *message) { ordered(message)->flow.held_back = true; }

void session_change_stages(struct session *session) { post(session, &session->change_order, run_change); }

static void session_run_stop(struct message *message) {
  struct session *session = ordered(message);
  session->stopping = true;
  session->receive.held = true;
  if (session->source.state == SOURCE_OPEN) {
    source_end(&session->source, DETACH_STOPPED, "the pipeline ends");
  }
  sink_discard(session->sink, FATE_SHUTDOWN, clock_now());
}

void session_stop(struct session *session) { post(session, &session->stop_order, session_run_stop); }
