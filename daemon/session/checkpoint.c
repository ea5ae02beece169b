/*
 * What a session notes as it goes, and how the next process goes on from there after this one was killed.
 *
 * A note is written before bytes come into slots that were freed, before the sink gets a frame that no note has, and after each
 * read; so the last note lacks nothing but frames' way through the device, which they then go again, and through the sink,
 * which the sink's own note tells. What the two notes say of a slot is put together by the number of the frame in it.
 */
#include <assert.h>

#include "daemon/session/private.h"

/* -- out ------------------------------------------------------------------------------------------------------------ */

enum {
  LARGEST = GPU_MAX_SLOTS * sizeof(struct frame) + sizeof(struct session_view) + sizeof(struct acks) + sizeof(struct framing) +
            RECEIVE_STAGING + sizeof(((struct source *)NULL)->text),
  NUMBERS = 512 /* at most, besides */
};
static_assert(LARGEST + NUMBERS <= RECORD_PREFAULTED, "no note meets a page fault");

static unsigned owed_slots(const struct slot_ring *ring) {
  unsigned owed = 0;
  for (unsigned i = 0; i < ring->count; i++) {
    owed |= ring->slots[i].state == SLOT_EMITTING && ring->slots[i].owed ? 1U << i : 0;
  }
  return owed;
}

static void pass_note(struct session *session, unsigned *owed, struct codec *codec) {
  CODEC_PASS(codec, session->attached);
  CODEC_PASS(codec, *owed);
  session_pass_books(session, codec);
}

void session_checkpoint(struct session *session) {
  if (!session->record || !session->flow.unnoted) {
    return;
  }
  struct codec codec;
  unsigned owed = owed_slots(&session->flow.ring);
  record_begin(session->record, &codec);
  pass_note(session, &owed, &codec);
  session->flow.unnoted = false;
  record_end(session->record, &codec);
}

void session_checkpoint_before_read(struct source *source) {
  session_checkpoint((struct session *)((char *)source - offsetof(struct session, source)));
}

bool session_is_noted(const struct session *session) { return session->record && session->sink->record; }

void session_put_live(struct session *session, struct codec *codec) {
  uint64_t own = record_name(session->record), sink = record_name(session->sink->record);
  CODEC_PASS(codec, own);
  CODEC_PASS(codec, sink);
  CODEC_PASS(codec, session->attaches);
  CODEC_PASS(codec, session->client_record);
  session_pass_memory(session, codec, true);
}

/* -- what both notes say of a slot ---------------------------------------------------------------------------------- */

/* What is to become of the slots, and what became of frames since the session's note. */
struct outcome {
  enum slot_state states[GPU_MAX_SLOTS];
  unsigned emitting[GPU_MAX_SLOTS];
  bool settled[GPU_MAX_SLOTS];
  enum fate fates[GPU_MAX_SLOTS];
};

/* A frame that the sink let go of without a fate was taken over by readers, whose rests are lost. */
static void judge_known(const struct slot *slot, bool owed, const struct noted_result *known, bool held,
                        struct outcome *outcome) {
  bool counted = slot->state == SLOT_EMITTING && !owed;
  bool over = !known->frame.open;
  outcome->states[slot->index] = held ? SLOT_EMITTING : SLOT_FREE;
  outcome->settled[slot->index] = over && !counted;
  outcome->fates[slot->index] = known->moved ? FATE_UNREAD : known->frame.fate;
}

/* False: they contradict each other. */
static bool judge(const struct slot *slot, unsigned seat, bool owed, const struct sink_checkpointd *noted,
                  struct outcome *outcome) {
  bool held = false;
  const struct noted_result *known = sink_checkpointd_find(noted, seat, slot, &held);
  outcome->states[slot->index] = slot->state;
  if (slot->state == SLOT_FREE || slot->state == SLOT_FILLING) {
    return true;
  }
  if (known) {
    judge_known(slot, owed, known, held, outcome);
    return !(held && known->frame.open && slot->state == SLOT_EMITTING && !owed);
  }
  if (slot->state == SLOT_EMITTING) { /* it was offered, and the sink did not know of it yet */
    outcome->states[slot->index] = SLOT_DONE;
    return owed;
  }
  return true;
}

/* When the device was done with it may not have been noted. */
static void settle_slot(struct session *session, struct slot *slot, enum fate fate, int64_t now) {
  slot->frame.open = true;
  slot->frame.seen = slot->frame.seen != 0 ? slot->frame.seen : now;
  session->account.now.ledger.out_bytes += fate == FATE_EMITTED ? session->flow.output_bytes : 0;
  account_settle(&session->account, &slot->frame, fate, now);
}

static void carry_out(struct session *session, const struct outcome *outcome) {
  struct slot_ring *ring = &session->flow.ring;
  for (unsigned i = 0; i < ring->count; i++) {
    struct slot *slot = &ring->slots[i];
    bool offered_again = slot->state == SLOT_EMITTING && outcome->states[i] == SLOT_DONE;
    if (outcome->settled[i]) {
      settle_slot(session, slot, outcome->fates[i], clock_now());
    }
    slot->frame.open = outcome->states[i] == SLOT_EMITTING || outcome->states[i] == SLOT_FREE ? false : slot->frame.open;
    slot->frame.open |= offered_again;
  }
  slot_ring_arrange(ring, outcome->states, outcome->emitting);
}

