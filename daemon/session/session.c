/*
 * The turns of a session and its end. turn_once() has the steps of one turn.
 *
 * A producer is attached, ends (SOURCE_ENDED), and its descriptor is returned. That happens at once, or with `reply` after its
 * last result is written. Frames outlive their producer. A stop ends everything and waits for the device.
 */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "daemon/base/nvtx.h"
#include "daemon/frame/completion.h"
#include "daemon/frame/dispatch.h"
#include "daemon/measure/health.h"
#include "daemon/session/private.h"
#include "daemon/sink/completions.h"

#define SPIN_A_TURN (50 * NS_PER_US)
/* if others share the lane and may sleep, because only the loop wakes them */
#define SPIN_BESIDE (5 * NS_PER_US)
/* if no descriptor is polled, because an iteration of the loop takes a good part of a frame's time */
#define SPIN_ALONE      (200 * NS_PER_US)
#define SPIN_FOR_FRAMES (10 * NS_PER_MS)
#define QUIET_AFTER     (200 * NS_PER_MS) /* after this status reports what the session waits for */
#define STANDSTILL      (300 * NS_PER_MS) /* a tick this late means that the whole process was stopped */

enum { ROUNDS_A_TURN = 8 };

/* -- acknowledgements ----------------------------------------------------------------------------------------------- */

static bool owes_acknowledgement(const struct session *session) {
  return session->acknowledges && session->source.state != SOURCE_NONE && session->source.state != SOURCE_CLOSING &&
         acks_count(&session->account.acks, session->receive.producer) > session->acknowledged;
}

/* Sends a producer on the stream transport the number of its frames that have their fate, if it asked for that. One number a
 * turn covers all earlier frames, as a result does. A client that does not read gets it later. */
