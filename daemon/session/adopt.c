/*
 * Taking over a session from the previous process, from the record in which that process worked. The record has the account,
 * the slots with their frames, and the positions of producer and client. The memory of the slots comes by descriptor, so no
 * frame is copied. Frames on the device were lost with the process and run again; all others continue where they were.
 *
 * At an orderly end the lanes are parked, so all records agree. A killed process may stop anywhere, and the sink's lane
 * somewhere else than the session's. Records of the sink and the session are matched by the number of the frame in a slot. If
 * they differ the sink is right, because its record says what was written.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/session/private.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/state.h"

/* -- before the end ------------------------------------------------------------------------------------------------- */

void session_keep(const struct session *session) {
  fd_table_want(session->inputs.fd);
  fd_table_want(session->outputs.fd);
  fd_table_want(session->control.fd);
}

/* -- slots that the sink knows -------------------------------------------------------------------------------------- */

static void apply_result(struct session *session, struct slot *slot, const struct result *result, bool held) {
  if (result->state == RESULT_SETTLED && slot->awaits_fate) { /* `seen` may not be stored in the slot yet */
    slot->frame.seen = slot->frame.seen != 0 ? slot->frame.seen : clock_now();
    account_close(&session->account, &slot->frame, result->fate, clock_now());
  }
  slot->frame.open = false;
  /* a result that was set aside also has an older entry in the queue */
  slot->awaits_fate = held && result->state == RESULT_OPEN;
  slot->state = held ? SLOT_EMITTING : SLOT_FREE;
}

/* A slot in EMITTING belongs to the sink, has come back from it, or has not reached it. */
static void reconcile_slot(struct session *session, struct slot *slot, const struct sink *sink) {
  bool held;
  const struct result *result = sink_left_find(sink, session->flow.seat, slot, &held);
  if (result) {
    apply_result(session, slot, result, held);
  } else if (slot->awaits_fate || slot->frame.open) {
    flow_offer_again(&session->flow, slot);
  } else {
    slot->state = SLOT_FREE;
  }
}

static void reconcile(struct session *session, const struct sink *sink) {
  struct slot_ring *ring = &session->flow.ring;
  bool in_channel = session->shares && session->is_reply;
  for (unsigned i = 0; i < ring->count; i++) {
    if (ring->slots[i].state == SLOT_EMITTING && !(in_channel && channel_has_completion(&session->channel, i))) {
      reconcile_slot(session, &ring->slots[i], sink);
    }
  }
  slot_ring_order(ring);
}

/* -- the producer --------------------------------------------------------------------------------------------------- */

bool session_is_cut(const struct session *session) { return session->revival >= SESSION_CUT; }

void session_lose_source(struct session *session) {
  receive_end(&session->receive, FATE_INVALID, clock_now());
  session->source.state = SOURCE_NONE;
  session->shares = false;
}

bool session_has_source(const struct session *session) { return session->source.state != SOURCE_NONE; }

bool session_may_share(const struct session *session, bool shares) {
  return shares ? session->control.fd >= 0 : !session->shares;
}

/* Frames that were read from a file after `before` are read again. */
static bool reread(struct session *session, const struct source *left) {
  struct slot_ring *ring = &session->flow.ring;
  const struct receive *before = &left->before;
  for (unsigned i = 0; i < ring->count; i++) {
    struct slot *slot = &ring->slots[i];
    uint64_t after = slot->frame.sequence + 1 - before->sequence; /* 0: the frame that had begun */
    bool is_last = before->begun && after == 0;
    if (slot->state != SLOT_FREE && slot->frame.producer == before->producer && (is_last || after - 1 < GPU_MAX_SLOTS)) {
      session->account.now.ledger.in -= !is_last;
      slot->state = is_last ? SLOT_FILLING : SLOT_FREE;
      slot->frame.open = is_last;
    }
  }
  slot_ring_order(ring);
  session->source.offset = left->offset_before;
  return receive_adopt(&session->receive, before);
}

static enum session_revival revive(const struct session *session, uint64_t attached, bool is_marked) {
  if (attached < session->attaches) {
    return SESSION_NEVER_BEGAN;
  }
  return !session_has_source(session) ? SESSION_ENDED : is_marked ? SESSION_CUT : SESSION_GOES_ON;
}

/* A producer that cannot continue is detached like one that ended. */
static void cut_source(struct session *session) {
  receive_end(&session->receive, FATE_INVALID, clock_now());
  if (session->shares) {
    channel_adopt_none(&session->channel, &session->flow);
    session->cut_client = true;
  }
  session->acknowledges = false; /* part of an acknowledgement may have been written */
  session->source.state = SOURCE_ENDED;
  session->source.reason = DETACH_CUT;
  snprintf(session->source.text, sizeof session->source.text,
           "the previous process was killed in the middle of a read from it or a write to it");
  session->revival = SESSION_CUT;
}

