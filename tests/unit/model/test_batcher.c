/* Which frames go together and when: turns, order, waiting, deadlines. */
#include "gpu/model/batcher.h"

#include <check.h>

#include "tests/unit/runner.h"

enum { MS = 1000000, QUEUES = 4, FRAMES = 8 };

static struct batcher batcher;
static struct batch_queue queues[QUEUES];
static struct batch_frame frames[QUEUES][FRAMES], *taken[BATCHER_MOST];
static unsigned added[QUEUES];

static void begin(unsigned most, int64_t wait_ns) {
  batcher = (struct batcher){.most = most, .wait_ns = wait_ns};
  for (int i = 0; i < QUEUES; i++) {
    queues[i] = (struct batch_queue){0};
    added[i] = 0;
  }
}

static struct batch_frame *add(int queue, int64_t came) {
  struct batch_frame *frame = &frames[queue][added[queue]++];
  *frame = (struct batch_frame){.came = came};
  batcher_add(&batcher, &queues[queue], frame);
  return frame;
}

/* Takes a batch that must be these: each a queue times 10 and the number of its frame. */
static void expect(int64_t now, unsigned count, const int *names) {
  ck_assert_uint_eq(batcher_take(&batcher, now, taken), count);
  for (unsigned i = 0; i < count; i++) {
    ck_assert_ptr_eq(taken[i], &frames[names[i] / 10][names[i] % 10]);
  }
}
#define EXPECT(now, ...) expect(now, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

START_TEST(without_a_wait_what_is_there_goes) {
  begin(4, 0);
  ck_assert_int_eq(batcher_due(&batcher), BATCHER_NEVER);
  ck_assert_uint_eq(batcher_take(&batcher, 5, taken), 0);
  add(0, 5);
  ck_assert_int_eq(batcher_due(&batcher), 0);
  EXPECT(5, 0);
  ck_assert_uint_eq(batcher_take(&batcher, 5, taken), 0);
}
END_TEST

START_TEST(a_full_batch_does_not_wait) {
  begin(3, 2 * MS);
  add(0, 1);
  add(1, 2);
  ck_assert_uint_eq(batcher_take(&batcher, 3, taken), 0);
  add(0, 3);
  EXPECT(3, 0, 10, 1);
}
END_TEST

START_TEST(the_oldest_frame_waits_no_longer) {
  begin(8, 2 * MS);
  add(1, 100);
  add(0, 200);
  ck_assert_int_eq(batcher_due(&batcher), 100 + 2 * MS);
  ck_assert_uint_eq(batcher_take(&batcher, 99 + 2 * MS, taken), 0);
  EXPECT(100 + 2 * MS, 10, 0);
}
END_TEST

START_TEST(queues_take_turns_and_keep_their_order) {
  begin(4, 0);
  for (int i = 0; i < 5; i++) {
    add(0, i);
  }
  add(1, 5);
  add(1, 6);
  add(2, 7);
  EXPECT(8, 0, 10, 20, 1);
  add(3, 9);
  EXPECT(10, 11, 2, 30, 3);
  EXPECT(11, 4);
}
END_TEST

/* More sessions than a batch holds: whoever was left out is first in the next one. */
START_TEST(a_turn_goes_on_with_the_next_batch) {
  begin(3, 0);
  for (int round = 0; round < 3; round++) {
    for (int queue = 0; queue < QUEUES; queue++) {
      add(queue, round);
    }
  }
  EXPECT(9, 0, 10, 20);
  EXPECT(9, 30, 1, 11);
  EXPECT(9, 21, 31, 2);
  EXPECT(9, 12, 22, 32);
  ck_assert_uint_eq(batcher.waiting, 0);
  ck_assert_ptr_null(batcher.last[priority_rank(GPU_PRIORITY_NORMAL)]);
}
END_TEST

/* Frames of higher priorities go first, and one of a lower one that was passed over often enough. */
START_TEST(higher_priorities_go_first) {
  begin(2, 0);
  queues[0].priority = GPU_PRIORITY_LOW;
  queues[2].priority = queues[3].priority = GPU_PRIORITY_HIGH;
  add(0, 1);
  add(1, 2);
  add(1, 3);
  add(2, 4);
  add(3, 5);
  add(2, 6);
  EXPECT(9, 20, 30);
  EXPECT(9, 21, 10);
  add(3, 10);
  EXPECT(11, 31, 11);
  for (int i = 2; i < FRAMES - 1; i++) { /* the lowest was passed over 6 times */
    add(2, i);
    add(3, i);
    EXPECT(12, 20 + i, 30 + i);
  }
  add(2, 12);
  EXPECT(13, 0, 20 + FRAMES - 1);
  ck_assert_uint_eq(batcher.waiting, 0);
}
END_TEST

