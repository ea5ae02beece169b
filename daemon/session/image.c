/*
 * A session over a tape, for the next image of the program: its books, its slots with their frames, where its producer is in
 * its bytes and its client in the rings. The memory goes along by descriptor, so that no byte of a frame is copied. Frames on
 * the device, which is lost with the process, are run again; all others are where they were. While this runs no lane does.
 */
#include <string.h>

#include "daemon/session/private.h"

/* -- before it is put ----------------------------------------------------------------------------------------------- */

unsigned session_running(const struct session *session) { return slot_count(&session->road.ring, SLOT_RUNNING); }

void session_suspect(struct session *session, bool failed, bool alone) {
  for (unsigned i = 0; i < session_running(session); i++) {
    struct frame *frame = &slot_at(&session->road.ring, SLOT_RUNNING, i)->frame;
    frame->again = true;
    frame->suspect |= failed;
    frame->failures += failed && alone;
  }
}

/* What is between the session and a sink on another lane goes to either. */
static void empty_handoff(struct session *session) {
  if (session->road.handoff) {
    sink_take_handed_over(session->sink);
    handoff_collect(session->road.handoff);
  }
}

/* -- parts --------------------------------------------------------------------------------------------------------- */

struct road *session_own_road(void *context, unsigned seat) {
  struct session *session = context;
  return seat == session->road.seat ? &session->road : NULL;
}

/* With `reply`: what its client has taken. One whose handle is closing has gone. */
static void pass_client(struct session *session, struct tape *tape) {
  bool there = tape->writing && session->client_there && session->sink->readers;
  TAPE_PASS(tape, there);
  TAPE_PASS(tape, session->client_gone);
  sink_pass(session->sink, tape, session_own_road, session);
  if (there) {
    struct reader *reader = reader_pass(session->sink->readers, session->sink, tape, session_own_road, session);
    session->attach_reader = tape->writing ? session->attach_reader : reader;
  }
}

void session_pass_memory(struct session *session, struct tape *tape, bool memory) {
  unsigned number = session->road.memory;
  TAPE_PASS(tape, memory);
  TAPE_PASS(tape, number);
  session->road.memory = number;
  if (memory) {
    tape_pass_descriptor(tape, &session->inputs.fd);
    tape_pass_descriptor(tape, &session->outputs.fd);
    tape_pass_descriptor(tape, &session->control.fd);
  }
}

static void pass_road(struct road *road, struct tape *tape) {
  slot_ring_pass(&road->ring, tape);
  TAPE_PASS(tape, road->restart_owed);
  TAPE_PASS(tape, road->offered_producer);
  TAPE_PASS(tape, road->offered_sequence);
}

static void pass_costs(struct gpu_costs *costs, struct tape *tape) {
  int64_t *const times[] = {&costs->alone, &costs->lane,       &costs->h2d,        &costs->kernel,
                            &costs->d2h,   &costs->shared_h2d, &costs->shared_d2h, &costs->kernels};
  _Static_assert(sizeof *costs == sizeof times / sizeof *times * sizeof(int64_t), "each of them is passed");
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    tape_pass_time(tape, times[i]);
  }
}

static void pass_choices(struct session *session, struct tape *tape) {
  unsigned graph = session->setup.graph, copy = session->setup.copy;
  tape_pass_below(tape, &graph, GPU_GRAPH_OFF + 1);
  tape_pass_below(tape, &copy, GPU_COPY_KERNEL + 1);
  TAPE_PASS(tape, session->setup.timed_one_in);
  pass_costs(&session->setup.costs, tape);
  if (session->setup.timed_one_in < GPU_TIMED_NEVER) {
    tape_break(tape);
  }
  if (!tape->writing) {
    session->setup.graph = (enum gpu_graph_choice)graph;
    session->setup.copy = (enum gpu_copy_choice)copy;
  }
}

static void pass_view(struct session_view *view, struct tape *tape) {
  TAPE_PASS(tape, view->ledger);
  tape_pass_time(tape, &view->began);
  tape_pass_time(tape, &view->busy);
  tape_pass_time(tape, &view->worked);
  TAPE_PASS(tape, view->submitted);
}

/* Few of its buckets have anything in them. */
static void pass_histogram(struct histogram *histogram, struct tape *tape) {
  unsigned count = 0, bucket = 0;
  for (unsigned i = 0; tape->writing && i < HISTOGRAM_BUCKETS; i++) {
    count += histogram->counts[i] > 0;
  }
  tape_pass_below(tape, &count, HISTOGRAM_BUCKETS + 1);
  for (unsigned i = 0; i < count; i++, bucket++) {
    while (tape->writing && histogram->counts[bucket] == 0) {
      bucket++;
    }
    tape_pass_below(tape, &bucket, HISTOGRAM_BUCKETS);
    TAPE_PASS(tape, histogram->counts[bucket]);
  }
  TAPE_PASS(tape, histogram->sum_ns);
}

static void pass_histograms(struct account *account, struct tape *tape) {
  for (int step = 0; step < STEP_COUNT; step++) {
    pass_histogram(&account->steps[step], tape);
  }
}

