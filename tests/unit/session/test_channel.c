/*
 * Shared memory from submission to completion, one thing at a time: every lie alone, what is held and called invalid, whom the
 * lane rings for, and what it believes of a process before it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/runner.h"
#include "tests/unit/session/channel_rig.h"

static uint64_t fate_of(enum fate fate) { return rig.account.now.ledger.fates[fate]; }

static void submit_plainly(uint32_t slot) { submit(slot, &(struct native_frame){.sequence = 1}); }

/* -- lies ---------------------------------------------------------------------------------------------------------------- */

static void submit_none_such(void) { submit_plainly(SLOTS); }
static void submit_far_away(void) { submit_plainly(UINT32_MAX); }

static void submit_twice(void) {
  submit_plainly(0);
  submit_plainly(0);
}

static void submit_what_it_was_told(void) {
  submit_plainly(0);
  take();
  run_one(false);
  give();
  submit_plainly(0); /* without having taken the completion */
}

static void submit_too_many(void) { atomic_store(&rig.control.client.submitted, NATIVE_RING + 1); }
static void go_back(void) { atomic_store(&rig.control.client.submitted, UINT32_MAX); }
static void take_nothing(void) { atomic_store(&rig.control.client.taken, 1); }
static void take_backwards(void) { atomic_store(&rig.control.client.taken, UINT32_MAX); }

static void take_more(void) {
  submit_plainly(0);
  take();
  run_one(false);
  give();
  atomic_store(&rig.control.client.taken, 2);
}

static void say_more(void) {
  submit_plainly(0);
  rig.control.submissions[0].zero = 1;
}

static void say_more_of_a_frame(void) { submit(0, &(struct native_frame){.zero = 1}); }

static void (*const lies[])(void) = {submit_none_such, submit_far_away, submit_twice,       submit_what_it_was_told,
                                     submit_too_many,  go_back,         take_nothing,       take_backwards,
                                     take_more,        say_more,        say_more_of_a_frame};

START_TEST(a_lie_breaks_the_channel_and_leaves_the_books_right) {
  set_up(true, 0);
  lies[_i]();
  give();
  take();
  ck_assert(is_broken());
  while (run_one(false)) {
  }
  give();
  completions_abandon(&rig.channel, FATE_CLIENT_GONE, rig.now);
  ck_assert_uint_eq(flow_in_flight(&rig.flow), 0);
  ck_assert_uint_eq(slot_count(&rig.flow.ring, SLOT_FREE), SLOTS);
  ck_assert_uint_eq(rig.account.now.ledger.in, fate_of(FATE_CLIENT_GONE) + fate_of(FATE_EMITTED));
  tear_down();
}
END_TEST

/* It takes a result and submits the slot again after the lane has looked at what it took. */
START_TEST(a_slot_that_was_just_taken_waits_for_the_next_turn) {
  set_up(true, 0);
  submit_what_it_was_told();
  atomic_store(&rig.control.client.taken, 1);
  ck_assert(!take());
  ck_assert(!is_broken());
  ck_assert(!source_may_sleep(&rig.source));
  ck_assert(give());
  ck_assert(take());
  ck_assert_uint_eq(rig.account.now.ledger.in, 2);
  ck_assert_uint_eq(fate_of(FATE_EMITTED), 1);
  tear_down();
}
END_TEST

/* What the client writes to the daemon's own words changes nothing. */
START_TEST(the_daemons_words_are_never_read_back) {
  set_up(true, 0);
  submit_plainly(3);
  ck_assert(take());
  run_one(false);
  atomic_store(&rig.control.daemon.completed, 77);
  memset(rig.control.completions, 0xFF, sizeof rig.control.completions);
  ck_assert(give());
  ck_assert_uint_eq(atomic_load(&rig.control.daemon.completed), 1);
  ck_assert_uint_eq(rig.control.completions[0].slot, 3);
  tear_down();
}
END_TEST

/* -- holding and stamps ---------------------------------------------------------------------------------------------------- */

START_TEST(while_held_submissions_wait) {
  set_up(true, 0);
  rig.receive.held = true;
  submit_plainly(0);
  ck_assert(!take());
  ck_assert_uint_eq(rig.account.now.ledger.in, 0);
  ck_assert(source_may_sleep(&rig.source));
  rig.receive.held = false;
  ck_assert(!source_may_sleep(&rig.source));
  ck_assert(take());
  ck_assert_uint_eq(rig.account.now.ledger.in, 1);
  tear_down();
}
END_TEST

