/*
 * The protocols by which one side sleeps and the other wakes it, in a model: every interleaving of two processors whose
 * stores wait in buffers before others see them (as on x86; what may be reordered there is reordered here).
 *
 * Three protocols have the same shape, and each is written here as it stands in the code: client to daemon in source/shared.c,
 * daemon to client as framed-protocol(7) has it, and lane to lane in base/spsc.c. A wake-up is lost if nothing can go on while
 * the side that sleeps has not seen everything. With both fences there is none; without either of them there must be one,
 * or the model would show nothing.
 */
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 3, MOST_STATES = 1 << 18, BUFFERED = 6 };

enum word { CURSOR, FLAG, WORDS };
enum side { WAKER, SLEEPER, SIDES };
enum protocol { TO_DAEMON, TO_CLIENT, LANES, PROTOCOLS };

struct state {
  uint8_t memory[WORDS];
  uint8_t at[SIDES]; /* the next instruction */
  uint8_t buffered[SIDES];
  struct {
    uint8_t word, value;
  } buffers[SIDES][BUFFERED];
  uint8_t sent, seen, read; /* the last is a register of the sleeper */
  uint8_t asleep;           /* what the sleeper knows of its flag */
  uint8_t rung;             /* a doorbell waits */
};

static enum protocol protocol;
static bool fenced[SIDES];

/* -- the processors -------------------------------------------------------------------------------------------------- */

static void store(struct state *state, enum side side, enum word word, unsigned value) {
  state->buffers[side][state->buffered[side]].word = (uint8_t)word;
  state->buffers[side][state->buffered[side]].value = (uint8_t)value;
  state->buffered[side]++;
}

static uint8_t load(const struct state *state, enum side side, enum word word) {
  for (unsigned i = state->buffered[side]; i > 0; i--) {
    if (state->buffers[side][i - 1].word == word) {
      return state->buffers[side][i - 1].value;
    }
  }
  return state->memory[word];
}

/* The oldest store is seen by everybody. */
static bool flush(struct state *state, enum side side) {
  if (state->buffered[side] == 0) {
    return false;
  }
  state->memory[state->buffers[side][0].word] = state->buffers[side][0].value;
  state->buffered[side]--;
  memmove(state->buffers[side], state->buffers[side] + 1, state->buffered[side] * sizeof *state->buffers[side]);
  memset(&state->buffers[side][state->buffered[side]], 0, sizeof *state->buffers[side]);
  return true;
}

/* A fence, a locked instruction or a system call goes on once all own stores are out. */
static bool is_out(const struct state *state, enum side side) { return state->buffered[side] == 0; }

/* A processor waits for room before its next store, and here before anything. */
static bool is_full(const struct state *state, enum side side) { return state->buffered[side] == BUFFERED; }

static bool go(struct state *state, enum side side, unsigned to) {
  state->at[side] = (uint8_t)to;
  return true;
}

/* -- who wakes: one instruction, false if it cannot go on ------------------------------------------------------------- */

static bool step_waker(struct state *state) {
  if (is_full(state, WAKER)) {
    return false;
  }
  switch (state->at[WAKER]) {
  case 0:
    if (state->sent == ITEMS) {
      return false;
    }
    store(state, WAKER, CURSOR, ++state->sent);
    return go(state, WAKER, 1);
  case 1:
    return (!fenced[WAKER] || is_out(state, WAKER)) && go(state, WAKER, 2);
  case 2:
    return go(state, WAKER, load(state, WAKER, FLAG) != 0 ? 3 : 0);
  case 3:
    if (protocol != LANES) {
      store(state, WAKER, FLAG, 0);
      return go(state, WAKER, 4);
    }
    if (!is_out(state, WAKER)) {
      return false;
    }
    bool was_set = state->memory[FLAG] != 0; /* an exchange */
    state->memory[FLAG] = 0;
    return go(state, WAKER, was_set ? 4 : 0);
  default:
    if (!is_out(state, WAKER)) {
      return false;
    }
    state->rung = 1;
    return go(state, WAKER, 0);
  }
}

/* -- who sleeps -------------------------------------------------------------------------------------------------------- */

static bool clear_flag(struct state *state, unsigned next) {
  store(state, SLEEPER, FLAG, 0);
  state->asleep = 0;
  return go(state, SLEEPER, next);
}

/* Takes what there is; instruction 3 follows if there was nothing. */
static bool take(struct state *state) {
  switch (protocol) {
  case LANES: /* spsc_pop() looks at the flag first and takes one */
    if (state->at[SLEEPER] == 0) {
      return go(state, SLEEPER, load(state, SLEEPER, FLAG) != 0 ? 1 : 2);
    }
    if (state->at[SLEEPER] == 1) {
      return clear_flag(state, 2);
    }
    if (load(state, SLEEPER, CURSOR) == state->seen) {
      return go(state, SLEEPER, 3);
    }
    state->seen++;
    return go(state, SLEEPER, 0);
  case TO_DAEMON: /* shared_turn() reads the cursor first, and then says that it is awake */
    if (state->at[SLEEPER] == 0) {
      state->read = load(state, SLEEPER, CURSOR);
      return go(state, SLEEPER, state->asleep ? 1 : 2);
    }
    if (state->at[SLEEPER] == 1) {
      return clear_flag(state, 2);
    }
    state->at[SLEEPER] = state->read == state->seen ? 3 : 0;
    state->seen = state->read;
    state->read = 0;
    return true;
  default:
    state->read = load(state, SLEEPER, CURSOR);
    state->at[SLEEPER] = state->read == state->seen ? 3 : 0;
    state->seen = state->read;
    state->read = 0;
    return true;
  }
}

