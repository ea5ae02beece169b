/*
 * What a sink notes is never behind what its session may know of it: whoever finds both notes after a kill would take them for
 * damage.
 */
#include <check.h>
#include <string.h>

#include "daemon/frame/relay.h"
#include "daemon/sink/results.h"

enum { RESULT = 8, SLOTS = 4 };

static struct sink *sink;
static struct lane *lane;
static struct flow flow;
static struct account account;
static struct relay relay;
static struct runner session; /* never woken, since this thread never says that it sleeps */

static void no_wake(void *of) { (void)of; }

/* A sink to a file, which nobody writes: all that is told of results is told by the queue. */
static void set_up(void) {
  static struct config_pipeline config;
  static char name[] = "test", path[] = "/nowhere/results";
  struct frame_format format = format_image(PIXELS_GRAY, RESULT, 1);
  struct failure failure;
  lane = lane_new(0, &failure);
  ck_assert_ptr_nonnull(lane);
  ck_assert(checkpoint_open());
  config = (struct config_pipeline){.name = name, .sink = {.endpoint = CONFIG_FILE, .path = path}};
  const struct sink_setup setup = {.config = &config, .lane = lane, .output = &format};
  sink = sink_new(&setup, &failure);
  ck_assert_ptr_nonnull(sink);
  ck_assert_ptr_nonnull(sink->record);
  sink->runner.lane = lane; /* as if it had joined */
  slot_ring_init(&flow.ring, SLOTS);
  flow.account = &account;
  flow.wake = no_wake;
}

static void set_up_apart(void) {
  set_up();
  relay_init(&relay, &flow);
  spsc_init(&relay.back, lane, &session);
  sink_join_handoff(sink, &relay);
}

static void tear_down(void) {
  sink->runner.lane = NULL;
  sink_free(sink);
  lane_free(lane);
  checkpoint_look_away();
}

static void offer_all(void) {
  for (struct slot *slot = slot_oldest(&flow.ring, SLOT_FREE); slot; slot = slot_oldest(&flow.ring, SLOT_FREE)) {
    slot->frame = (struct frame){.sequence = account.now.ledger.in};
    account_open(&account, &slot->frame);
    for (enum slot_state state = SLOT_FILLING; state <= SLOT_EMITTING; state++) {
      slot_move(&flow.ring, slot, state);
    }
    sink_offer(sink, &flow, slot);
  }
  sink_take_handed_over(sink);
}

static void read_note(struct sink_checkpointd *noted) {
  ck_assert(checkpoint_look_into(checkpoint_fd()));
  ck_assert(sink_read_note(record_name(sink->record), noted));
  checkpoint_look_away();
}

/* Each result that the session was told of has its fate in the note. */
static void expect_noted(uint64_t sequence, bool open, enum fate fate) {
  struct sink_checkpointd noted;
  bool held;
  const struct slot slot = {.index = (unsigned)sequence, .frame.sequence = sequence};
  read_note(&noted);
  const struct noted_result *result = sink_checkpointd_find(&noted, 0, &slot, &held);
  ck_assert_ptr_nonnull(result);
  ck_assert(result->frame.open == open);
  ck_assert(open || result->frame.fate == fate);
}

/* The first result is being written, and keeps its slot; the others have their fate, and keep theirs behind it. */
static void discard_behind_the_first(void) {
  offer_all();
  sink->writing = true;
  sink_checkpoint(sink);
  if (flow.relay) {
    sink->operations->discard(sink, FATE_SHUTDOWN, 1); /* as on its lane */
  } else {
    sink_discard(sink, FATE_SHUTDOWN, 1);
  }
  expect_noted(0, true, FATE_SHUTDOWN);
  for (unsigned i = 1; i < SLOTS; i++) {
    expect_noted(i, false, FATE_SHUTDOWN);
  }
  sink->writing = false;
  sink->operations->discard(sink, FATE_SHUTDOWN, 1);
  expect_noted(0, false, FATE_SHUTDOWN);
}

START_TEST(what_was_discarded_is_noted) { discard_behind_the_first(); }
END_TEST

START_TEST(what_was_discarded_is_noted_before_another_lane_hears_of_it) {
  discard_behind_the_first();
  while (slot_count(&flow.ring, SLOT_FREE) < SLOTS) {
    ck_assert(relay_collect(&relay));
  }
}
END_TEST

/* A part of it was written and noted: nothing but its fate is new. */
START_TEST(a_fate_is_noted_before_another_lane_hears_of_it) {
  offer_all();
  sink_checkpoint(sink);
  ck_assert(!sink->unnoted);
  result_settle(sink_result(sink, sink->first), FATE_EMITTED, 1);
  expect_noted(0, false, FATE_EMITTED);
  sink->operations->discard(sink, FATE_SHUTDOWN, 1);
}
END_TEST

START_TEST(the_last_results_are_known_when_they_are_gone) {
  offer_all();
  sink_discard(sink, FATE_SHUTDOWN, 1);
  offer_all();
  struct sink_checkpointd noted;
  sink->unnoted = true;
  sink_checkpoint(sink);
  read_note(&noted);
  ck_assert_uint_eq(noted.first, SLOTS);
  ck_assert_uint_eq(noted.count, SLOTS);
  ck_assert_uint_eq(noted.known, SLOTS);
  sink_discard(sink, FATE_SHUTDOWN, 1);
  read_note(&noted);
  ck_assert_uint_eq(noted.first, 2 * SLOTS);
  ck_assert_uint_eq(noted.count, 0);
  ck_assert_uint_eq(noted.known, SLOTS);
  ck_assert_uint_eq(noted.results[0].frame.sequence, SLOTS);
}
END_TEST

Suite *checkpoint_suite(void);

Suite *checkpoint_suite(void) {
  Suite *suite = suite_create("checkpoint");
  TCase *here = tcase_create("on its session's lane"), *apart = tcase_create("on another lane");
  tcase_add_checked_fixture(here, set_up, tear_down);
  tcase_add_test(here, what_was_discarded_is_noted);
  tcase_add_test(here, the_last_results_are_known_when_they_are_gone);
  suite_add_tcase(suite, here);
  tcase_add_checked_fixture(apart, set_up_apart, tear_down);
  tcase_add_test(apart, what_was_discarded_is_noted_before_another_lane_hears_of_it);
  tcase_add_test(apart, a_fate_is_noted_before_another_lane_hears_of_it);
  suite_add_tcase(suite, apart);
  return suite;
}
