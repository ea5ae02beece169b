/*
 * What a session says to the control loop: events that are embedded in the session, each on its way once at a time, so that
 * telling never needs memory. An event that is wanted again while it is on its way is told of later, or says it already.
 */
#include <stdio.h>

#include "daemon/session/private.h"

static void event_deliver(struct message *message) {
  struct notice *notice = (struct notice *)message;
  struct session *session = notice->event.session;
  struct session_event event = notice->event; /* the receiver may free what the notice is embedded in */
  if (notice == &session->unread) {
    atomic_store(&session->unread_posted, false);
  }
  if (notice == &session->foreign) {
    atomic_store(&session->foreign_posted, false);
  }
  if (notice == &session->refused) {
    atomic_store(&session->refused_posted, false);
  }
  if (notice == &session->held) {
    atomic_store(&session->held_posted, false);
  }
  if (notice == &session->idle) {
    unsigned hold = session->idle_hold;
    atomic_store(&session->idle_posted, false);
    if (hold != atomic_load(&session->hold_wanted)) {
      return; /* it was resumed since: that idleness is over */
    }
  }
  if (notice == &session->changed) {
    session->in_force = (session->in_force + 1) % FLOW_STAGES;
  }
  session->setup.listener(session->setup.context, &event);
}

static void event_tell(struct session *session, struct notice *notice, enum session_event_kind kind) {
  notice->message.run = event_deliver;
  notice->event.kind = kind;
  notice->event.session = session;
  mailbox_post(session->setup.control, &notice->message);
}

void session_tell_detached(struct session *session, enum detach_reason reason, const char *text) {
  struct session_event *event = &session->detached.event;
  event->fd = session->attach_fd;
  event->reason = reason;
  event->frames = session->receive.sequence;
  snprintf(event->text, sizeof event->text, "%s", text);
  session->account.now.attached = false;
  event_tell(session, &session->detached, SESSION_DETACHED);
}

/* The frames that were on the device that failed. */
static void describe_running(struct session *session, struct fault *fault) {
  const struct flow *flow = &session->flow;
  for (unsigned i = 0; i < slot_count(&flow->ring, SLOT_RUNNING); i++) {
    const struct slot *slot = slot_at(&flow->ring, SLOT_RUNNING, i);
    if (!flow_is_on(flow, slot, fault->device)) {
      continue;
    }
    fault->epoch = fault->frames == 0 ? slot->frame.epoch : fault->epoch;
    fault->first = fault->frames == 0 ? slot->frame.sequence : fault->first;
    fault->last = slot->frame.sequence;
    fault->frames++;
  }
}

void session_tell_fault(struct session *session) {
  const struct config_pipeline *config = session->setup.config;
  const struct stage_plan *stage;
  struct fault *fault = &session->fault;
  session->fault_told = true;
  *fault = (struct fault){.device = session->flow.lost, .pipeline = config->name, .error = session->flow.device_error};
  describe_running(session, fault);
  for (unsigned i = 0; (stage = gpu_chain_stage(session->stages[session->flow.stages % 2].chain, i)); i++) {
    fault_add_stage(fault, stage->stage->name);
  }
  session->faulted.event.fault = fault;
  event_tell(session, &session->faulted, SESSION_GPU_FAULT);
}

/* An event that is still on its way tells of this hold as well. */
void session_tell_held(struct session *session) {
  if (!atomic_exchange(&session->held_posted, true)) {
    event_tell(session, &session->held, SESSION_HELD);
  }
}

void session_tell_idle(struct session *session) {
  if (atomic_exchange(&session->idle_posted, true)) {
    return; /* the last one is still on its way: the tick tries again */
  }
  session->idle_owed = false;
  session->idle_hold = atomic_load(&session->hold);
  event_tell(session, &session->idle, SESSION_IDLE);
}

void session_tell_changed(struct session *session) { event_tell(session, &session->changed, SESSION_CHANGED); }

void session_tell_unread(struct session *session) {
  if (!atomic_exchange(&session->unread_posted, true)) {
    session->unread_told = true;
    event_tell(session, &session->unread, SESSION_NOT_READ);
  }
}

void session_tell_foreign(struct session *session) {
  if (!atomic_exchange(&session->foreign_posted, true)) {
    struct session_event *event = &session->foreign.event;
    session->foreign_told = true;
    snprintf(event->text, sizeof event->text, "%s", stranger_names[session->receive.foreign]);
    event_tell(session, &session->foreign, SESSION_FOREIGN);
  }
}

/* Of frames refused while this is on its way the last is told next. */
void session_tell_refused(struct session *session) {
  struct flow *flow = &session->flow;
  if (!atomic_exchange(&session->refused_posted, true)) {
    struct session_event *event = &session->refused.event;
    flow->refused = false;
    event->frame = flow->refused_frame;
    snprintf(event->text, sizeof event->text, "%.255s", flow->refusal);
    event_tell(session, &session->refused, SESSION_REFUSED);
  }
}

void session_tell_stopped(struct session *session) { event_tell(session, &session->stopped, SESSION_STOPPED); }