static bool step_sleeper(struct state *state) {
  if (is_full(state, SLEEPER)) {
    return false;
  }
  switch (state->at[SLEEPER]) {
  case 3:
    store(state, SLEEPER, FLAG, 1);
    state->asleep = 1;
    return go(state, SLEEPER, 4);
  case 4:
    return (!fenced[SLEEPER] || is_out(state, SLEEPER)) && go(state, SLEEPER, 5);
  case 5:
    if (load(state, SLEEPER, CURSOR) == state->seen) {
      return go(state, SLEEPER, 6);
    }
    return go(state, SLEEPER, protocol == TO_DAEMON ? 0 : 7);
  case 6:
    if (!state->rung || !is_out(state, SLEEPER)) {
      return false;
    }
    state->rung = 0;
    return go(state, SLEEPER, protocol == TO_CLIENT ? 7 : 0);
  case 7:
    return clear_flag(state, 0);
  default:
    return take(state);
  }
}

/* -- every interleaving ------------------------------------------------------------------------------------------------ */

static struct state *states; /* found so far, the first ones looked at; */
static uint32_t *places;     /* by their hash, 0: none, else one more than the index */
static unsigned count;

static uint32_t hash_of(const struct state *state) {
  uint32_t hash = 2166136261U;
  for (size_t i = 0; i < sizeof *state; i++) {
    hash = (hash ^ ((const unsigned char *)state)[i]) * 16777619U;
  }
  return hash ^ (hash >> 15);
}

static void find(const struct state *state) {
  uint32_t place = hash_of(state) % (2 * MOST_STATES);
  while (places[place] != 0) {
    if (memcmp(&states[places[place] - 1], state, sizeof *state) == 0) {
      return;
    }
    place = (place + 1) % (2 * MOST_STATES);
  }
  ck_assert_uint_lt(count, MOST_STATES);
  states[count++] = *state;
  places[place] = count;
}

static bool try_step(const struct state *from, bool (*step)(struct state *state)) {
  struct state next = *from;
  bool goes_on = step(&next);
  if (goes_on) {
    find(&next);
  }
  return goes_on;
}

static bool flush_waker(struct state *state) { return flush(state, WAKER); }
static bool flush_sleeper(struct state *state) { return flush(state, SLEEPER); }

/* Whether some interleaving leaves the sleeper asleep before something that it has not seen. */
static bool loses_a_wake_up(enum protocol which, bool waker_fenced, bool sleeper_fenced) {
  protocol = which;
  fenced[WAKER] = waker_fenced;
  fenced[SLEEPER] = sleeper_fenced;
  states = calloc(MOST_STATES, sizeof *states);
  places = calloc((size_t)2 * MOST_STATES, sizeof *places);
  ck_assert(states && places);
  count = 0;
  bool lost = false, seen_all = false;
  find(&(struct state){.rung = 0});
  for (unsigned i = 0; i < count; i++) {
    struct state now = states[i];
    bool goes_on = try_step(&now, step_waker);
    goes_on |= try_step(&now, step_sleeper);
    goes_on |= try_step(&now, flush_waker);
    goes_on |= try_step(&now, flush_sleeper);
    lost |= !goes_on && now.seen != ITEMS;
    seen_all |= !goes_on && now.seen == ITEMS;
  }
  free(states);
  free(places);
  ck_assert(seen_all);
  return lost;
}

START_TEST(with_both_fences_no_wake_up_is_lost) { ck_assert(!loses_a_wake_up((enum protocol)_i, true, true)); }
END_TEST

START_TEST(without_the_fence_of_who_wakes_one_is) { ck_assert(loses_a_wake_up((enum protocol)_i, false, true)); }
END_TEST

START_TEST(without_the_fence_of_who_sleeps_one_is) { ck_assert(loses_a_wake_up((enum protocol)_i, true, false)); }
END_TEST

Suite *sleeping_suite(void);

Suite *sleeping_suite(void) {
  Suite *suite = suite_create("sleeping");
  TCase *tests = tcase_create("all");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, with_both_fences_no_wake_up_is_lost, 0, PROTOCOLS);
  tcase_add_loop_test(tests, without_the_fence_of_who_wakes_one_is, 0, PROTOCOLS);
  tcase_add_loop_test(tests, without_the_fence_of_who_sleeps_one_is, 0, PROTOCOLS);
  suite_add_tcase(suite, tests);
  return suite;
}
