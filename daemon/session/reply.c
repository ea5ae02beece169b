/*
 * The client of a `reply` session, which takes the results on the connection that its frames come by.
 *
 * It is a reader of the session's own sink, attached and detached with the producer. Where that sink lives on another lane,
 * what happens to the client comes over as messages, and what the session wants goes there as orders. No next client comes
 * before the last one's handle is closed and every order is carried out, so that nothing meant for one meets another.
 */
#include <stdio.h>

#include "daemon/base/rights.h"
#include "daemon/session/private.h"

#define UNREAD_QUIET (200 * NS_PER_MS) /* nothing moved for more than two ticks */

/* -- what becomes of it ------------------------------------------------------------------------------------------ */

static void client_is_gone(struct session *session, bool closed, const char *why) {
  session->client_there = session->client_there && !closed;
  if (session->source.state == SOURCE_OPEN || (session->source.state == SOURCE_ENDED && session->client_there)) {
    if (session->source.state == SOURCE_OPEN) {
      source_end(&session->source, DETACH_CLIENT_GONE, "%s", why);
    }
    session->client_gone = true;
    sink_discard(session->sink, FATE_CLIENT_GONE, clock_now());
  }
  lane_schedule(&session->runner);
}

static void run_left(struct message *message) {
  struct session *session = ((struct session_message *)message)->session;
  client_is_gone(session, false, session->client_text);
}

static void run_closed(struct message *message) { client_is_gone(((struct session_message *)message)->session, true, ""); }

static void reply_post(struct session *session, struct session_message *order, void (*run)(struct message *message)) {
  order->message.run = run;
  order->session = session;
  lane_post(session->setup.lane, &order->message);
}

/* [sink's lane] Each is told once of a client. */
void session_on_client_gone(void *context, bool closed, const char *why) {
  struct session *session = context;
  if (!session->flow.relay) {
    client_is_gone(session, closed, why);
  } else if (closed) {
    reply_post(session, &session->client_closed, run_closed);
  } else {
    snprintf(session->client_text, sizeof session->client_text, "%s", why);
    reply_post(session, &session->client_left, run_left);
  }
}

/* From tick to tick, so that a time in which nobody looked does not count. Of one with shared memory it is not known whether it
 * would send: it needs a slot for that. */
void session_watch_client(struct session *session, int64_t now) {
  bool waits = session->is_reply && !session->shares && !session->receive.held && now - session->flow.active > UNREAD_QUIET &&
               slot_count(&session->flow.ring, SLOT_EMITTING) > 0 && source_has_unread(&session->source);
  if (!waits) {
    session->unread_since = 0;
  } else if (session->unread_since == 0) {
    session->unread_since = now;
  } else if (session_is_unreported(session, SESSION_NOT_READ) && now - session->unread_since >= SESSION_PATIENCE_S * NS_PER_S) {
    /* The other end of its connection may lie in what it sent, and then nobody is there who could read or leave. */
    if (rights_wait_in(session->source.fd)) {
      client_is_gone(session, false, "it passes descriptors and reads no results");
    } else {
      session_report(session, SESSION_NOT_READ);
    }
  }
}

/* -- what is wanted ---------------------------------------------------------------------------------------------- */

void session_attach_client(struct session *session, struct reader *reader) {
  session->client_there = true;
  session->client_detached = false;
  if (session->flow.relay) {
    sink_attach(session->sink, reader);
  } else {
    sink_attach_here(session->sink, reader);
  }
}

bool session_detach_client(struct session *session) {
  if (session->client_there && !session->client_detached) {
    session->client_detached = true;
    sink_detach(session->sink);
  }
  return !session->client_there && sink_orders_done(session->sink);
}

static void run_leave(struct message *message) {
  struct session *session = ((struct session_message *)message)->session;
  lane_leave(&session->sink->runner);
  session_report(session, SESSION_STOPPED);
}

/* The one that leaves its lane last tells the end, since the session may be freed from then on. */
void session_leave(struct session *session) {
  lane_leave(&session->runner);
  if (session->is_reply && session->flow.relay) {
    session->leave_order.message.run = run_leave;
    session->leave_order.session = session;
    lane_post(session->sink->lane, &session->leave_order.message);
    return;
  }
  if (session->is_reply) {
    lane_leave(&session->sink->runner);
  }
  session_report(session, SESSION_STOPPED);
}