/* Frames that had neither a slot nor a fate were rests in readers' own memory. */
static void settle_rests(struct session *session, const struct sink_checkpointd *noted) {
  struct ledger *ledger = &session->account.now.ledger;
  uint64_t known = flow_in_flight(&session->flow);
  for (unsigned i = noted->known - noted->count; i < noted->known; i++) {
    known += noted->results[i].frame.open;
  }
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    known += ledger->fates[fate];
  }
  if (!session->sink->block && ledger->in > known) {
    ledger->fates[FATE_UNREAD] += ledger->in - known;
  }
}

/* Every slot that is to be EMITTING is one that the sink held, and the other way round. */
static bool list_emitting(const struct slot_ring *ring, const struct sink_checkpointd *noted, struct outcome *outcome) {
  unsigned emitting = 0, held = 0;
  for (unsigned i = 0; i < ring->count; i++) {
    emitting += outcome->states[i] == SLOT_EMITTING;
  }
  for (unsigned i = noted->known - noted->count; i < noted->known; i++) {
    unsigned slot = noted->results[i].slot;
    if (slot >= ring->count || outcome->states[slot] != SLOT_EMITTING) {
      return false;
    }
    outcome->emitting[held++] = slot;
  }
  return emitting == held;
}

bool session_reconcile(struct session *session, unsigned owed, const struct sink_checkpointd *noted) {
  struct slot_ring *ring = &session->flow.ring;
  struct outcome outcome = {0};
  for (unsigned i = 0; i < ring->count; i++) {
    if (!judge(&ring->slots[i], session->flow.seat, (owed & 1U << i) != 0, noted, &outcome)) {
      return false;
    }
  }
  if (!list_emitting(ring, noted, &outcome)) {
    return false;
  }
  carry_out(session, &outcome);
  settle_rests(session, noted);
  return true;
}

/* -- in ------------------------------------------------------------------------------------------------------------- */

enum session_revival session_revival(const struct session *session) { return session->revival; }

void session_lose_source(struct session *session) {
  receive_end(&session->receive, FATE_INVALID, clock_now());
  session->source.state = SOURCE_NONE;
}

/* The manifest may be behind the session's checkpoint: then the producer in it had ended, and another one has come since. */
static void revive_source(struct session *session, bool touched) {
  if (touched) {
    session->revival = SESSION_CUT;
  } else if (session->attached < session->attaches) {
    session->revival = SESSION_NEVER_BEGAN;
  } else if (session->attached > session->attaches) {
    session->revival = SESSION_FOLLOWED;
  } else {
    session->revival = session_has_source(session) ? SESSION_GOES_ON : SESSION_ENDED;
  }
  if (session->revival != SESSION_GOES_ON) {
    session_lose_source(session);
  }
  session->attached = session->attaches;
}

/* Settles results on the way to a client that is not there any more. */
static void abandon_client(struct session *session) {
  static const enum slot_state all_free[GPU_MAX_SLOTS] = {SLOT_FREE};
  int64_t now = clock_now();
  sink_abandon(session->sink, FATE_CLIENT_GONE, now);
  for (unsigned i = 0; i < session->flow.ring.count; i++) {
    struct slot *slot = &session->flow.ring.slots[i];
    if (slot->frame.open) {
      account_settle(&session->account, &slot->frame, FATE_CLIENT_GONE, now);
    }
    slot->owed = false;
  }
  slot_ring_arrange(&session->flow.ring, all_free, NULL);
}

/* With `reply`: what its client has taken goes along, or all of it goes. */
static bool take_client(struct session *session, const struct sink_checkpointd *noted) {
  if (!sink_take_noted(session->sink, noted, session_own_flow, session)) {
    return false;
  }
  bool goes_on = session->revival == SESSION_GOES_ON;
  if (goes_on && !session->client_gone) {
    session->attach_reader = reader_take_noted(session->sink, session->client_record);
    goes_on = session->attach_reader != NULL;
    session->client_record = goes_on ? record_name(session->attach_reader->record) : 0;
  }
  if (!goes_on && session->revival == SESSION_GOES_ON) {
    session->revival = SESSION_CUT;
    session_lose_source(session);
  }
  if (!goes_on) {
    session->client_gone = false;
    abandon_client(session);
  }
  return true;
}

/* False: the notes are not to be believed. */
static bool take_notes(struct session *session, uint64_t own, uint64_t sink) {
  struct codec codec;
  struct sink_checkpointd noted;
  bool is_there;
  unsigned owed = 0;
  enum record_state state = checkpoint_read(own, &codec, &is_there);
  if (is_there) {
    pass_note(session, &owed, &codec);
  }
  bool whole = is_there ? codec_is_at_end(&codec) : state == RECORD_EMPTY || state == RECORD_TOUCHED;
  codec_clear(&codec);
  if (!whole || !sink_read_note(sink, &noted) || !session_reconcile(session, owed, &noted)) {
    return false;
  }
  revive_source(session, state == RECORD_TOUCHED);
  return !session->is_reply || take_client(session, &noted);
}

bool session_take_live(struct session *session, struct codec *codec, struct failure *failure) {
  uint64_t own = 0, sink = 0;
  CODEC_PASS(codec, own);
  CODEC_PASS(codec, sink);
  CODEC_PASS(codec, session->attaches);
  CODEC_PASS(codec, session->client_record);
  session_pass_memory(session, codec, false);
  if (codec->broken || session->inputs.fd < 0 || session->outputs.fd < 0 || !take_notes(session, own, sink)) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "what a session of '%s' noted makes no sense",
                       session->setup.config->name);
  }
  return !session_is_unsound(session, failure) && session_begin_again(session, failure);
}
