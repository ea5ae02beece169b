/*
 * The events from a session to the control loop. Each kind is one message embedded in the session, so reporting allocates
 * nothing, and a kind is on its way once at a time. An event that becomes due meanwhile is sent later, or the one on its way
 * already says it.
 */
#include <stdio.h>

#include "daemon/session/private.h"

/* -- contents of an event, besides kind and session ------------------------------------------------------------------------ */

static void fill_detached(struct session *session, struct session_event *event) {
  event->fd = session->attach_fd;
  event->reason = session->source.reason;
  event->frames = session->receive.sequence;
  snprintf(event->text, sizeof event->text, "%s", session->source.text);
  session->account.now.attached = false;
}

static void fill_idle(struct session *session, struct session_event *event) { event->hold = atomic_load(&session->hold); }

/* If frames are rejected while the event is on its way, only the last one is reported next. */
static void fill_refused(struct session *session, struct session_event *event) {
  session->flow.refused = false;
  event->frame = session->flow.refused_frame;
  snprintf(event->text, sizeof event->text, "%.255s", session->flow.refusal);
}

static void fill_foreign(struct session *session, struct session_event *event) {
  snprintf(event->text, sizeof event->text, "%s", stranger_names[session->receive.foreign]);
}

static void (*const fills[SESSION_EVENT_KINDS])(struct session *session, struct session_event *event) = {
    [SESSION_DETACHED] = fill_detached,
    [SESSION_IDLE] = fill_idle,
    [SESSION_REFUSED] = fill_refused,
    [SESSION_FOREIGN] = fill_foreign,
};

/* -- sending --------------------------------------------------------------------------------------------------------------- */

static void event_deliver(struct message *message) {
  /* the receiver may free the session in which the notice is embedded */
  struct session_event event = ((struct notice *)message)->event;
  struct session *session = event.session;
  atomic_fetch_and(&session->posted, ~(1U << event.kind));
  if (event.kind == SESSION_IDLE && event.hold != atomic_load(&session->hold_wanted)) {
    return; /* it was resumed since, so it is no longer idle */
  }
  if (event.kind == SESSION_CHANGED) {
    session->in_force = (session->in_force + 1) % FLOW_STAGES;
  }
  session->setup.listener(session->setup.context, &event);
}

void session_report(struct session *session, enum session_event_kind kind) {
  const unsigned bit = 1U << kind;
  struct notice *notice = &session->notices[kind];
  if ((atomic_fetch_or(&session->posted, bit) & bit) != 0) {
    return;
  }
  session->unreported &= ~bit;
  notice->message.run = event_deliver;
  notice->event.kind = kind;
  notice->event.session = session;
  if (fills[kind]) {
    fills[kind](session, &notice->event);
  }
  mailbox_post(session->setup.control, &notice->message);
}
