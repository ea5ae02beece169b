/*
 * What of a session goes through a codec, part by part, and how it begins again from what came: the same for a session that is
 * handed over whole (image.c) and for one whose process was killed (checkpoint.c).
 */
#include "daemon/session/private.h"

/* -- through a codec ---------------------------------------------------------------------------------------------------- */

struct flow *session_own_flow(void *context, unsigned seat) {
  struct session *session = context;
  return seat == session->flow.seat ? &session->flow : NULL;
}

/* With `reply`: what its client has taken. One whose handle is closing has gone. */
static void pass_client(struct session *session, struct codec *codec) {
  bool there = codec->writing && session->client_there && session->sink->readers;
  CODEC_PASS(codec, there);
  CODEC_PASS(codec, session->client_gone);
  sink_pass(session->sink, codec, session_own_flow, session);
  if (there) {
    struct reader *reader = reader_pass(session->sink->readers, session->sink, codec, session_own_flow, session);
    session->attach_reader = codec->writing ? session->attach_reader : reader;
  }
}

void session_pass_memory(struct session *session, struct codec *codec, bool memory) {
  unsigned number = session->flow.memory;
  CODEC_PASS(codec, memory);
  CODEC_PASS(codec, number);
  session->flow.memory = number;
  if (memory) {
    codec_pass_descriptor(codec, &session->inputs.fd);
    codec_pass_descriptor(codec, &session->outputs.fd);
    codec_pass_descriptor(codec, &session->control.fd);
  }
}

static void pass_flow(struct flow *flow, struct codec *codec) {
  slot_ring_pass(&flow->ring, codec);
  CODEC_PASS(codec, flow->restart_owed);
  CODEC_PASS(codec, flow->offered_producer);
  CODEC_PASS(codec, flow->offered_sequence);
}

static void pass_costs(struct gpu_costs *costs, struct codec *codec) {
  int64_t *const times[] = {&costs->alone, &costs->lane,       &costs->h2d,        &costs->kernel,
                            &costs->d2h,   &costs->shared_h2d, &costs->shared_d2h, &costs->kernels};
  _Static_assert(sizeof *costs == sizeof times / sizeof *times * sizeof(int64_t), "each of them is passed");
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    codec_pass_time(codec, times[i]);
  }
}

static void pass_choices(struct session *session, struct codec *codec) {
  unsigned graph = session->setup.graph, copy = session->setup.copy;
  codec_pass_below(codec, &graph, GPU_GRAPH_OFF + 1);
  codec_pass_below(codec, &copy, GPU_COPY_KERNEL + 1);
  CODEC_PASS(codec, session->setup.timed_one_in);
  pass_costs(&session->setup.costs, codec);
  if (session->setup.timed_one_in < GPU_TIMED_NEVER) {
    codec_break(codec);
  }
  if (!codec->writing) {
    session->setup.graph = (enum gpu_graph_choice)graph;
    session->setup.copy = (enum gpu_copy_choice)copy;
  }
}

static void pass_view(struct session_view *view, struct codec *codec) {
  CODEC_PASS(codec, view->ledger);
  codec_pass_time(codec, &view->began);
  codec_pass_time(codec, &view->last_in);
  codec_pass_time(codec, &view->last_out);
  codec_pass_time(codec, &view->busy);
  codec_pass_time(codec, &view->worked);
  CODEC_PASS(codec, view->submitted);
}

/* Few of its buckets have anything in them. */
static void pass_histogram(struct histogram *histogram, struct codec *codec) {
  unsigned count = 0, bucket = 0;
  for (unsigned i = 0; codec->writing && i < HISTOGRAM_BUCKETS; i++) {
    count += histogram->counts[i] > 0;
  }
  codec_pass_below(codec, &count, HISTOGRAM_BUCKETS + 1);
  for (unsigned i = 0; i < count; i++, bucket++) {
    while (codec->writing && histogram->counts[bucket] == 0) {
      bucket++;
    }
    codec_pass_below(codec, &bucket, HISTOGRAM_BUCKETS);
    CODEC_PASS(codec, histogram->counts[bucket]);
  }
  CODEC_PASS(codec, histogram->sum_ns);
}

