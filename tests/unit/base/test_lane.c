/* Whose turn it is on a lane: that of each of the highest priority that live there, and of one of the others in between. */
#include "daemon/base/lane.h"

#include <string.h>

#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"

enum { MOST_TURNS = 64 };

struct member {
  struct runner runner; /* first */
  char name;
  unsigned left; /* turns that it asks for after the first */
};

static char order[MOST_TURNS + 1];
static unsigned taken, expected;
static uv_sem_t told;

static bool member_turn(struct runner *runner) {
  struct member *member = (struct member *)runner;
  require(taken < expected, "a turn more than anybody asked for");
  order[taken++] = member->name;
  if (taken == expected) {
    uv_sem_post(&told);
  }
  return member->left > 0 && member->left--;
}

struct errand {
  struct message message;
  struct lane *lane;
  struct member *members;
  unsigned count;
};

/* All are there, and scheduled in the order of the list, before the first has a turn. */
static void join_all(struct message *message) {
  const struct errand *errand = (struct errand *)message;
  for (unsigned i = 0; i < errand->count; i++) {
    errand->members[i].runner.turn = member_turn;
    lane_join(errand->lane, &errand->members[i].runner);
    lane_schedule(&errand->members[i].runner);
  }
}

static void leave_all(struct message *message) {
  const struct errand *errand = (struct errand *)message;
  for (unsigned i = 0; i < errand->count; i++) {
    lane_leave(&errand->members[i].runner);
  }
  uv_sem_post(&told);
}

/* Lets each have all turns that it asks for, and gives their order. */
static const char *run_all(struct member *members, unsigned count) {
  struct failure failure;
  struct lane *lane = lane_new(0, &failure);
  struct errand join = {.message.run = join_all, .lane = lane, .members = members, .count = count};
  struct errand leave = {.message.run = leave_all, .lane = lane, .members = members, .count = count};
  ck_assert_ptr_nonnull(lane);
  ck_assert_int_eq(uv_sem_init(&told, 0), 0);
  for (unsigned i = 0; i < count; i++) {
    expected += 1 + members[i].left;
  }
  lane_post(lane, &join.message);
  uv_sem_wait(&told);
  lane_post(lane, &leave.message);
  uv_sem_wait(&told);
  lane_free(lane);
  uv_sem_destroy(&told);
  return order;
}

#define RUN_ALL(members) run_all((members), sizeof(members) / sizeof *(members))

START_TEST(equals_take_turns) {
  struct member members[] = {{.name = 'a', .left = 2}, {.name = 'b', .left = 1}, {.name = 'c', .left = 2}};
  ck_assert_str_eq(RUN_ALL(members), "abcabcac");
}
END_TEST

START_TEST(the_highest_come_first_and_one_of_the_others_in_between) {
  struct member members[] = {{.name = 'l', .left = 1, .runner.priority = GPU_PRIORITY_LOW},
                             {.name = 'n', .left = 1},
                             {.name = 'o'},
                             {.name = 'H', .left = 2, .runner.priority = GPU_PRIORITY_HIGH},
                             {.name = 'I', .left = 1, .runner.priority = GPU_PRIORITY_HIGH}};
  ck_assert_str_eq(RUN_ALL(members), "HInHIoHnll");
}
END_TEST

/* One that always wants a turn keeps nobody waiting for ever. */
START_TEST(the_lowest_has_its_turns) {
  struct member members[] = {{.name = 'H', .runner.priority = GPU_PRIORITY_HIGH},
                             {.name = 'l', .left = 1, .runner.priority = GPU_PRIORITY_LOW},
                             {.name = 'n', .left = 2 * PRIORITY_PATIENCE}};
  const char *turns = RUN_ALL(members);
  ck_assert_uint_eq(strspn(turns + 1, "n"), PRIORITY_PATIENCE);
  ck_assert_int_eq(turns[1 + PRIORITY_PATIENCE], 'l');
  ck_assert_uint_eq(strspn(turns + 2 + PRIORITY_PATIENCE, "n"), PRIORITY_PATIENCE);
  ck_assert_int_eq(turns[2 + 2 * PRIORITY_PATIENCE], 'l');
}
END_TEST

/* Also before it has gone on from the time before. */
START_TEST(stands_still_as_often_as_it_is_asked) {
  struct failure failure;
  struct lane *lane = lane_new(0, &failure);
  const struct lane_patience patience = {.file = INT64_MAX, .limit = clock_now() + 50 * NS_PER_S};
  ck_assert_ptr_nonnull(lane);
  for (unsigned i = 0; i < 2000; i++) {
    lane_park(lane);
    ck_assert_msg(lane_is_parked(lane, &patience), "it did not stand still at attempt %u", i);
    lane_unpark(lane);
  }
  lane_free(lane);
}
END_TEST

Suite *lane_suite(void);
Suite *lane_suite(void) {
  Suite *suite = suite_create("lane");
  TCase *all = tcase_create("all");
  tcase_set_timeout(all, 60);
  tcase_add_test(all, equals_take_turns);
  tcase_add_test(all, the_highest_come_first_and_one_of_the_others_in_between);
  tcase_add_test(all, the_lowest_has_its_turns);
  tcase_add_test(all, stands_still_as_often_as_it_is_asked);
  suite_add_tcase(suite, all);
  return suite;
}
