/*
 * A session through a codec, for the next image of the program: its books, its slots with their frames, where its producer is
 * in its bytes and its client in the rings. The memory goes along by descriptor, so that no byte of a frame is copied. Frames
 * on the device, which is lost with the process, are run again; all others are where they were. While this runs no lane does.
 */
#include <string.h>

#include "daemon/session/private.h"

/* -- before it is put ----------------------------------------------------------------------------------------------- */

unsigned session_running(const struct session *session) { return slot_count(&session->flow.ring, SLOT_RUNNING); }

void session_suspect(struct session *session, bool failed, bool alone) {
  for (unsigned i = 0; i < session_running(session); i++) {
    struct frame *frame = &slot_at(&session->flow.ring, SLOT_RUNNING, i)->frame;
    frame->again = true;
    frame->suspect |= failed;
    frame->failures += failed && alone;
  }
}

/* Whatever is under way between the session and a sink on another lane goes to one of the two. */
static void empty_relay(struct session *session) {
  if (session->flow.relay) {
    sink_take_handed_over(session->sink);
    relay_collect(session->flow.relay);
  }
}

void session_put(struct session *session, struct codec *codec, bool memory) {
  empty_relay(session);
  session_pass_memory(session, codec, memory);
  session_pass_books(session, codec);
  session_pass_histograms(&session->account, codec);
}

/* -- after it was taken ---------------------------------------------------------------------------------------------- */

bool session_take(struct session *session, struct codec *codec, struct failure *failure) {
  if (codec->live) {
    return session_take_live(session, codec, failure);
  }
  session_pass_memory(session, codec, false);
  session_pass_books(session, codec);
  session_pass_histograms(&session->account, codec);
  if (codec->broken) {
    return failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "what was handed over ends within a session of '%s'",
                       session->setup.config->name);
  }
  session->attached = session->attaches = session_has_source(session) ? 1 : 0;
  session->client_record = session->attach_reader ? record_name(session->attach_reader->record) : 0;
  return !session_is_unsound(session, failure) && session_begin_again(session, failure);
}

/* Whether each slot in EMITTING is the sink's or the client's. */
static bool is_complete(const struct session *session) {
  bool complete = true;
  for (unsigned i = 0; i < session->flow.ring.count; i++) {
    const struct slot *slot = &session->flow.ring.slots[i];
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
  ledger->in_flight = flow_in_flight(&session->flow);
  account_publish(&session->account);
  session->flow.unnoted = true;
  session_checkpoint(session);
  /* Of other results the reader was looked at as it was taken; how long a line is shows only now. */
  bool is_in_place = !session->attach_reader || !session->sink->lines || reader_is_in_place(session->attach_reader);
  return (is_complete(session) && is_in_place && ledger->in == settled + ledger->in_flight) ||
         failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "the frames that were handed over of a session of '%s' do not add up",
                     session->setup.config->name);
}

unsigned session_spared(const struct session *session) {
  unsigned spared = 0;
  for (unsigned i = 0; i < session->flow.ring.count; i++) {
    enum slot_state state = session->flow.ring.slots[i].state;
    spared |= state == SLOT_DONE || state == SLOT_EMITTING ? 1U << i : 0;
  }
  return spared;
}

bool session_may_share(const struct session *session) { return session->control.fd >= 0; }

bool session_shares(const struct session *session) { return session->shares; }

unsigned session_quarantined(const struct session *session, uint64_t *last) {
  *last = session->quarantined > 0 ? session->last_quarantined : *last;
  return session->quarantined;
}

struct flow *session_road(struct session *session) {
  return &session->flow;
}