START_TEST(stamps_that_make_no_sense_are_invalid) {
  const struct native_frame wrong[] = {
      {.timestamp = INT64_MAX}, {.timestamp = -1}, {.timestamp = INT64_MIN}, {.deadline = -1}, {.deadline = INT64_MIN}};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    set_up(true, 0);
    submit(1, &wrong[i]);
    ck_assert(take());
    ck_assert(give());
    ck_assert_uint_eq(rig.control.completions[0].fate, FATE_INVALID);
    ck_assert_uint_eq(fate_of(FATE_INVALID), 1);
    tear_down();
  }
}
END_TEST

/* -- doorbells ------------------------------------------------------------------------------------------------------------- */

static unsigned heard(void) {
  unsigned char bytes[64];
  ssize_t got = recv(rig.ends[1], bytes, sizeof bytes, MSG_DONTWAIT);
  return got > 0 ? (unsigned)got : 0;
}

static void complete_one(uint32_t slot) {
  submit_plainly(slot);
  ck_assert(take());
  run_one(false);
  ck_assert(give());
}

START_TEST(only_who_sleeps_is_rung_and_once) {
  set_up(true, 0);
  complete_one(0);
  ck_assert_uint_eq(heard(), 0);
  atomic_store(&rig.control.client.sleeps, 1);
  complete_one(1);
  ck_assert_uint_eq(heard(), 1);
  ck_assert_uint_eq(atomic_load(&rig.control.client.sleeps), 0);
  complete_one(2);
  ck_assert_uint_eq(heard(), 0);
  tear_down();
}
END_TEST

START_TEST(who_goes_to_sleep_while_it_is_told_is_rung_in_the_same_turn) {
  set_up(true, 0);
  complete_one(0);
  atomic_store(&rig.control.client.sleeps, 1); /* having looked before that came */
  completions_ring(&rig.channel);
  ck_assert_uint_eq(heard(), 1);
  atomic_store(&rig.control.client.sleeps, 1);
  completions_ring(&rig.channel); /* nothing has come since */
  ck_assert(!give());
  ck_assert_uint_eq(heard(), 0);
  tear_down();
}
END_TEST

START_TEST(the_daemon_says_when_it_sleeps) {
  set_up(true, 0);
  ck_assert(source_may_sleep(&rig.source));
  ck_assert_uint_eq(atomic_load(&rig.control.daemon.sleeps), 1);
  ck_assert(!take());
  ck_assert_uint_eq(atomic_load(&rig.control.daemon.sleeps), 0);
  submit_plainly(0);
  ck_assert(!source_may_sleep(&rig.source)); /* it came after the last look */
  tear_down();
}
END_TEST

/* A client that never reads and always sleeps: its connection fills up, and nobody waits for it. */
START_TEST(a_full_connection_stops_nothing) {
  set_up(true, 0);
  for (unsigned i = 0; i < 100000; i++) {
    atomic_store(&rig.control.client.sleeps, 1);
    complete_one(i % SLOTS);
    atomic_store(&rig.control.client.taken, i + 1);
  }
  tear_down();
}
END_TEST

/* -- of a process before this one ------------------------------------------------------------------------------------------ */

static bool is_believed(uint32_t more_submitted) {
  struct channel other = {0}, left = rig.channel;
  left.submitted += more_submitted;
  return channel_adopt(&other, &left, &rig.flow, true) && other.submitted == left.submitted;
}

START_TEST(cursors_that_contradict_the_owners_are_not_believed) {
  set_up(true, 0U - 1U);
  submit_plainly(1);
  submit_plainly(2);
  ck_assert(take());
  run_one(false);
  ck_assert(give());
  ck_assert(is_believed(0));
  ck_assert(!is_believed(1));
  ck_assert(!is_believed(UINT32_MAX));
  rig.channel.owners[1] = CHANNEL_COMPLETED + 1;
  ck_assert(!is_believed(0));
  tear_down();
}
END_TEST

Suite *channel_suite(void);

Suite *channel_suite(void) {
  Suite *suite = suite_create("channel");
  TCase *tests = tcase_create("all");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, a_lie_breaks_the_channel_and_leaves_the_books_right, 0, sizeof lies / sizeof *lies);
  tcase_add_test(tests, a_slot_that_was_just_taken_waits_for_the_next_turn);
  tcase_add_test(tests, the_daemons_words_are_never_read_back);
  tcase_add_test(tests, while_held_submissions_wait);
  tcase_add_test(tests, stamps_that_make_no_sense_are_invalid);
  tcase_add_test(tests, only_who_sleeps_is_rung_and_once);
  tcase_add_test(tests, who_goes_to_sleep_while_it_is_told_is_rung_in_the_same_turn);
  tcase_add_test(tests, the_daemon_says_when_it_sleeps);
  tcase_add_test(tests, a_full_connection_stops_nothing);
  tcase_add_test(tests, cursors_that_contradict_the_owners_are_not_believed);
  suite_add_tcase(suite, tests);
  return suite;
}
