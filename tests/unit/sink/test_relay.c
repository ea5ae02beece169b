/*
 * What goes between a session and a sink on another lane: the ring under real lanes that sleep and wake each other, and the
 * hand-off with its account.
 */
#include <string.h>

#include "daemon/frame/relay.h"
#include "daemon/sink/results.h"
#include "tests/unit/runner.h"

/* -- the ring: one lane sends numbers, the other sends each back -------------------------------------------------------- */

enum { ROUNDS = 200000, UNDER_WAY = GPU_MAX_SLOTS };

struct end {
  struct runner runner; /* first */
  struct spsc *in, *out;
  unsigned next, left, under_way; /* of the first end: what it sends, what is to come back, what is gone */
  uv_sem_t *done;
};

static struct lane *start_lane(unsigned index) {
  struct failure failure;
  struct lane *lane = lane_new(index, &failure);
  ck_assert_ptr_nonnull(lane);
  return lane;
}

static bool send_and_count(struct runner *runner) {
  struct end *end = (struct end *)runner;
  unsigned item;
  while (spsc_pop(end->in, &item)) {
    require(item == ROUNDS - end->left, "%u instead of %u: each once, in order", item, ROUNDS - end->left);
    end->left--;
    end->under_way--;
  }
  while (end->next < ROUNDS && end->under_way < UNDER_WAY) {
    spsc_push(end->out, end->next++);
    end->under_way++;
  }
  if (end->left == 0) {
    uv_sem_post(end->done);
    return false;
  }
  return !spsc_may_sleep(end->in);
}

static bool send_back(struct runner *runner) {
  struct end *end = (struct end *)runner;
  unsigned item;
  while (spsc_pop(end->in, &item)) {
    spsc_push(end->out, item);
  }
  return !spsc_may_sleep(end->in);
}

struct errand {
  struct message message;
  struct lane *lane;
  struct runner *runner;
  uv_sem_t *left; /* leave the lane, and say so */
};

static void run_errand(struct message *message) {
  struct errand *errand = (struct errand *)message;
  if (errand->left) {
    lane_leave(errand->runner);
    uv_sem_post(errand->left);
  } else {
    lane_join(errand->lane, errand->runner);
    lane_schedule(errand->runner);
  }
}

static void leave(struct lane *lane, struct runner *runner, uv_sem_t *left) {
  struct errand errand = {.message.run = run_errand, .lane = lane, .runner = runner, .left = left};
  lane_post(lane, &errand.message);
  uv_sem_wait(left);
}

START_TEST(lanes_that_sleep_miss_nothing) {
  struct lane *lanes[2] = {start_lane(0), start_lane(1)};
  struct spsc there, back;
  uv_sem_t done;
  ck_assert_int_eq(uv_sem_init(&done, 0), 0);
  struct end near = {.runner.turn = send_and_count, .in = &back, .out = &there, .left = ROUNDS, .done = &done};
  struct end far = {.runner.turn = send_back, .in = &there, .out = &back};
  spsc_init(&there, lanes[1], &far.runner);
  spsc_init(&back, lanes[0], &near.runner);
  struct errand joins[2] = {{.message.run = run_errand, .lane = lanes[0], .runner = &near.runner},
                            {.message.run = run_errand, .lane = lanes[1], .runner = &far.runner}};
  lane_post(lanes[0], &joins[0].message);
  lane_post(lanes[1], &joins[1].message);
  uv_sem_wait(&done);
  leave(lanes[0], &near.runner, &done);
  leave(lanes[1], &far.runner, &done);
  lane_free(lanes[0]);
  lane_free(lanes[1]);
  uv_sem_destroy(&done);
}
END_TEST

static unsigned turns;

static bool count_turn(struct runner *runner) {
  (void)runner;
  turns++;
  return false;
}

START_TEST(whoever_is_awake_is_not_woken) {
  struct lane *lane = start_lane(0);
  struct runner runner = {.turn = count_turn};
  struct spsc ring;
  unsigned item;
  spsc_init(&ring, lane, &runner);
  spsc_push(&ring, 1);
  ck_assert(!atomic_load(&runner.woken));
  ck_assert(!spsc_may_sleep(&ring));
  ck_assert(spsc_pop(&ring, &item));
  ck_assert_uint_eq(item, 1);
  ck_assert(!spsc_pop(&ring, &item));
  ck_assert(spsc_may_sleep(&ring));
  ck_assert(!spsc_pop(&ring, &item)); /* something else woke it */
  spsc_push(&ring, 2);
  ck_assert(!atomic_load(&runner.woken));
  ck_assert(spsc_pop(&ring, &item));
  ck_assert(spsc_may_sleep(&ring));
  spsc_push(&ring, 3);
  spsc_push(&ring, 4);
  ck_assert(atomic_load(&runner.woken));
  lane_free(lane);
}
END_TEST

START_TEST(a_full_ring_wraps_around) {
  struct lane *lane = start_lane(0);
  struct runner runner = {.turn = count_turn};
  struct spsc ring;
  unsigned item;
  spsc_init(&ring, lane, &runner);
  atomic_store(&ring.pushed, 0U - 5U);
  atomic_store(&ring.popped, 0U - 5U);
  for (unsigned round = 0; round < 3; round++) {
    for (unsigned i = 0; i < RING_PLACES; i++) {
      spsc_push(&ring, i);
    }
    for (unsigned i = 0; i < RING_PLACES; i++) {
      ck_assert(spsc_pop(&ring, &item));
      ck_assert_uint_eq(item, i);
    }
    ck_assert(!spsc_pop(&ring, &item));
  }
  lane_free(lane);
}
END_TEST

/* -- the hand-off: this thread is the session's lane -------------------------------------------------------------------- */

