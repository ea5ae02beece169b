/*
 * What a session and its sink noted, each at a moment of its own before the process was killed, put together: by hand for every
 * pair of things that they may say of one slot, and at random for all slots at once, where every frame must have one place.
 */
#include <check.h>
#include <string.h>

#include "daemon/session/private.h"
#include "tests/unit/runner.h"

enum { SEAT = 3, PRODUCER = 2, FIRST = 500 /* sequence of the oldest frame */, BYTES = 640, RUNS = 5000 };

static struct session session;
static struct sink sink;
static struct sink_checkpointd noted;
static unsigned owed;
static uint64_t next; /* sequence of the next frame that is put */

static void begin(unsigned slots, bool block) {
  memset(&session, 0, sizeof session);
  memset(&sink, 0, sizeof sink);
  memset(&noted, 0, sizeof noted);
  sink.block = block;
  session.sink = &sink;
  session.flow.seat = SEAT;
  session.flow.output_bytes = BYTES;
  session.flow.account = &session.account;
  slot_ring_init(&session.flow.ring, slots);
  session.account.acks.producer = PRODUCER;
  session.account.acks.next = FIRST;
  owed = 0;
  next = FIRST;
}

/* The session noted this slot so, after those that were put before. Of one that is EMITTING it had the fate, or not. */
static struct slot *put(unsigned index, enum slot_state state, bool is_owed) {
  struct slot *slot = &session.flow.ring.slots[index];
  if (state == SLOT_FREE) {
    return slot;
  }
  slot->frame = (struct frame){.sequence = next++, .producer = PRODUCER, .seen = 1, .began = 1};
  account_open(&session.account, &slot->frame);
  for (enum slot_state step = SLOT_FILLING; step <= state; step++) {
    slot_move(&session.flow.ring, slot, step);
  }
  if (state == SLOT_EMITTING) {
    slot->frame.open = false;
    slot->owed = is_owed;
    owed |= is_owed ? 1U << index : 0;
    session.account.now.ledger.fates[FATE_EMITTED] += !is_owed;
  }
  return slot;
}

enum sink_knows { NOTHING, LET_GO, HELD_CLOSED, HELD_OPEN };

/* The sink noted this of the frame in the slot, after those that were told before. */
static struct noted_result *tell(const struct slot *slot, enum sink_knows knows, enum fate fate) {
  if (knows == NOTHING) {
    return NULL;
  }
  struct noted_result *result = &noted.results[noted.known++];
  noted.count += knows != LET_GO;
  *result = (struct noted_result){.seat = SEAT, .slot = slot->index, .frame = slot->frame};
  result->frame.open = knows == HELD_OPEN;
  result->frame.fate = fate;
  return result;
}

static uint64_t fate_count(enum fate fate) { return session.account.now.ledger.fates[fate]; }

/* Frames that came have their fate, or are open in a slot or at the sink. */
static void require_balance(void) {
  uint64_t there = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    there += session.account.now.ledger.fates[fate];
  }
  for (unsigned i = 0; i < session.flow.ring.count; i++) {
    there += session.flow.ring.slots[i].frame.open;
  }
  for (unsigned i = noted.known - noted.count; i < noted.known; i++) {
    there += noted.results[i].frame.open;
  }
  require(there == session.account.now.ledger.in, "%llu frames of %llu", (unsigned long long)there,
          (unsigned long long)session.account.now.ledger.in);
}

/* -- one slot, by hand --------------------------------------------------------------------------------------------------- */

static const struct pair {
  enum slot_state state;
  bool owed;
  enum sink_knows knows;
  bool agree;
  enum slot_state becomes;
  bool open;        /* in its slot */
  uint64_t emitted; /* in the end */
} pairs[] = {
    {SLOT_FREE, false, NOTHING, true, SLOT_FREE, false, 0},
    {SLOT_FILLING, false, NOTHING, true, SLOT_FILLING, true, 0},
    {SLOT_READY, false, NOTHING, true, SLOT_READY, true, 0},
    {SLOT_RUNNING, false, NOTHING, true, SLOT_RUNNING, true, 0},
    {SLOT_DONE, false, NOTHING, true, SLOT_DONE, true, 0},
    /* it was offered, and the sink did not know of it yet */
    {SLOT_EMITTING, true, NOTHING, true, SLOT_DONE, true, 0},
    /* the session had its fate from the sink, which must have known it */
    {SLOT_EMITTING, false, NOTHING, false, SLOT_FREE, false, 0},
    /* the session noted nothing since it was offered */
    {SLOT_READY, false, HELD_OPEN, true, SLOT_EMITTING, false, 0},
    {SLOT_DONE, false, HELD_OPEN, true, SLOT_EMITTING, false, 0},
    {SLOT_EMITTING, true, HELD_OPEN, true, SLOT_EMITTING, false, 0},
    {SLOT_EMITTING, false, HELD_OPEN, false, SLOT_FREE, false, 0},
    /* its fate is counted once */
    {SLOT_READY, false, HELD_CLOSED, true, SLOT_EMITTING, false, 1},
    {SLOT_DONE, false, HELD_CLOSED, true, SLOT_EMITTING, false, 1},
    {SLOT_EMITTING, true, HELD_CLOSED, true, SLOT_EMITTING, false, 1},
    {SLOT_EMITTING, false, HELD_CLOSED, true, SLOT_EMITTING, false, 1},
    /* and it is over */
    {SLOT_READY, false, LET_GO, true, SLOT_FREE, false, 1},
    {SLOT_DONE, false, LET_GO, true, SLOT_FREE, false, 1},
    {SLOT_EMITTING, true, LET_GO, true, SLOT_FREE, false, 1},
    {SLOT_EMITTING, false, LET_GO, true, SLOT_FREE, false, 1},
};
enum { PAIRS = sizeof pairs / sizeof pairs[0] };

