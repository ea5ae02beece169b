/*
 * The lane's end of shared memory: beside a model through a hundred thousand random steps of an honest client, with
 * cursors that wrap around; and every lie alone.
 *
 * The test is the client, the device and the lane's clock. The model knows of each slot whose it is and which frame is in
 * it; every frame that was submitted must come back once, with its fate, those with a result in their order.
 */
#include "daemon/channel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/runner.h"

enum { SLOTS = 5, STEPS_A_RUN = 2000, RUNS = 50 };

static struct native_control control;
static struct road road;
static struct account account;
static struct fill fill;
static struct channel channel;
static int ends[2]; /* of the connection: the daemon's and the client's */
static int64_t now;

static uint64_t chance_state;

static unsigned chance(unsigned below) {
  chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(chance_state >> 33) % below;
}

static void set_up(bool replies, uint32_t cursors) {
  struct frame_format format = format_image(PIXELS_GRAY, 8, 1);
  memset(&control, 0, sizeof control);
  memset(&account, 0, sizeof account);
  memset(&road, 0, sizeof road);
  slot_ring_init(&road.ring, SLOTS);
  road.account = &account;
  road.input_bytes = road.output_bytes = 8;
  road.depth = SLOTS;
  fill_init(&fill, &road, CONFIG_PROTOCOL_NATIVE, &format, NULL);
  fill_start(&fill);
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  channel_open(&channel, &control, &road, &fill, ends[0], replies);
  channel.submitted = channel.completed = channel.taken = cursors;
  atomic_store(&control.client.submitted, cursors);
  atomic_store(&control.client.taken, cursors);
  atomic_store(&control.daemon.completed, cursors);
  now = 1000;
}

static void tear_down(void) {
  close(ends[0]);
  close(ends[1]);
}

static uint64_t fate_of(enum fate fate) { return account.now.ledger.fates[fate]; }

static void submit(uint32_t slot, const struct native_frame *frame) {
  uint32_t at = atomic_load(&control.client.submitted);
  control.submissions[at % NATIVE_RING] = (struct native_submission){.slot = slot, .frame = *frame};
  atomic_store(&control.client.submitted, at + 1);
}

static void submit_plainly(uint32_t slot) { submit(slot, &(struct native_frame){.sequence = 1}); }

/* The device: the oldest frame that waits goes through, or is too late. */
static bool run_one(bool late) {
  struct slot *slot = slot_oldest(&road.ring, SLOT_READY);
  if (slot && late) {
    road_drop(&road, slot, FATE_LATE, now);
  } else if (slot) {
    slot_move(&road.ring, slot, SLOT_RUNNING);
    slot_move(&road.ring, slot, SLOT_DONE);
  }
  return slot != NULL;
}

/* Where results go elsewhere: they went. */
static void emit_one(void) {
  struct slot *slot = slot_oldest(&road.ring, SLOT_DONE);
  if (slot) {
    slot_move(&road.ring, slot, SLOT_EMITTING);
    road_drop(&road, slot, FATE_EMITTED, now);
  }
}

/* -- the model ------------------------------------------------------------------------------------------------------------ */

static struct {
  bool mine;
  uint64_t sequence;
  bool invalid;
} model[SLOTS];
static uint64_t submitted, completed, last_result;
static uint32_t taken;

static void model_submit(void) {
  unsigned slot = chance(SLOTS);
  if (!model[slot].mine || taken != atomic_load(&control.daemon.completed)) {
    return; /* an honest client knows what it was told before it submits */
  }
  model[slot].mine = false;
  model[slot].sequence = ++submitted;
  model[slot].invalid = chance(8) == 0;
  submit(slot, &(struct native_frame){.sequence = submitted, .timestamp = model[slot].invalid ? INT64_MAX : 0});
}

static void model_take(void) {
  while (taken != atomic_load(&control.daemon.completed)) {
    const struct native_completion *completion = &control.completions[taken % NATIVE_RING];
    require(completion->slot < SLOTS, "there is no slot %u", completion->slot);
    require(!model[completion->slot].mine, "slot %u comes back twice", completion->slot);
    require(completion->result.sequence == model[completion->slot].sequence, "slot %u has another frame", completion->slot);
    require((completion->fate == FATE_INVALID) == model[completion->slot].invalid, "slot %u has another fate",
            completion->slot);
    if (completion->fate == FATE_EMITTED) {
      require(completion->result.sequence > last_result, "a result comes after a later one");
      last_result = completion->result.sequence;
    }
    model[completion->slot].mine = true;
    completed++;
    taken++;
    if (chance(3) == 0) {
      break;
    }
  }
  atomic_store(&control.client.taken, taken);
}

static void random_step(bool replies) {
  now++;
  switch (chance(6)) {
  case 0:
  case 1:
    model_submit();
    break;
  case 2:
    require(channel_take(&channel, now) != CHANNEL_BROKEN, "an honest client is called a liar: %s", fill.problem);
    break;
  case 3:
    run_one(chance(5) == 0);
    break;
  case 4:
    if (!replies) {
      emit_one();
    }
    channel_give(&channel, now);
    break;
  default:
    model_take();
    break;
  }
  uint64_t settled = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += account.now.ledger.fates[fate];
  }
  require(account.now.ledger.in == settled + road_in_flight(&road), "the ledger does not balance");
}