static void acknowledge(struct session *session) {
  const struct flow *flow = &session->flow;
  unsigned char bytes[NATIVE_ACK_BYTES];
  /* With `reply`, results are written to the same connection, perhaps by another lane. So nothing is sent while a result is on
   * its way. */
  bool is_between_messages = !session->is_reply || (flow->unsettled == 0 && session->client_there && !session->client_gone);
  if (!owes_acknowledgement(session) || !is_between_messages) {
    return;
  }
  uint64_t frames = acks_count(&session->account.acks, session->receive.producer);
  if (session->is_reply && flow->offered_producer == session->receive.producer && flow->offered_sequence + 1 >= frames) {
    session->acknowledged = frames; /* its last result acknowledged these frames already */
    return;
  }
  native_write_ack(frames, bytes);
  /* So few bytes are sent completely or not at all. A producer that is gone gets nothing more. After any other error the tick
   * tries again. */
  bool sent = send(session->source.fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  if (sent || errno == EPIPE || errno == ECONNRESET) {
    session->acknowledged = frames;
  }
}

/* -- one turn --------------------------------------------------------------------------------------------------- */

/* With `reply` and no client, results have no destination. */
static bool drop_all(struct session *session, enum slot_state state, enum fate fate, int64_t now) {
  struct flow *flow = &session->flow;
  bool moved = slot_count(&flow->ring, state) > 0;
  while (slot_count(&flow->ring, state) > 0) {
    flow_drop(flow, slot_oldest(&flow->ring, state), fate, now);
  }
  return moved;
}

/* True if a client may share the memory, now or later. */
static bool may_share(const struct session *session) {
  enum config_protocol protocol = session->setup.config->source.protocol;
  return protocol == CONFIG_PROTOCOL_NATIVE || protocol == CONFIG_PROTOCOL_AUTO;
}

/* True if the producer may be waiting for the fate of its frames before it sends the next one, although slots are free. */
static bool keeps_producer_waiting(const struct session *session, int64_t now) {
  const struct flow *flow = &session->flow;
  const unsigned emitting = slot_count(&flow->ring, SLOT_EMITTING);
  bool owes = session->shares ? emitting > 0 : session->acknowledges && emitting > 0 && flow->unsettled > 0;
  return owes && session->source.state == SOURCE_OPEN && !session->receive.held &&
         emitting + slot_count(&flow->ring, SLOT_FREE) == flow->ring.count && session->source.timeout_ns > 0 &&
         now - flow->active > session->source.timeout_ns;
}

/* While readers hold slots: true if a READY frame, this producer or the next one waits for such a slot. */
static bool wants_slot(const struct session *session, int64_t now) {
  const struct slot_ring *ring = &session->flow.ring;
  bool to_dispatch = slot_count(ring, SLOT_READY) > 0 && flow_taken(&session->flow) >= session->flow.depth;
  bool to_fill = slot_count(ring, SLOT_FREE) == 0 && source_waits(&session->source) && !session->receive.held;
  return to_dispatch || to_fill || (session->source.state == SOURCE_ENDED && may_share(session)) ||
         keeps_producer_waiting(session, now);
}

/* Drops all results, because nobody can take them. */
static bool abandon_results(struct session *session, int64_t now) {
  enum fate fate = session->stopping ? FATE_SHUTDOWN : FATE_CLIENT_GONE;
  if (session->shares) {
    completions_abandon(&session->channel, fate, now);
  }
  bool moved = drop_all(session, SLOT_DONE, fate, now);
  return drop_all(session, SLOT_READY, fate, now) || moved;
}

/* Emit by shared memory. A producer that ended gets no more completions. */
static bool emit_completions(struct session *session, int64_t now) {
  if (session->source.state != SOURCE_OPEN) {
    return false;
  }
  enum completions_progress progress = completions_turn(&session->channel, now);
  if (progress == COMPLETIONS_BROKEN) {
    source_end(&session->source, DETACH_MALFORMED, "in shared memory it consumed results that were not completed");
  }
  return progress != COMPLETIONS_QUIET;
}

/* Offers DONE results to the sink, in order. */
static bool emit(struct session *session, int64_t now) {
  struct flow *flow = &session->flow;
  if (session->client_gone || session->stopping) {
    return abandon_results(session, now);
  }
  if (session->shares && session->is_reply) {
    return emit_completions(session, now);
  }
  unsigned results = flow->ring.queues[SLOT_DONE].count;
  for (unsigned i = 0; i < results; i++) {
    sink_offer(session->sink, flow, flow_offer(flow));
  }
  if (!flow->relay) { /* a sink on another lane runs its own turns, and must not be read here */
    bool has_work = results > 0 || session->sink->leases.count > 0;
    if (has_work && sink_turn(session->sink, now)) {
      lane_schedule(&session->sink->runner);
    }
  }
  bool completed = session->shares && emit_completions(session, now);
  return results > 0 || completed;
}

/* Runs the last step first, so that the preceding step can use the slots that a step frees. */
static bool turn_once(struct session *session, int64_t now) {
  struct flow *flow = &session->flow;
  const struct slot_queue *queues = flow->ring.queues;
  nvtx_begin("completion");
  bool moved = queues[SLOT_RUNNING].count > 0 && completion_turn(flow);
  nvtx_next("emit");
  moved |= flow->relay && relay_collect(flow->relay);
  moved |= emit(session, now);
  if (queues[SLOT_EMITTING].count > 0 && !session->sink->block && wants_slot(session, now)) {
    moved |= sink_reclaim(session->sink, now);
  }
  if (flow->held_back && queues[SLOT_RUNNING].count == 0) {
    session_take_stages(session);
    moved = true;
  }
  if (queues[SLOT_READY].count > 0) { /* frames that waited may have got a slot just now */
    nvtx_next("dispatch");
    moved |= dispatch_turn(flow, now);
  }
  nvtx_next("receive");
  moved |= source_turn(&session->source, now);
  if (queues[SLOT_READY].count > 0) {
    nvtx_next("dispatch");
    moved |= dispatch_turn(flow, now); /* new frames reach the device before it is asked again */
  }
  if (session->shares && session->channel.ring_pending) {
    completions_ring(&session->channel);
  }
  nvtx_end();
  return moved;
}

static void finish_source(struct session *session);
static bool is_idle(const struct session *session);
static bool finish_stop(struct session *session);

static void publish(struct session *session, int64_t now) {
  struct session_view *view = &session->account.now;
  const struct slot_queue *queues = session->flow.ring.queues;
  bool quiet = now - session->flow.active > QUIET_AFTER;
  bool still = quiet || session->receive.held; /* no frame begins, so whatever is left is what it waits for */
  view->ledger.in_flight = flow_in_flight(&session->flow);
  view->not_read = session->unread_since != 0 && now - session->unread_since >= SESSION_PAUSE_S * NS_PER_S;
  view->waiting = WAITING_FOR_NOTHING;
  if (queues[SLOT_EMITTING].count > 0 && still) {
    view->waiting = WAITING_FOR_READER;
  } else if ((queues[SLOT_RUNNING].count > 0 || (queues[SLOT_READY].count > 0 && session->flow.device_awaited)) && still) {
    view->waiting = WAITING_FOR_GPU;
  } else if (session->receive.held) {
    view->waiting = WAITING_FOR_RESUME;
  } else if (!view->attached) {
    view->waiting = WAITING_FOR_PRODUCER;
  } else if (quiet) {
    view->waiting = WAITING_FOR_FRAMES;
  }
#ifdef FRAMED_CHECK
  uint64_t settled = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += view->ledger.fates[fate];
  }
  assert(view->ledger.in == settled + view->ledger.in_flight);
#endif
  account_publish(&session->account);
}