static bool is_queued(const struct slot *slot) {
  bool queued = false;
  for (unsigned i = 0; i < slot_count(&session.flow.ring, slot->state); i++) {
    queued = queued || slot_at(&session.flow.ring, slot->state, i) == slot;
  }
  return queued;
}

START_TEST(what_both_say_of_a_slot) {
  const struct pair *pair = &pairs[_i];
  begin(2, true);
  struct slot *slot = put(1, pair->state, pair->owed);
  tell(slot, pair->knows, FATE_EMITTED);
  ck_assert_int_eq(session_reconcile(&session, owed, &noted), pair->agree);
  if (!pair->agree) {
    return;
  }
  ck_assert_str_eq(slot_state_names[slot->state], slot_state_names[pair->becomes]);
  ck_assert(is_queued(slot));
  ck_assert_int_eq(slot->frame.open, pair->open);
  ck_assert_uint_eq(fate_count(FATE_EMITTED), pair->emitted);
  bool acks_now = pair->emitted > 0 && !(pair->state == SLOT_EMITTING && !pair->owed);
  ck_assert_uint_eq(session.account.now.ledger.out_bytes, acks_now ? BYTES : 0);
  require_balance();
}
END_TEST

/* -- what else they may say ---------------------------------------------------------------------------------------------- */

START_TEST(a_fate_that_the_sink_noted_is_the_frames) {
  begin(2, false);
  tell(put(0, SLOT_DONE, false), LET_GO, FATE_UNREAD);
  ck_assert(session_reconcile(&session, owed, &noted));
  ck_assert_uint_eq(fate_count(FATE_UNREAD), 1);
  ck_assert_uint_eq(session.account.now.ledger.out_bytes, 0);
  require_balance();
}
END_TEST

/* Its rest went to readers' own memory, which is gone. */
START_TEST(a_frame_whose_rest_was_moved_is_unread) {
  begin(2, false);
  tell(put(0, SLOT_EMITTING, true), LET_GO, FATE_EMITTED)->moved = true;
  ck_assert(session_reconcile(&session, owed, &noted));
  ck_assert_uint_eq(fate_count(FATE_UNREAD), 1);
  ck_assert_uint_eq(fate_count(FATE_EMITTED), 0);
  require_balance();
}
END_TEST

/* Frames that neither has any more were such rests. */
START_TEST(frames_that_nobody_has_are_unread) {
  begin(2, false);
  put(0, SLOT_READY, false);
  session.account.now.ledger.in += 3;
  ck_assert(session_reconcile(&session, owed, &noted));
  ck_assert_uint_eq(fate_count(FATE_UNREAD), 3);
  require_balance();
}
END_TEST

START_TEST(another_frame_in_the_same_slot_is_another_one) {
  static const enum { SEQUENCE, OWNER, PLACE } differences[] = {SEQUENCE, OWNER, PLACE};
  for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++) {
    begin(2, true);
    struct slot *slot = put(0, SLOT_READY, false);
    struct noted_result *result = tell(slot, LET_GO, FATE_EMITTED);
    result->frame.sequence -= differences[i] == SEQUENCE;
    result->frame.producer -= differences[i] == OWNER;
    result->seat += differences[i] == PLACE;
    ck_assert(session_reconcile(&session, owed, &noted));
    ck_assert_int_eq(slot->state, SLOT_READY);
    ck_assert_uint_eq(fate_count(FATE_EMITTED), 0);
  }
}
END_TEST

/* The slot was used again: what the sink noted last of it counts. */
START_TEST(the_later_of_two_frames_in_a_slot_counts) {
  begin(1, true);
  struct slot *slot = put(0, SLOT_DONE, false);
  struct slot earlier = *slot;
  earlier.frame.sequence--;
  tell(&earlier, LET_GO, FATE_EMITTED);
  tell(slot, HELD_OPEN, FATE_EMITTED);
  ck_assert(session_reconcile(&session, owed, &noted));
  ck_assert_int_eq(slot->state, SLOT_EMITTING);
  ck_assert_uint_eq(fate_count(FATE_EMITTED), 0);
  require_balance();
}
END_TEST