static bool adopt_source(struct session *session, const struct session *left) {
  const bool is_marked = mark_is_set(&left->source.mark);
  bool is_file = is_marked && (unsigned)left->source.kind == DESCRIPTOR_FILE;
  bool sound = source_adopt(&session->source, &left->source);
  sound = sound && IMAGE_IS_FLAG(left->shares) && IMAGE_IS_FLAG(left->acknowledges) && IMAGE_IS_FLAG(left->client_gone);
  if (!sound) {
    return false;
  }
  session->rereads = is_file;
  session->revival = revive(session, left->attached, is_marked && !is_file);
  session->acknowledges = left->acknowledges;
  session->acknowledged = left->acknowledged;
  session->client_gone = left->client_gone;
  session->shares = left->shares;
  sound = is_file ? reread(session, &left->source) : receive_adopt(&session->receive, &left->receive);
  if (is_marked && !is_file) { /* the position is unknown, so any state is accepted */
    session->receive.begun = session->receive.filling != NULL;
    sound = true;
  }
  bool in_channel = session->shares && session_has_source(session);
  if (in_channel && session->revival == SESSION_GOES_ON) {
    sound = sound && channel_adopt(&session->channel, &left->channel, &session->flow, session->is_reply);
  }
  if (receive_is_foreign(&session->receive)) { /* the previous process reported it, for this producer or an earlier one */
    session->unreported &= ~(1U << SESSION_FOREIGN);
  }
  return sound;
}

static void drop_lost_source(struct session *session) {
  if (session->revival == SESSION_CUT) {
    cut_source(session);
  } else if (session->revival == SESSION_ENDED && state_left()->live && session->attaches > 0) {
    session->source.state = SOURCE_ENDED; /* the control loop may not know that yet */
  } else if (session->revival != SESSION_GOES_ON) {
    session_lose_source(session);
  }
  session->attached = session->attaches;
}

/* -- the slots ------------------------------------------------------------------------------------------------------ */

/* Drops all frames, because the client who would get them is gone. */
static void forget_frames(struct session *session) {
  struct slot_ring *ring = &session->flow.ring;
  for (unsigned i = 0; i < ring->count; i++) {
    struct slot *slot = &ring->slots[i];
    if (slot->frame.open || slot->awaits_fate) {
      slot->frame.open = true;
      slot->frame.seen = slot->frame.seen != 0 ? slot->frame.seen : clock_now();
      account_settle(&session->account, &slot->frame, FATE_CLIENT_GONE, clock_now());
    }
    slot->awaits_fate = false;
    slot->state = SLOT_FREE;
  }
  session->receive.filling = NULL;
  slot_ring_order(ring);
}

static bool adopt_choices(struct session *session, const struct session_stages *left) {
  const struct gpu_costs *costs = &left->costs;
  const int64_t times[] = {costs->alone, costs->lane,       costs->h2d,        costs->kernel,
                           costs->d2h,   costs->shared_h2d, costs->shared_d2h, costs->kernels};
  bool sound = (unsigned)left->graph <= GPU_GRAPH_OFF && (unsigned)left->copy <= GPU_COPY_KERNEL &&
               left->timed_one_in >= GPU_TIMED_NEVER;
  _Static_assert(sizeof *costs == sizeof times, "each of them is looked at");
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    sound = sound && image_is_time(times[i]);
  }
  session->stages[0].graph = left->graph;
  session->stages[0].copy = left->copy;
  session->stages[0].timed_one_in = left->timed_one_in;
  session->stages[0].costs = *costs;
  return sound;
}

/* With `reply`: its results go to the same client, or are dropped. */
static bool adopt_client(struct session *session, const struct sink *sink) {
  bool cut;
  if (!sink_adopt(session->sink, sink, session_own_flow, session)) {
    return false;
  }
  bool has_client = session->revival == SESSION_GOES_ON && !session->shares;
  if (has_client && !session->client_gone) {
    session->attach_reader = reader_adopt(session->sink, reader_left(session->client_at), -1, session_own_flow, session, &cut);
    has_client = session->attach_reader != NULL;
  }
  session->client_at = session->attach_reader;
  if (!has_client && session->revival == SESSION_GOES_ON && !session->shares) {
    cut_source(session);
  }
  if (!has_client && !session->shares) {
    session->client_gone = false;
    sink_abandon(session->sink);
    forget_frames(session);
    session->flow.unsettled = 0;
  }
  return true;
}

