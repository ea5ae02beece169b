/* What users may have, and that what they give back is theirs again. */
#include "daemon/client/quota.h"

#include <check.h>

#include "tests/unit/runner.h"

static struct quota *quota;
static char problem[QUOTA_PROBLEM];

static void make(unsigned sessions, int64_t memory) {
  quota = quota_new();
  ck_assert_ptr_nonnull(quota);
  quota_limit(quota, &(struct config_limits){.sessions_per_user = sessions, .memory_per_user = memory});
}

static bool charge(uid_t user, uint64_t bytes, struct quota_charge *to) {
  return quota_charge(quota, user, QUOTA_SESSION, bytes, to, problem);
}

START_TEST(without_limits_everybody_may_have_everything) {
  struct quota_charge charges[3] = {{0}, {0}, {0}};
  make(0, 0);
  for (unsigned i = 0; i < 3; i++) {
    ck_assert(charge(7, UINT64_C(1) << 60, &charges[i]));
  }
  for (unsigned i = 0; i < 3; i++) {
    quota_release(&charges[i]);
  }
  ck_assert_ptr_null(quota_free(quota));
}
END_TEST

START_TEST(sessions_are_counted_for_each_user) {
  struct quota_charge first = {0}, second = {0}, third = {0}, other = {0};
  make(2, 0);
  ck_assert(charge(7, 1, &first) && charge(7, 1, &second));
  ck_assert(!charge(7, 1, &third));
  ck_assert_str_eq(problem, "user 7 already has its 2 sessions");
  ck_assert(charge(8, 1, &other));
  quota_release(&first);
  quota_release(&first); /* once */
  ck_assert(charge(7, 1, &third));
  ck_assert(!charge(7, 1, &first));
  quota_release(&second);
  quota_release(&third);
  quota_release(&other);
  ck_assert_ptr_null(quota_free(quota));
}
END_TEST

START_TEST(memory_is_counted_for_each_user) {
  struct quota_charge first = {0}, second = {0}, other = {0};
  make(0, 1 << 20);
  ck_assert(charge(7, 1 << 19, &first));
  ck_assert(!charge(7, (1 << 19) + 1, &second));
  ck_assert_str_eq(problem, "the clients of user 7 would take 1048577 bytes, more than its 1MiB");
  ck_assert(charge(8, 1 << 20, &other));
  ck_assert(charge(7, 1 << 19, &second));
  quota_release(&first);
  quota_release(&second);
  quota_release(&other);
  ck_assert_ptr_null(quota_free(quota));
}
END_TEST

START_TEST(readers_are_counted_apart_and_their_memory_with_that_of_sessions) {
  struct quota_charge session = {0}, first = {0}, second = {0}, third = {0};
  make(1, 100);
  quota_limit(quota, &(struct config_limits){.sessions_per_user = 1, .readers_per_user = 2, .memory_per_user = 100});
  ck_assert(charge(7, 60, &session));
  ck_assert(quota_charge(quota, 7, QUOTA_READER, 40, &first, problem));
  ck_assert(!quota_charge(quota, 7, QUOTA_READER, 1, &second, problem));
  ck_assert_str_eq(problem, "the clients of user 7 would take 101 bytes, more than its 100B");
  ck_assert(quota_charge(quota, 7, QUOTA_READER, 0, &second, problem));
  ck_assert(!quota_charge(quota, 7, QUOTA_READER, 0, &third, problem));
  ck_assert_str_eq(problem, "user 7 already has its 2 readers");
  quota_release(&session);
  quota_release(&first);
  ck_assert(quota_charge(quota, 7, QUOTA_READER, 100, &third, problem));
  quota_release(&second);
  quota_release(&third);
  ck_assert_ptr_null(quota_free(quota));
}
END_TEST

START_TEST(memory_of_who_has_left_counts_until_it_is_given_up) {
  struct quota_charge first = {0}, second = {0};
  make(1, 100);
  ck_assert(charge(7, 60, &first));
  quota_leave(&first);
  quota_leave(&first); /* once */
  ck_assert(!charge(7, 60, &second));
  ck_assert(charge(7, 40, &second));
  quota_release(&second);
  quota_release(&first);
  ck_assert(charge(7, 100, &second));
  quota_release(&second);
  ck_assert_ptr_null(quota_free(quota));
}
END_TEST

START_TEST(new_limits_take_nothing_away) {
  struct quota_charge first = {0}, second = {0}, third = {0};
  make(0, 0);
  ck_assert(charge(7, 5, &first) && charge(7, 5, &second));
  quota_limit(quota, &(struct config_limits){.sessions_per_user = 1});
  ck_assert(!charge(7, 5, &third));
  quota_release(&first);
  ck_assert(!charge(7, 5, &third));
  quota_release(&second);
  ck_assert(charge(7, 5, &third));
  quota_release(&third);
  ck_assert_ptr_null(quota_free(quota));
}
END_TEST

Suite *quota_suite(void);

Suite *quota_suite(void) {
  Suite *suite = suite_create("quota");
  TCase *all = tcase_create("all");
  tcase_add_test(all, without_limits_everybody_may_have_everything);
  tcase_add_test(all, sessions_are_counted_for_each_user);
  tcase_add_test(all, memory_is_counted_for_each_user);
  tcase_add_test(all, readers_are_counted_apart_and_their_memory_with_that_of_sessions);
  tcase_add_test(all, memory_of_who_has_left_counts_until_it_is_given_up);
  tcase_add_test(all, new_limits_take_nothing_away);
  suite_add_tcase(suite, all);
  return suite;
}