void session_pass_books(struct session *session, struct tape *tape) {
  pass_choices(session, tape);
  pass_view(&session->account.now, tape);
  pass_road(&session->road, tape);
  fill_pass(&session->fill, tape);
  source_pass(&session->source, tape);
  if (!tape->writing) {
    session->foreign_told = fill_is_foreign(&session->fill); /* also of a producer that has gone since */
  }
  TAPE_PASS(tape, session->shares);
  TAPE_PASS(tape, session->acknowledges);
  TAPE_PASS(tape, session->acknowledged);
  settled_pass(&session->account.settled, tape);
  if (session->shares) {
    channel_pass(&session->channel, &session->road, session->is_reply, tape);
  }
  if (session->is_reply && tape->live) {
    TAPE_PASS(tape, session->client_gone); /* what it has taken is the sink's to note */
  } else if (session->is_reply) {
    pass_client(session, tape);
  }
}

void session_put(struct session *session, struct tape *tape, bool memory) {
  empty_handoff(session);
  session_pass_memory(session, tape, memory);
  session_pass_books(session, tape);
  pass_histograms(&session->account, tape);
}

/* -- after it was taken ---------------------------------------------------------------------------------------------- */

/* A frame that was alone on the device each time it failed will not be tried once more. */
static void condemn(struct session *session) {
  struct slot_ring *ring = &session->road.ring;
  unsigned at = 0;
  for (struct slot *slot = slot_at(ring, SLOT_READY, at); slot; slot = slot_at(ring, SLOT_READY, at)) {
    if (slot->frame.failures >= TRIAL_LIMIT) {
      uint64_t sequence = slot->frame.sequence;
      slot->frame.suspect = false;
      road_drop(&session->road, slot, FATE_GPU_FAULT, clock_now());
      session->condemned++;
      session->last_condemned = sequence;
    } else {
      at++;
    }
  }
}

static unsigned count_suspects(const struct session *session) {
  unsigned suspects = 0;
  for (unsigned i = 0; i < session->road.ring.count; i++) {
    suspects += session->road.ring.slots[i].frame.suspect && session->road.ring.slots[i].state == SLOT_READY;
  }
  return suspects;
}

static bool join_trial(struct session *session, struct failure *failure) {
  struct trial *trial = session->setup.trial;
  if (!trial) {
    return true;
  }
  session->road.trial = trial;
  return trial_join(trial, session->setup.lane, count_suspects(session)) ||
         failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory to take up a session");
}

/* Nothing is on the device now, and the state of stages there begins anew. */
static void forget_device(struct session *session) {
  struct session_view *view = &session->account.now;
  view->submitted = view->completed;
  view->busy_since = 0;
  view->last_completion = clock_now();
  session->road.restart_owed |= session->fill.sequence > 0;
  session->road.active = clock_now();
}

/* Where memory is shared, it is there, with a client at it. */
static bool is_sound(const struct session *session) {
  bool has_source = session_has_source(session);
  return (!session->shares || (has_source && session->control.fd >= 0)) &&
         (!has_source || session->fill.protocol != CONFIG_PROTOCOL_AUTO);
}

bool session_is_unsound(const struct session *session, struct failure *failure) {
  if (is_sound(session)) {
    return false;
  }
  failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "what was handed over of a session of '%s' makes no sense",
              session->setup.config->name);
  return true;
}

bool session_begin_again(struct session *session, struct failure *failure) {
  forget_device(session);
  condemn(session);
  session->fill.held = true; /* until it is held or resumed */
  return join_trial(session, failure);
}

bool session_take(struct session *session, struct tape *tape, struct failure *failure) {
  if (tape->live) {
    return session_take_live(session, tape, failure);
  }
  session_pass_memory(session, tape, false);
  session_pass_books(session, tape);
  pass_histograms(&session->account, tape);
  if (tape->broken) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "what was handed over ends within a session of '%s'",
                       session->setup.config->name);
  }
  session->attached = session->attaches = session_has_source(session) ? 1 : 0;
  session->client_page = session->attach_reader ? page_name(session->attach_reader->page) : 0;
  return !session_is_unsound(session, failure) && session_begin_again(session, failure);
}

/* Each slot that is on its way out is so in one place. */
static bool is_complete(const struct session *session) {
  bool complete = true;
  for (unsigned i = 0; i < session->road.ring.count; i++) {
    const struct slot *slot = &session->road.ring.slots[i];
    bool out =
        sink_has_slot(session->sink, slot) || (session->shares && session->is_reply && channel_has_told(&session->channel, i));
    complete = complete && (slot->state != SLOT_EMITTING || out);
  }
  return complete;
}

bool session_taken(struct session *session, struct failure *failure) {
  struct ledger *ledger = &session->account.now.ledger;
  uint64_t settled = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += ledger->fates[fate];
  }
  ledger->in_flight = road_in_flight(&session->road);
  account_publish(&session->account);
  session->road.unnoted = true;
  session_note(session);
  return (is_complete(session) && ledger->in == settled + ledger->in_flight) ||
         failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the frames that were handed over of a session of '%s' do not add up",
                     session->setup.config->name);
}

unsigned session_spared(const struct session *session) {
  unsigned spared = 0;
  for (unsigned i = 0; i < session->road.ring.count; i++) {
    enum slot_state state = session->road.ring.slots[i].state;
    spared |= state == SLOT_DONE || state == SLOT_EMITTING ? 1U << i : 0;
  }
  return spared;
}

bool session_may_share(const struct session *session) { return session->control.fd >= 0; }

bool session_shares(const struct session *session) { return session->shares; }

bool session_has_source(const struct session *session) { return session->source.state != SOURCE_NONE; }

unsigned session_condemned(const struct session *session, uint64_t *last) {
  *last = session->condemned > 0 ? session->last_condemned : *last;
  return session->condemned;
}

struct road *session_road(struct session *session) {
  return &session->road;
}