static bool adopt_parts(struct session *session, const struct session *left) {
  struct flow *flow = &session->flow;
  if (!IMAGE_IS_FLAG(left->flow.restart_pending) || left->flow.stages >= FLOW_STAGES ||
      !adopt_choices(session, &left->stages[left->flow.stages % 2]) || !account_adopt(&session->account, &left->account) ||
      !slot_ring_adopt(&flow->ring, &left->flow.ring)) {
    return false;
  }
  flow->restart_pending = left->flow.restart_pending;
  flow->offered_producer = left->flow.offered_producer;
  flow->offered_sequence = left->flow.offered_sequence;
  return adopt_source(session, left);
}

static void drop_memory(struct session *session) {
  arena_drop(&session->inputs);
  arena_drop(&session->outputs);
  arena_drop(&session->control);
  forget_frames(session);
  session->shares = false;
  session->revival = session->revival == SESSION_GOES_ON ? SESSION_CUT : session->revival;
}

static bool adopt_all(struct session *session, const struct session *left, const struct sink *sink) {
  if (!sink || !adopt_parts(session, left)) {
    return false;
  }
  session->settling = left->account.settling;
  reconcile(session, sink);
  if (session->inputs.fd < 0 || session->outputs.fd < 0) { /* the memory of the frames is gone */
    drop_memory(session);
  }
  drop_lost_source(session);
  return !session->is_reply || adopt_client(session, sink);
}

/* -- starting again ------------------------------------------------------------------------------------------------- */

static bool begin_again(struct session *session, struct failure *failure) {
  session->account.now.last_completion = clock_now();
  session->flow.restart_pending |= session->receive.sequence > 0;
  session->flow.active = clock_now();
  session->receive.held = true; /* until the control loop holds or resumes it */
  session->quarantined = flow_quarantine(&session->flow, &session->last_quarantined);
  session->flow.retry = session->flow.devices[0].retry;
  return retry_join(session->flow.retry, session->setup.lane, &session->flow.ring) ||
         failure_set_memory(failure, "not enough memory to take up a session");
}

/* A session that shares memory needs that memory and a client. */
static bool session_is_sound(const struct session *session) {
  bool has_source = session_has_source(session);
  return (!session->shares || (has_source && session->control.fd >= 0)) &&
         (!has_source || session->receive.protocol != CONFIG_PROTOCOL_AUTO);
}

bool session_adopt(struct session *session, const struct session *address, bool memory, struct failure *failure) {
  const struct session *left = image_left_at(address, IMAGE_SESSION, sizeof *left);
  if (left) {
    session->attaches = left->attaches;
    session->client_at = left->client_at;
    session->flow.memory = left->flow.memory;
    session->inputs.fd = memory ? fd_table_take(left->inputs.fd) : -1;
    session->outputs.fd = memory ? fd_table_take(left->outputs.fd) : -1;
    session->control.fd = memory ? fd_table_take(left->control.fd) : -1;
  }
  session->most_lost = state_left()->live ? ACKS_OPEN : 0;
  if (!left || !adopt_all(session, left, sink_left(left->sink)) || !session_is_sound(session)) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the previous process left an invalid state of a session of '%s'",
                       session->setup.config->name);
  }
  return begin_again(session, failure);
}

/* True if each slot in EMITTING belongs to the sink or the client. */
static bool is_complete(const struct session *session) {
  bool complete = true;
  for (unsigned i = 0; i < session->flow.ring.count; i++) {
    const struct slot *slot = &session->flow.ring.slots[i];
    bool out = sink_has_slot(session->sink, slot) ||
               (session->shares && session->is_reply && channel_has_completion(&session->channel, i));
    complete = complete && (slot->state != SLOT_EMITTING || out);
  }
  return complete;
}

bool session_taken(struct session *session, struct failure *failure) {
  struct account *account = &session->account;
  bool is_lossless = session->sink->block;
  enum fate lost = session->rereads ? FATE_COUNT : is_lossless ? FATE_INVALID : FATE_UNREAD;
  account->now.ledger.in_flight = flow_in_flight(&session->flow);
  bool balanced = account_repair(account, session->settling, lost, session->most_lost);
  account->now.ledger.out_bytes = account->now.ledger.fates[FATE_EMITTED] * session->flow.output_bytes;
  if (is_lossless) {
    acks_repair(&account->acks, &session->flow.ring);
  }
  account_publish(account);
  const struct reader *client = session->attach_reader;
  bool is_in_place = !client || !client->continues || reader_position_is_valid(client);
  return (is_complete(session) && balanced && is_in_place) ||
         failure_set(failure, EXIT_STATUS_INTERNAL, NULL,
                     "the frame counts that the previous process left of a session of '%s' do not balance",
                     session->setup.config->name);
}

unsigned session_quarantined(const struct session *session, struct frame_name *last) {
  *last = session->quarantined > 0 ? session->last_quarantined : *last;
  return session->quarantined;
}

struct flow *session_own_flow(void *context, unsigned seat) {
  struct session *session = context;
  return seat == session->flow.seat ? &session->flow : NULL;
}