static uv_loop_t loop;
static struct mailbox control;
static struct lane *lane;
static struct sink *sink;
static struct flow flow;
static struct account account;
static struct relay relay;
static struct runner session;
static bool stopped;

static void on_event(void *context, const struct sink_event *event) {
  (void)context;
  stopped |= event->kind == SINK_STOPPED;
}

static void set_up(void) {
  static struct config_pipeline config;
  struct frame_format format = format_image(PIXELS_GRAY, 8, 1);
  struct failure failure;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(mailbox_open(&control, &loop), 0);
  lane = start_lane(0);
  config = (struct config_pipeline){.name = "test"};
  config.sink.endpoint = CONFIG_SOCKET;
  config.sink.overload = CONFIG_SINK_BLOCK;
  struct sink_setup setup = {.config = &config, .lane = lane, .control = &control, .listener = on_event, .output = &format};
  sink = sink_new(&setup, &failure);
  ck_assert_ptr_nonnull(sink);
  slot_ring_init(&flow.ring, GPU_MAX_SLOTS);
  flow.account = &account;
  flow.output_bytes = 8;
  relay_init(&relay, &flow);
  spsc_init(&relay.back, lane, &session);
  sink_join_handoff(sink, &relay);
}

static void tear_down(void) {
  sink_stop(sink);
  while (!stopped) {
    uv_run(&loop, UV_RUN_ONCE);
  }
  sink_free(sink);
  lane_free(lane);
  mailbox_close(&control);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
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
}

static void collect_all(void) {
  while (slot_count(&flow.ring, SLOT_FREE) < flow.ring.count) {
    relay_collect(&relay);
    uint64_t settled = account.now.ledger.fates[FATE_CLIENT_GONE] + account.now.ledger.fates[FATE_SHUTDOWN];
    require(account.now.ledger.in == settled + flow_in_flight(&flow), "the ledger does not balance");
  }
}

START_TEST(what_was_offered_is_in_flight_until_its_fate_comes_back) {
  set_up();
  offer_all();
  ck_assert_uint_eq(flow_in_flight(&flow), GPU_MAX_SLOTS);
  ck_assert(!relay_collect(&relay)); /* it waits for a reader */
  sink_discard(sink, FATE_CLIENT_GONE, 1);
  collect_all();
  ck_assert_uint_eq(account.now.ledger.fates[FATE_CLIENT_GONE], GPU_MAX_SLOTS);
  ck_assert_uint_eq(flow_in_flight(&flow), 0);
  tear_down();
}
END_TEST

/* The sink's lane reads it there. */
START_TEST(nobody_writes_to_a_frame_until_its_slot_comes_back) {
  struct frame offered[GPU_MAX_SLOTS];
  set_up();
  offer_all();
  for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
    memcpy(&offered[i], &flow.ring.slots[i].frame, sizeof offered[i]);
  }
  sink_discard(sink, FATE_CLIENT_GONE, 1);
  while (slot_count(&flow.ring, SLOT_FREE) < flow.ring.count) {
    relay_collect(&relay);
    for (unsigned i = 0; i < GPU_MAX_SLOTS; i++) {
      const struct slot *slot = &flow.ring.slots[i];
      ck_assert(slot->state == SLOT_FREE || memcmp(&offered[i], &slot->frame, sizeof offered[i]) == 0);
    }
  }
  ck_assert_int_eq(flow.ring.slots[0].frame.fate, FATE_CLIENT_GONE);
  tear_down();
}
END_TEST

/* However orders and offers meet on the way, all that was offered before an order is covered by it. */
START_TEST(no_offer_slips_through_a_discard) {
  set_up();
  for (unsigned round = 0; round < 2000; round++) {
    offer_all();
    sink_discard(sink, FATE_SHUTDOWN, 1);
    sink_discard(sink, FATE_SHUTDOWN, 1);
    collect_all();
  }
  ck_assert_uint_eq(account.now.ledger.fates[FATE_SHUTDOWN], 2000 * GPU_MAX_SLOTS);
  tear_down();
}
END_TEST

struct wait {
  struct message message;
  uv_sem_t until;
};

static void run_wait(struct message *message) { uv_sem_wait(&((struct wait *)message)->until); }

/* A session that went on before would have its next client meet an order for the last one. */
START_TEST(an_order_counts_until_it_is_carried_out) {
  set_up();
  struct wait wait = {.message.run = run_wait};
  ck_assert_int_eq(uv_sem_init(&wait.until, 0), 0);
  ck_assert(sink_orders_done(sink));
  lane_post(lane, &wait.message);
  offer_all();
  sink_discard(sink, FATE_CLIENT_GONE, 1);
  ck_assert(!sink_orders_done(sink));
  ck_assert(!atomic_load(&session.woken));
  uv_sem_post(&wait.until);
  while (!atomic_load(&session.woken)) {
    uv_sleep(1);
  }
  ck_assert(sink_orders_done(sink));
  collect_all();
  tear_down();
  uv_sem_destroy(&wait.until);
}
END_TEST

Suite *relay_suite(void);

Suite *relay_suite(void) {
  Suite *suite = suite_create("relay");
  TCase *tests = tcase_create("all");
  tcase_set_timeout(tests, 120);
  tcase_add_test(tests, lanes_that_sleep_miss_nothing);
  tcase_add_test(tests, whoever_is_awake_is_not_woken);
  tcase_add_test(tests, a_full_ring_wraps_around);
  tcase_add_test(tests, what_was_offered_is_in_flight_until_its_fate_comes_back);
  tcase_add_test(tests, nobody_writes_to_a_frame_until_its_slot_comes_back);
  tcase_add_test(tests, no_offer_slips_through_a_discard);
  tcase_add_test(tests, an_order_counts_until_it_is_carried_out);
  suite_add_tcase(suite, tests);
  return suite;
}
