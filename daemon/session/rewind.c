/*
 * The frames of a session whose device lost its worker. RUNNING frames become READY in their order and wait
 * until the device has another worker. Nothing else of the session changes. The lanes are parked meanwhile.
 *
 * Frames that were on the device are suspected. A frame that was alone there at each failure is dropped (frame/retry.h).
 */
#include "daemon/session/private.h"

unsigned session_suspect(struct session *session, unsigned device, bool failed, bool alone) {
  const struct flow *flow = &session->flow;
  unsigned running = 0;
  for (unsigned i = 0; i < slot_count(&flow->ring, SLOT_RUNNING); i++) {
    struct slot *slot = slot_at(&flow->ring, SLOT_RUNNING, i);
    if (flow_is_on(flow, slot, device)) {
      retry_suspect(&slot->frame, failed, alone);
      running++;
    }
  }
  return running;
}

int64_t session_oldest_on(const struct session *session, unsigned device) {
  const struct flow *flow = &session->flow;
  int64_t oldest = INT64_MAX;
  for (unsigned i = 0; i < slot_count(&flow->ring, SLOT_RUNNING); i++) {
    const struct slot *slot = slot_at(&flow->ring, SLOT_RUNNING, i);
    oldest = flow_is_on(flow, slot, device) && slot->frame.dispatched < oldest ? slot->frame.dispatched : oldest;
  }
  return oldest;
}

void session_describe(const struct session *session, struct fault *fault) {
  const struct flow *flow = &session->flow;
  const char *stage;
  fault->pipeline = session->setup.config->name;
  for (unsigned i = 0; i < slot_count(&flow->ring, SLOT_RUNNING); i++) {
    const struct slot *slot = slot_at(&flow->ring, SLOT_RUNNING, i);
    if (flow_is_on(flow, slot, fault->device)) {
      fault->epoch = fault->frames == 0 ? slot->frame.epoch : fault->epoch;
      fault->first = fault->frames == 0 ? slot->frame.sequence : fault->first;
      fault->last = slot->frame.sequence;
      fault->frames++;
    }
  }
  for (unsigned i = 0; (stage = device_chain_stage(session->stages[flow->stages % 2].chain, i)); i++) {
    fault_add_stage(fault, stage);
  }
}

static void take_back_running(struct session *session, unsigned device) {
  struct flow *flow = &session->flow;
  struct session_view *view = &session->account.now;
  const int64_t now = clock_now();
  for (unsigned i = 0; i < flow->ring.count; i++) {
    struct slot *slot = &flow->ring.slots[i];
    if (slot->state == SLOT_RUNNING && flow_is_on(flow, slot, device)) {
      slot->state = SLOT_READY;
      view->submitted--;
    }
  }
  slot_ring_order(&flow->ring);
  if (view->submitted == view->completed && view->busy_since != 0) {
    view->busy += now - view->busy_since;
    view->busy_since = 0;
  }
  view->last_completion = now;
  flow->active = now;
}

bool session_rewind(struct session *session, unsigned device, struct failure *failure) {
  struct flow *flow = &session->flow;
  bool is_there = false;
  for (unsigned i = 0; i < flow->device_count; i++) {
    is_there = is_there || flow->devices[i].number == device;
  }
  if (is_there) {
    take_back_running(session, device);
    device_program_spare(flow->program, session_spared(session));
    flow->device_awaited = true;
    flow->restart_pending |= session->receive.sequence > 0; /* the stages kept their state in the lost worker */
    flow->retry = flow->devices[0].retry;
    session->quarantined = flow_quarantine(flow, &session->last_quarantined);
  }
  return !flow->retry || retry_join(flow->retry, session->setup.lane, &flow->ring) ||
         failure_set_memory(failure, "not enough memory to run frames again");
}