/* For spin: returns true to poll again without sleeping although nothing moved. */
static bool keep_spinning(struct session *session, int64_t now) {
  struct flow *flow = &session->flow;
  /* Expected time of the frames on a GPU, up to where waking up late no longer matters. Not on the CPU backend, whose threads
   * need the processor. */
  int64_t frames = slot_count(&flow->ring, SLOT_RUNNING);
  int64_t expected = session->on_gpu ? frames * session->stages[flow->stages % 2].costs.alone : 0;
  expected = expected < SPIN_FOR_FRAMES ? expected : SPIN_FOR_FRAMES;
  if (now - flow->active < session->setup.config->spin_for_ns + expected) {
    source_poke(&session->source);
    return true;
  }
  const struct slot *oldest = slot_oldest(&flow->ring, SLOT_RUNNING);
  return oldest && device_await(flow->program, oldest->index); /* otherwise a worker wakes the lane */
}

/* Takes rounds until nothing moves. Stops earlier if other sessions on the lane wait, or if the loop must look at other events.
 * `now` gets the end time. Returns true if more may move at once. */
static bool take_rounds(struct session *session, int64_t *now) {
  const bool own = lane_is_own(&session->runner);
  const int64_t longest = own && session->shares && session->is_reply ? SPIN_ALONE : SPIN_A_TURN;
  const int64_t start = clock_now(), idle = own ? longest : SPIN_BESIDE;
  const int64_t worked = session->account.now.worked;
  bool again = true;
  *now = start;
  session->looks = true;
  for (int round = 0; again && (round < ROUNDS_A_TURN || session->flow.spin); round++) {
    int64_t began = *now;
    bool moved = turn_once(session, began);
    again = moved || (session->flow.spin && keep_spinning(session, began));
    *now = clock_now();
    session->account.now.worked += moved ? *now - began : 0;
    if (round > 0 && (*now - start > (moved ? longest : idle) || (!moved && lane_is_wanted(&session->runner)))) {
      break;
    }
  }
  session->looks = false;
  if (session->account.now.worked != worked) {
    lane_count_work(session->runner.lane, session->account.now.worked - worked);
  }
  return again;
}

/* Rare work is behind a flag, so that most turns pay a test and no call. */
bool session_turn(struct runner *runner) {
  struct session *session = (struct session *)runner;
  int64_t now;
  bool again = take_rounds(session, &now);
  if (session->acknowledges) {
    acknowledge(session);
  }
  if (session->receive.foreign && session_is_unreported(session, SESSION_FOREIGN) && receive_is_foreign(&session->receive)) {
    session_report(session, SESSION_FOREIGN);
  }
  if (session->flow.refused) {
    session_report(session, SESSION_REFUSED);
  }
  if (session->source.state == SOURCE_ENDED) {
    finish_source(session);
  }
  publish(session, now);
  if (session_is_unreported(session, SESSION_IDLE) && is_idle(session)) {
    session_report(session, SESSION_IDLE); /* the control loop reads the published account when it gets this */
  }
  if (session->stopping && finish_stop(session)) {
    return false;
  }
  /* Before it sleeps it asks the sink's lane and a shared-memory client to wake it. */
  return again || (session->flow.relay && !relay_may_wait(session->flow.relay)) ||
         (session->shares && !source_may_sleep(&session->source));
}

/* While the process was stopped (SIGSTOP, a frozen machine) neither device nor producer could be watched, so no timeout counts
 * that time. */
