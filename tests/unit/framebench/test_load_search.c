/* The search for the highest rate, against models of a server whose limit is known. */
#include "tools/framebench/load/search.h"

#include <math.h>

#include "tests/unit/runner.h"

enum { PATIENCE = 64 };

static struct problem problem;

static struct model {
  double capacity;   /* frames a second */
  double service_us; /* of a frame when nothing waits */
  double bound_us;   /* of the goal */
  double rates[PATIENCE];
  unsigned tries;
  bool breaks;
} model;

static void setup(void) {
  problem = (struct problem){0};
  model = (struct model){.capacity = 10000, .service_us = 100, .bound_us = 1000};
}

static void teardown(void) { problem_clear(&problem); }

/* A queue: the latency grows without bound as the rate nears the capacity. */
static double latency(double rate) { return rate < model.capacity ? model.service_us / (1 - rate / model.capacity) : INFINITY; }

static bool attempt(void *context, double rate, bool *holds, struct problem *why) {
  (void)context;
  ck_assert_uint_lt(model.tries, PATIENCE);
  model.rates[model.tries++] = rate;
  *holds = latency(rate) < model.bound_us;
  return !model.breaks || problem_set(why, EXIT_STATUS_NO_DAEMON, NULL, "it is gone");
}

static double search(double top, double precision) {
  double best = -1;
  ck_assert(load_search(top, precision, attempt, NULL, &best, &problem));
  return best;
}

START_TEST(the_highest_rate_is_found) {
  double answer = model.capacity * (1 - model.service_us / model.bound_us);
  double best = search(model.capacity, 0.02);
  ck_assert(best < answer && best * 1.02 >= answer);
  ck_assert_uint_le(model.tries, 10);
}
END_TEST

START_TEST(a_finer_search_comes_closer) {
  double answer = model.capacity * (1 - model.service_us / model.bound_us);
  double best = search(model.capacity * 1.3, 0.0005);
  ck_assert(best < answer && best * 1.0005 >= answer);
}
END_TEST

START_TEST(a_low_limit_is_found_from_far_above) {
  model.capacity = 50;
  double answer = model.capacity * (1 - model.service_us / model.bound_us);
  double best = search(10000, 0.02);
  ck_assert(best < answer && best * 1.02 >= answer);
}
END_TEST

START_TEST(the_top_itself_may_hold) {
  model.bound_us = INFINITY;
  ck_assert_double_eq(search(5000, 0.02), 5000);
  ck_assert_uint_eq(model.tries, 1);
}
END_TEST

START_TEST(nothing_may_hold) {
  model.bound_us = model.service_us / 2;
  ck_assert_double_eq(search(10000, 0.02), 0);
  ck_assert_uint_eq(model.tries, 10);
}
END_TEST

START_TEST(a_problem_ends_it) {
  double best;
  model.breaks = true;
  ck_assert(!load_search(10000, 0.02, attempt, NULL, &best, &problem));
  ck_assert_uint_eq(model.tries, 1);
  ck_assert_str_eq(problem.text, "it is gone");
}
END_TEST

START_TEST(goals_are_read) {
  static const struct {
    const char *text;
    double share, us;
  } cases[] = {{"p99<5ms", 0.99, 5000},
               {"p99.99<800us", 0.9999, 800},
               {"p50<=1.5ms", 0.5, 1500},
               {"max<2s", 1, 2e6},
               {"p100<1ms", 1, 1000}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct load_goal goal;
    ck_assert_msg(load_goal_parse(cases[i].text, &goal, &problem), "%s", cases[i].text);
    ck_assert_double_eq_tol(goal.share, cases[i].share, 1e-12);
    ck_assert_double_eq_tol(goal.us, cases[i].us, 1e-9);
  }
}
END_TEST

START_TEST(what_is_no_goal_is_refused) {
  static const char *const texts[] = {"",
                                      "p99",
                                      "p99>5ms",
                                      "p99<5",
                                      "p99<",
                                      "q99<5ms",
                                      "p0<5ms",
                                      "p101<1s",
                                      "p<5ms",
                                      "p99<0ms",
                                      "p99<-1ms",
                                      "p99<5m/s",
                                      "max2<5ms",
                                      "<5ms",
                                      "pnan<1s",
                                      "p99 <<5 ms",
                                      "p99999999999999999999<1ms"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct load_goal goal;
    ck_assert_msg(!load_goal_parse(texts[i], &goal, &problem), "%s", texts[i]);
    ck_assert_int_eq(problem.status, EXIT_STATUS_USAGE);
    ck_assert_ptr_nonnull(problem.remedy);
  }
}
END_TEST

Suite *load_search_suite(void);
Suite *load_search_suite(void) {
  Suite *suite = suite_create("load_search");
  TCase *cases = tcase_create("load_search");
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_add_test(cases, the_highest_rate_is_found);
  tcase_add_test(cases, a_finer_search_comes_closer);
  tcase_add_test(cases, a_low_limit_is_found_from_far_above);
  tcase_add_test(cases, the_top_itself_may_hold);
  tcase_add_test(cases, nothing_may_hold);
  tcase_add_test(cases, a_problem_ends_it);
  tcase_add_test(cases, goals_are_read);
  tcase_add_test(cases, what_is_no_goal_is_refused);
  suite_add_tcase(suite, cases);
  return suite;
}