START_TEST(a_deadline_sends_a_batch_early) {
  begin(8, 10 * MS);
  batcher_learn(&batcher, 3 * MS);
  add(0, 0);
  add(1, MS)->deadline = 8 * MS;
  ck_assert_int_eq(batcher_due(&batcher), 5 * MS);
  ck_assert_uint_eq(batcher_take(&batcher, 5 * MS - 1, taken), 0);
  EXPECT(5 * MS, 0, 10);
  add(2, 6 * MS)->deadline = 2 * MS; /* there is no time left */
  EXPECT(6 * MS, 20);
  add(2, 6 * MS);
  add(2, 6 * MS)->deadline = 1; /* also behind another one of its session, or before anything was learned */
  ck_assert_int_eq(batcher_due(&batcher), 0);
}
END_TEST

START_TEST(who_goes_alone_goes_at_once_and_alone) {
  begin(4, 10 * MS);
  add(0, 0);
  add(1, 1)->alone = true;
  add(2, 2);
  ck_assert_int_eq(batcher_due(&batcher), 0);
  EXPECT(3, 0);
  EXPECT(3, 10);
  ck_assert_uint_eq(batcher_take(&batcher, 3, taken), 0);
  EXPECT(2 + 10 * MS, 20);
}
END_TEST

/* The turn of a frame that goes alone may come in the middle of a batch, also each time. */
START_TEST(who_goes_alone_is_not_passed_over_for_ever) {
  unsigned rounds = 0;
  begin(3, 0);
  queues[0].priority = GPU_PRIORITY_LOW;
  queues[1].priority = GPU_PRIORITY_HIGH;
  add(0, 0)->alone = true;
  for (int i = 0; i < 3; i++) {
    add(1, 0);
  }
  for (unsigned count = batcher_take(&batcher, 1, taken); taken[0] != &frames[0][0]; count = batcher_take(&batcher, 1, taken)) {
    ck_assert_uint_lt(rounds++, 2 * PRIORITY_PATIENCE);
    for (unsigned i = 0; i < count; i++) {
      batcher_add(&batcher, &queues[1], taken[i]);
    }
  }
}
END_TEST

START_TEST(one_at_a_time_only_queues) {
  begin(1, 10 * MS);
  add(0, 0);
  add(0, 0);
  add(1, 0);
  EXPECT(0, 0);
  EXPECT(0, 10);
  EXPECT(0, 1);
}
END_TEST

START_TEST(what_a_batch_takes_is_learned_slowly) {
  begin(1, 0);
  batcher_learn(&batcher, 800);
  ck_assert_int_eq(batcher.service_ns, 800);
  batcher_learn(&batcher, 1600);
  ck_assert_int_eq(batcher.service_ns, 900);
  batcher_learn(&batcher, 100);
  ck_assert_int_eq(batcher.service_ns, 800);
}
END_TEST

Suite *batcher_suite(void);
Suite *batcher_suite(void) {
  Suite *suite = suite_create("batcher");
  TCase *tests = tcase_create("batches");
  tcase_add_test(tests, without_a_wait_what_is_there_goes);
  tcase_add_test(tests, a_full_batch_does_not_wait);
  tcase_add_test(tests, the_oldest_frame_waits_no_longer);
  tcase_add_test(tests, queues_take_turns_and_keep_their_order);
  tcase_add_test(tests, a_turn_goes_on_with_the_next_batch);
  tcase_add_test(tests, higher_priorities_go_first);
  tcase_add_test(tests, a_deadline_sends_a_batch_early);
  tcase_add_test(tests, who_goes_alone_goes_at_once_and_alone);
  tcase_add_test(tests, who_goes_alone_is_not_passed_over_for_ever);
  tcase_add_test(tests, one_at_a_time_only_queues);
  tcase_add_test(tests, what_a_batch_takes_is_learned_slowly);
  suite_add_tcase(suite, tests);
  return suite;
}