static void excuse_standstill(struct session *session, int64_t now) {
  if (now - session->ticked > STANDSTILL) {
    session->account.now.last_completion = now;
    session->receive.since = session->receive.since != 0 ? now : 0;
    session->unread_since += session->unread_since != 0 ? now - session->ticked : 0;
  }
  session->ticked = now;
}

/* How long the oldest frame may stay on its device. Frames of slower sessions may be ahead. */
static int64_t find_patience(const struct session *session) {
  const struct flow *flow = &session->flow;
  int64_t alone = session->stages[flow->stages % 2].costs.alone;
  for (unsigned i = 0; i < flow->device_count; i++) {
    const _Atomic int64_t *slowest = flow->devices[i].slowest;
    int64_t there = slowest ? atomic_load_explicit(slowest, memory_order_relaxed) : 0;
    alone = there > alone ? there : alone;
  }
  return health_patience(session->setup.gpu_timeout_ns, alone);
}

void session_tick(struct runner *runner, int64_t now) {
  struct session *session = (struct session *)runner;
  excuse_standstill(session, now);
  source_tick(&session->source, now);
  bool owed = completion_check(&session->flow, find_patience(session), now);
  session_watch_client(session, now);
  /* a client does not ring for completions that it consumed */
  owed |= session->shares && channel_has_unread(&session->channel);
  owed |= owes_acknowledgement(session) || keeps_producer_waiting(session, now);
  if (owed || session_is_unreported(session, SESSION_IDLE)) {
    lane_schedule(&session->runner);
  }
  publish(session, now);
}

int64_t session_asked(const struct session *session) {
  return atomic_load_explicit(&session->runner.asked, memory_order_relaxed);
}

/* -- ends ---------------------------------------------------------------------------------------------------------- */

/* True if no slot that a client may see is in use. */
static bool all_slots_free(const struct session *session) {
  return slot_count(&session->flow.ring, SLOT_FREE) == session->flow.ring.count;
}

/* The producer has ended: returns its descriptor, with `reply` after its last result. With shared memory, frames do not outlive
 * their producer, because the next one may get all slots. */
static void finish_source(struct session *session) {
  if (session->shares && session->is_reply && !session->client_gone) {
    session->client_gone = true; /* without its connection it consumes nothing */
    lane_schedule(&session->runner);
  }
  if (session->shares && !all_slots_free(session)) {
    return;
  }
  if (session->is_reply) {
    if (flow_in_flight(&session->flow) > 0 && !session->stopping) {
      return;
    }
    if (!session_detach_client(session)) {
      return; /* its detachment causes a turn */
    }
  }
  if (may_share(session) && !all_slots_free(session)) {
    return;
  }
  acknowledge(session);
  source_close(&session->source);
}

void session_on_source_closed(struct source *source) {
  struct session *session = (struct session *)((char *)source - offsetof(struct session, source));
  session->client_gone = false;
  session->shares = false;
  session_report(session, SESSION_DETACHED);
  lane_schedule(&session->runner);
}

/* True if readers still take results that matter: under `block` nothing may be lost, and an end would cut readers off. */
static bool is_emitting(const struct session *session) {
  if (session->sink->block) {
    return slot_count(&session->flow.ring, SLOT_EMITTING) > 0;
  }
  return atomic_load(&session->hold_for_readers) && sink_is_sending(session->sink);
}

/* True if no frame is in flight and no read is under way. */
static bool is_idle(const struct session *session) {
  bool leaves = session->receive.begun && atomic_load(&session->hold_leaves_partial);
  unsigned left = leaves && session->receive.filling ? 1 : 0;
  return session->receive.held && (leaves || !session->receive.begun) && !session->source.reading && !is_emitting(session) &&
         flow_in_flight(&session->flow) == left;
}

/* Returns true once the session has left its lane. */
static bool finish_stop(struct session *session) {
  const struct slot_ring *ring = &session->flow.ring;
  if (session->source.state != SOURCE_NONE || flow_in_flight(&session->flow) > 0 || slot_count(ring, SLOT_RUNNING) > 0 ||
      slot_count(ring, SLOT_EMITTING) > 0) {
    return false;
  }
  if (session->is_reply && !session_detach_client(session)) {
    return false;
  }
  session_leave(session);
  return true;
}