static void finish(bool replies) {
  for (unsigned turn = 0; turn < 4 * SLOTS; turn++) {
    require(channel_take(&channel, now) != CHANNEL_BROKEN, "an honest client is called a liar: %s", fill.problem);
    run_one(false);
    if (!replies) {
      emit_one();
    }
    channel_give(&channel, now);
    model_take();
  }
  channel_take(&channel, now);
  ck_assert_uint_eq(completed, submitted);
  ck_assert_uint_eq(account.now.ledger.in, submitted);
  ck_assert_uint_eq(road_in_flight(&road), 0);
  ck_assert_uint_eq(slot_count(&road.ring, SLOT_FREE), SLOTS);
  ck_assert(!channel_is_owed(&channel));
}

START_TEST(every_submission_comes_back_once) {
  bool replies = _i != 0;
  for (unsigned run = 0; run < RUNS; run++) {
    uint32_t cursors = run % 2 == 0 ? 0 : 0U - 50U; /* they wrap around on the way */
    chance_state = run + 1;
    set_up(replies, cursors);
    road.spin = run % 3 == 0; /* then a client's answer is waited for, which never comes here */
    memset(model, 0, sizeof model);
    for (unsigned i = 0; i < SLOTS; i++) {
      model[i].mine = true;
    }
    submitted = completed = last_result = 0;
    taken = cursors;
    for (unsigned step = 0; step < STEPS_A_RUN; step++) {
      random_step(replies);
    }
    finish(replies);
    tear_down();
  }
}
END_TEST

/* -- lies ---------------------------------------------------------------------------------------------------------------- */

static void submit_none_such(void) { submit_plainly(SLOTS); }
static void submit_far_away(void) { submit_plainly(UINT32_MAX); }

static void submit_twice(void) {
  submit_plainly(0);
  submit_plainly(0);
}

static void submit_what_it_was_told(void) {
  submit_plainly(0);
  channel_take(&channel, now);
  run_one(false);
  channel_give(&channel, now);
  submit_plainly(0); /* without having taken the completion */
}

static void submit_too_many(void) { atomic_store(&control.client.submitted, NATIVE_RING + 1); }
static void go_back(void) { atomic_store(&control.client.submitted, UINT32_MAX); }
static void take_nothing(void) { atomic_store(&control.client.taken, 1); }
static void take_backwards(void) { atomic_store(&control.client.taken, UINT32_MAX); }

static void take_more(void) {
  submit_plainly(0);
  channel_take(&channel, now);
  run_one(false);
  channel_give(&channel, now);
  atomic_store(&control.client.taken, 2);
}

static void say_more(void) {
  submit_plainly(0);
  control.submissions[0].zero = 1;
}

static void say_more_of_a_frame(void) { submit(0, &(struct native_frame){.zero = 1}); }

static void (*const lies[])(void) = {submit_none_such, submit_far_away, submit_twice,       submit_what_it_was_told,
                                     submit_too_many,  go_back,         take_nothing,       take_backwards,
                                     take_more,        say_more,        say_more_of_a_frame};

START_TEST(a_lie_breaks_the_channel_and_leaves_the_books_right) {
  set_up(true, 0);
  lies[_i]();
  ck_assert_int_eq(channel_take(&channel, now), CHANNEL_BROKEN);
  ck_assert_int_ne(fill.problem[0], '\0');
  while (run_one(false)) {
  }
  channel_give(&channel, now);
  channel_abandon(&channel, FATE_CLIENT_GONE, now);
  ck_assert_uint_eq(road_in_flight(&road), 0);
  ck_assert_uint_eq(slot_count(&road.ring, SLOT_FREE), SLOTS);
  ck_assert_uint_eq(account.now.ledger.in, fate_of(FATE_CLIENT_GONE) + fate_of(FATE_EMITTED));
  tear_down();
}
END_TEST

/* What the client writes to the daemon's own words changes nothing. */
START_TEST(the_daemons_words_are_never_read_back) {
  set_up(true, 0);
  submit_plainly(3);
  ck_assert_int_eq(channel_take(&channel, now), CHANNEL_MOVED);
  run_one(false);
  atomic_store(&control.daemon.completed, 77);
  memset(control.completions, 0xFF, sizeof control.completions);
  ck_assert(channel_give(&channel, now));
  ck_assert_uint_eq(atomic_load(&control.daemon.completed), 1);
  ck_assert_uint_eq(control.completions[0].slot, 3);
  tear_down();
}
END_TEST

/* -- holding and stamps ---------------------------------------------------------------------------------------------------- */

START_TEST(while_held_submissions_wait) {
  set_up(true, 0);
  fill.held = true;
  submit_plainly(0);
  ck_assert_int_eq(channel_take(&channel, now), CHANNEL_QUIET);
  ck_assert_uint_eq(account.now.ledger.in, 0);
  ck_assert(channel_may_sleep(&channel));
  fill.held = false;
  ck_assert(!channel_may_sleep(&channel));
  ck_assert_int_eq(channel_take(&channel, now), CHANNEL_MOVED);
  ck_assert_uint_eq(account.now.ledger.in, 1);
  tear_down();
}
END_TEST

