/*
 * The lane's end of shared memory beside a model through a hundred thousand random steps of an honest client, with cursors
 * that wrap around.
 *
 * The model knows of each slot whose it is and which frame is in it; every frame that was submitted must come back once,
 * with its fate, those with a result in their order, and so are all that come back at once.
 */
#include <string.h>

#include "tests/unit/chance.h"
#include "tests/unit/runner.h"
#include "tests/unit/session/channel_rig.h"

enum { STEPS_A_RUN = 2000, RUNS = 50 };

/* Where results go elsewhere: they went. */
static void emit_one(void) {
  struct slot *slot = slot_oldest(&rig.flow.ring, SLOT_DONE);
  if (slot) {
    slot_move(&rig.flow.ring, slot, SLOT_EMITTING);
    flow_drop(&rig.flow, slot, FATE_EMITTED, rig.now);
  }
}

static struct {
  bool mine;
  uint64_t sequence;
  bool invalid;
} model[SLOTS];
static uint64_t submitted, completed, last_result;
static uint32_t taken;

static void model_submit(void) {
  unsigned slot = chance(SLOTS);
  if (!model[slot].mine || taken != atomic_load(&rig.control.daemon.completed)) {
    return; /* an honest client knows what it was told before it submits */
  }
  model[slot].mine = false;
  model[slot].sequence = ++submitted;
  model[slot].invalid = chance(8) == 0;
  submit(slot, &(struct native_frame){.sequence = submitted, .timestamp = model[slot].invalid ? INT64_MAX : 0});
}

static void model_take(void) {
  while (taken != atomic_load(&rig.control.daemon.completed)) {
    const struct native_completion *completion = &rig.control.completions[taken % NATIVE_RING];
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
  atomic_store(&rig.control.client.taken, taken);
}

/* Where results go elsewhere, several may have gone since the last time. */
static void model_give(bool replies) {
  uint32_t at = atomic_load(&rig.control.daemon.completed);
  uint64_t before = 0;
  for (unsigned gone = chance(4); !replies && gone > 0; gone--) {
    emit_one();
  }
  give();
  for (; at != atomic_load(&rig.control.daemon.completed); at++) {
    uint64_t sequence = rig.control.completions[at % NATIVE_RING].result.sequence;
    require(sequence > before, "frame %u comes back behind a later one", (unsigned)sequence);
    before = sequence;
  }
}

static void model_turn(void) {
  take();
  require(!is_broken(), "an honest client is called a liar: %s", rig.source.text);
}

static void random_step(bool replies) {
  rig.now++;
  switch (chance(6)) {
  case 0:
  case 1:
    model_submit();
    break;
  case 2:
    model_turn();
    break;
  case 3:
    run_one(chance(5) == 0);
    break;
  case 4:
    model_give(replies);
    break;
  default:
    model_take();
    break;
  }
  uint64_t settled = 0;
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    settled += rig.account.now.ledger.fates[fate];
  }
  require(rig.account.now.ledger.in == settled + flow_in_flight(&rig.flow), "the ledger does not balance");
}

static void finish(bool replies) {
  for (unsigned turn = 0; turn < 4 * SLOTS; turn++) {
    model_turn();
    run_one(false);
    if (!replies) {
      emit_one();
    }
    give();
    model_take();
  }
  give();
  ck_assert_uint_eq(completed, submitted);
  ck_assert_uint_eq(rig.account.now.ledger.in, submitted);
  ck_assert_uint_eq(flow_in_flight(&rig.flow), 0);
  ck_assert_uint_eq(slot_count(&rig.flow.ring, SLOT_FREE), SLOTS);
  ck_assert(!channel_has_unread(&rig.channel));
}

START_TEST(every_submission_comes_back_once) {
  bool replies = _i != 0;
  for (run = 0; run < RUNS; run++) {
    uint32_t cursors = run % 2 == 0 ? 0 : 0U - 50U; /* they wrap around on the way */
    chance_begin(run + 1);
    set_up(replies, cursors);
    rig.flow.spin = run % 3 == 0; /* then a client's answer is waited for, which never comes here */
    memset(model, 0, sizeof model);
    for (unsigned i = 0; i < SLOTS; i++) {
      model[i].mine = true;
    }
    submitted = completed = last_result = 0;
    taken = cursors;
    for (step = 0; step < STEPS_A_RUN; step++) {
      random_step(replies);
    }
    finish(replies);
    tear_down();
  }
}
END_TEST

Suite *channel_model_suite(void);

Suite *channel_model_suite(void) {
  Suite *suite = suite_create("channel_model");
  TCase *tests = tcase_create("all");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, every_submission_comes_back_once, 0, 2);
  suite_add_tcase(suite, tests);
  return suite;
}
