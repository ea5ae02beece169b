/*
 * The client of a `reply` session, which gets its results on the connection on which it sends its frames.
 *
 * It is a reader of the session's own sink, attached and detached with the producer. If that sink is on another lane, events of
 * the client come as messages, and the session sends orders. The next client is attached only after the handle of the last one
 * is closed and every order is carried out. So no message or order can reach the wrong client.
 */
#include <stdio.h>

#include "daemon/base/rights.h"
#include "daemon/session/private.h"

#define UNREAD_QUIET (200 * NS_PER_MS) /* more than two ticks without progress */

/* -- events of the client ---------------------------------------------------------------------------------------- */

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

/* [sink's lane] Called at most once for each kind and client. */
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

/* Measures from tick to tick, so that time in which the lane did not run does not count. Clients with shared memory are left
 * out: they need a free slot to send, so nobody knows whether they want to. */
void session_watch_client(struct session *session, int64_t now) {
  bool waits = session->is_reply && !session->shares && !session->receive.held && now - session->flow.active > UNREAD_QUIET &&
               slot_count(&session->flow.ring, SLOT_EMITTING) > 0 && source_has_unread(&session->source);
  if (!waits) {
    session->unread_since = 0;
  } else if (session->unread_since == 0) {
    session->unread_since = now;
  } else if (session_is_unreported(session, SESSION_NOT_READ) && now - session->unread_since >= SESSION_PATIENCE_S * NS_PER_S) {
    /* The connection's other end may be a descriptor inside the data that it sent. Then no process can read from it or close
     * it. */
    if (rights_wait_in(session->source.fd)) {
      client_is_gone(session, false, "it passes descriptors and reads no results");
    } else {
      session_report(session, SESSION_NOT_READ);
    }
  }
}

/* -- orders to the sink ------------------------------------------------------------------------------------------ */

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

/* The last of both to leave its lane reports the end, because the session may be freed from then on. */
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