START_TEST(what_the_sink_holds_lies_in_a_slot) {
  begin(2, true);
  struct noted_result *result = tell(put(0, SLOT_DONE, false), HELD_OPEN, FATE_EMITTED);
  result->slot = 1; /* which is free */
  ck_assert(!session_reconcile(&session, owed, &noted));
  begin(2, true);
  tell(put(0, SLOT_DONE, false), HELD_OPEN, FATE_EMITTED)->slot = 2; /* which is none */
  ck_assert(!session_reconcile(&session, owed, &noted));
  begin(2, true);
  const struct slot *slot = put(0, SLOT_DONE, false);
  tell(slot, HELD_OPEN, FATE_EMITTED);
  tell(slot, HELD_OPEN, FATE_EMITTED); /* twice */
  ck_assert(!session_reconcile(&session, owed, &noted));
}
END_TEST

/* -- all slots, at random ------------------------------------------------------------------------------------------------ */

static uint64_t chance_state;

static unsigned chance(unsigned below) {
  chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(chance_state >> 33) % below;
}

/* Which pairs agree, in the order of the road: an older frame is never behind a younger one. */
static const struct {
  enum slot_state state;
  bool owed;
  enum sink_knows knows;
} flow[] = {
    {SLOT_EMITTING, false, LET_GO},     {SLOT_EMITTING, true, LET_GO},    {SLOT_EMITTING, false, HELD_CLOSED},
    {SLOT_EMITTING, true, HELD_CLOSED}, {SLOT_EMITTING, true, HELD_OPEN}, {SLOT_DONE, false, HELD_OPEN},
    {SLOT_READY, false, HELD_OPEN},     {SLOT_READY, false, NOTHING},     {SLOT_FILLING, false, NOTHING},
};
enum { PLACES = sizeof flow / sizeof flow[0] };

/* Every slot once, in any order. */
static void shuffle(unsigned *slots, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    unsigned other = chance(i + 1);
    slots[i] = slots[other];
    slots[other] = i;
  }
}

static void require_order(void) {
  uint64_t last = 0;
  for (enum slot_state state = SLOT_EMITTING; state >= SLOT_FILLING; state--) {
    for (unsigned i = 0; i < slot_count(&session.flow.ring, state); i++) {
      uint64_t sequence = slot_at(&session.flow.ring, state, i)->frame.sequence;
      require(sequence > last, "frame %llu stands behind frame %llu", (unsigned long long)sequence, (unsigned long long)last);
      last = sequence;
    }
  }
}

START_TEST(every_frame_has_one_place) {
  for (unsigned run = 0; run < RUNS; run++) {
    unsigned slots[GPU_MAX_SLOTS] = {0}, count = 1 + chance(GPU_MAX_SLOTS), at = 0, over = 0, held = 0;
    chance_state += run;
    begin(count, chance(2) == 0);
    shuffle(slots, count);
    for (unsigned i = 0; i < count && at < PLACES; i++, at += chance(3)) {
      if (flow[at].state != SLOT_FILLING || slot_count(&session.flow.ring, SLOT_FILLING) == 0) {
        tell(put(slots[i], flow[at].state, flow[at].owed), flow[at].knows, FATE_EMITTED);
        over += flow[at].knows == LET_GO || flow[at].knows == HELD_CLOSED;
        held += flow[at].knows == HELD_CLOSED || flow[at].knows == HELD_OPEN;
      }
    }
    require(session_reconcile(&session, owed, &noted), "run %u", run);
    require_balance();
    require_order();
    require(fate_count(FATE_EMITTED) == over && fate_count(FATE_UNREAD) == 0, "run %u: fates", run);
    require(slot_count(&session.flow.ring, SLOT_EMITTING) == held, "run %u: held", run);
  }
}
END_TEST

Suite *checkpoint_suite(void);
Suite *checkpoint_suite(void) {
  Suite *suite = suite_create("checkpoint");
  TCase *cases = tcase_create("session_checkpoint");
  tcase_set_timeout(cases, 60);
  tcase_add_loop_test(cases, what_both_say_of_a_slot, 0, PAIRS);
  tcase_add_test(cases, a_fate_that_the_sink_noted_is_the_frames);
  tcase_add_test(cases, a_frame_whose_rest_was_moved_is_unread);
  tcase_add_test(cases, frames_that_nobody_has_are_unread);
  tcase_add_test(cases, another_frame_in_the_same_slot_is_another_one);
  tcase_add_test(cases, the_later_of_two_frames_in_a_slot_counts);
  tcase_add_test(cases, what_the_sink_holds_lies_in_a_slot);
  tcase_add_test(cases, every_frame_has_one_place);
  suite_add_tcase(suite, cases);
  return suite;
}