void session_pass_histograms(struct account *account, struct codec *codec) {
  for (int step = 0; step < STEP_COUNT; step++) {
    pass_histogram(&account->steps[step], codec);
  }
}

void session_pass_books(struct session *session, struct codec *codec) {
  pass_choices(session, codec);
  pass_view(&session->account.now, codec);
  pass_flow(&session->flow, codec);
  receive_pass(&session->receive, codec);
  source_pass(&session->source, codec);
  if (!codec->writing) {
    session->foreign_told = receive_is_foreign(&session->receive); /* also of a producer that has gone since */
  }
  CODEC_PASS(codec, session->shares);
  CODEC_PASS(codec, session->acknowledges);
  CODEC_PASS(codec, session->acknowledged);
  acks_pass(&session->account.acks, codec);
  if (session->shares) {
    channel_pass(&session->channel, &session->flow, session->is_reply, codec);
  }
  if (session->is_reply && codec->live) {
    CODEC_PASS(codec, session->client_gone); /* what it has taken is the sink's to note */
  } else if (session->is_reply) {
    pass_client(session, codec);
  }
}

/* -- from there on --------------------------------------------------------------------------------------------------- */

/* A frame that was alone on the device each time it failed will not be tried once more. */
static void quarantine(struct session *session) {
  struct slot_ring *ring = &session->flow.ring;
  unsigned at = 0;
  for (struct slot *slot = slot_at(ring, SLOT_READY, at); slot; slot = slot_at(ring, SLOT_READY, at)) {
    if (slot->frame.failures >= RETRY_LIMIT) {
      uint64_t sequence = slot->frame.sequence;
      slot->frame.suspect = false;
      flow_drop(&session->flow, slot, FATE_GPU_FAULT, clock_now());
      session->quarantined++;
      session->last_quarantined = sequence;
    } else {
      at++;
    }
  }
}

static unsigned count_suspects(const struct session *session) {
  unsigned suspects = 0;
  for (unsigned i = 0; i < session->flow.ring.count; i++) {
    suspects += session->flow.ring.slots[i].frame.suspect && session->flow.ring.slots[i].state == SLOT_READY;
  }
  return suspects;
}

static bool join_retry(struct session *session, struct failure *failure) {
  struct retry *retry = session->setup.retry;
  if (!retry) {
    return true;
  }
  session->flow.retry = retry;
  return retry_join(retry, session->setup.lane, count_suspects(session)) ||
         failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory to take up a session");
}

/* Nothing is on the device now, and the state of stages there begins anew. */
static void forget_device(struct session *session) {
  struct session_view *view = &session->account.now;
  view->submitted = view->completed;
  view->busy_since = 0;
  view->last_completion = clock_now();
  session->flow.restart_owed |= session->receive.sequence > 0;
  session->flow.active = clock_now();
}

bool session_has_source(const struct session *session) { return session->source.state != SOURCE_NONE; }

/* A session that shares memory has that memory, and a client at it. */
static bool session_is_sound(const struct session *session) {
  bool has_source = session_has_source(session);
  return (!session->shares || (has_source && session->control.fd >= 0)) &&
         (!has_source || session->receive.protocol != CONFIG_PROTOCOL_AUTO);
}

bool session_is_unsound(const struct session *session, struct failure *failure) {
  if (session_is_sound(session)) {
    return false;
  }
  failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "what was handed over of a session of '%s' makes no sense",
              session->setup.config->name);
  return true;
}

bool session_begin_again(struct session *session, struct failure *failure) {
  forget_device(session);
  quarantine(session);
  session->receive.held = true; /* until it is held or resumed */
  return join_retry(session, failure);
}