START_TEST(stamps_that_make_no_sense_are_invalid) {
  const struct native_frame wrong[] = {
      {.timestamp = INT64_MAX}, {.timestamp = -1}, {.timestamp = INT64_MIN}, {.deadline = -1}, {.deadline = INT64_MIN}};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    set_up(true, 0);
    submit(1, &wrong[i]);
    ck_assert_int_eq(channel_take(&channel, now), CHANNEL_MOVED);
    ck_assert(channel_give(&channel, now));
    ck_assert_uint_eq(control.completions[0].fate, FATE_INVALID);
    ck_assert_uint_eq(fate_of(FATE_INVALID), 1);
    tear_down();
  }
}
END_TEST

/* -- doorbells ------------------------------------------------------------------------------------------------------------- */

static unsigned heard(void) {
  unsigned char bytes[64];
  ssize_t got = recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT);
  return got > 0 ? (unsigned)got : 0;
}

static void complete_one(uint32_t slot) {
  submit_plainly(slot);
  ck_assert_int_eq(channel_take(&channel, now), CHANNEL_MOVED);
  run_one(false);
  ck_assert(channel_give(&channel, now));
}

START_TEST(only_who_sleeps_is_rung_and_once) {
  set_up(true, 0);
  complete_one(0);
  ck_assert_uint_eq(heard(), 0);
  atomic_store(&control.client.sleeps, 1);
  complete_one(1);
  ck_assert_uint_eq(heard(), 1);
  ck_assert_uint_eq(atomic_load(&control.client.sleeps), 0);
  complete_one(2);
  ck_assert_uint_eq(heard(), 0);
  tear_down();
}
END_TEST

START_TEST(who_goes_to_sleep_while_it_is_told_is_rung_in_the_same_turn) {
  set_up(true, 0);
  complete_one(0);
  atomic_store(&control.client.sleeps, 1); /* having looked before that came */
  channel_ring(&channel);
  ck_assert_uint_eq(heard(), 1);
  atomic_store(&control.client.sleeps, 1);
  channel_ring(&channel); /* nothing has come since */
  ck_assert(!channel_give(&channel, now));
  ck_assert_uint_eq(heard(), 0);
  tear_down();
}
END_TEST

START_TEST(the_daemon_says_when_it_sleeps) {
  set_up(true, 0);
  ck_assert(channel_may_sleep(&channel));
  ck_assert_uint_eq(atomic_load(&control.daemon.sleeps), 1);
  ck_assert_int_eq(channel_take(&channel, now), CHANNEL_QUIET);
  ck_assert_uint_eq(atomic_load(&control.daemon.sleeps), 0);
  submit_plainly(0);
  ck_assert(!channel_may_sleep(&channel)); /* it came after the last look */
  tear_down();
}
END_TEST

/* A client that never reads and always sleeps: its connection fills up, and nobody waits for it. */
START_TEST(a_full_connection_stops_nothing) {
  set_up(true, 0);
  for (unsigned i = 0; i < 100000; i++) {
    atomic_store(&control.client.sleeps, 1);
    complete_one(i % SLOTS);
    atomic_store(&control.client.taken, i + 1);
  }
  tear_down();
}
END_TEST

/* -- over a tape ------------------------------------------------------------------------------------------------------------
 */

static bool is_believed(const struct tape *written, uint32_t more_submitted) {
  struct channel other = {0};
  struct tape tape;
  unsigned char *bytes = malloc(written->length);
  ck_assert_ptr_nonnull(bytes);
  memcpy(bytes, written->bytes, written->length);
  uint32_t cursor = channel.submitted + more_submitted; /* comes first */
  memcpy(bytes, &cursor, sizeof cursor);
  tape_load(&tape, bytes, written->length);
  channel_pass(&other, &road, true, &tape);
  bool believed = tape_is_at_end(&tape) && other.submitted == cursor;
  tape_clear(&tape);
  return believed;
}

START_TEST(cursors_that_contradict_the_owners_are_not_believed) {
  struct tape tape;
  set_up(true, 0U - 1U);
  submit_plainly(1);
  submit_plainly(2);
  ck_assert_int_eq(channel_take(&channel, now), CHANNEL_MOVED);
  run_one(false);
  ck_assert(channel_give(&channel, now));
  tape_begin(&tape);
  channel_pass(&channel, &road, true, &tape);
  ck_assert(is_believed(&tape, 0));
  ck_assert(!is_believed(&tape, 1));
  ck_assert(!is_believed(&tape, UINT32_MAX));
  tape_clear(&tape);
  tear_down();
}
END_TEST

Suite *channel_suite(void);

Suite *channel_suite(void) {
  Suite *suite = suite_create("channel");
  TCase *tests = tcase_create("all");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, every_submission_comes_back_once, 0, 2);
  tcase_add_loop_test(tests, a_lie_breaks_the_channel_and_leaves_the_books_right, 0, sizeof lies / sizeof *lies);
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
