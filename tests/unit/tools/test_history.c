/* Rates from successive looks, across daemons that come and go. */
#include "tools/framectl/status/history.h"

#include <stdlib.h>

#include "tests/unit/runner.h"

static struct history *history;

static void setup(void) { history = calloc(1, sizeof *history); }
static void teardown(void) { free(history); }

static const struct history_line *look(const char *name, uint64_t emitted, uint64_t late, double seconds) {
  struct pipeline_view view = {.name = name};
  view.fates[FATE_EMITTED] = emitted;
  view.fates[FATE_LATE] = late;
  return history_add(history, &view, seconds);
}

START_TEST(rates_are_differences) {
  const struct history_line *line = look("cam0", 1000, 5, 10);
  ck_assert_double_eq(history_rate(line, 0), -1);
  look("cam0", 1060, 5, 11);
  look("cam0", 1090, 8, 13);
  ck_assert_double_eq(history_rate(line, 0), 15);
  ck_assert_double_eq(history_rate(line, 1), 60);
  ck_assert_double_eq(history_rate(line, 2), -1);
  ck_assert_uint_eq(line->fresh_drops, 3);
  look("cam0", 1090, 8, 14);
  ck_assert_uint_eq(line->fresh_drops, 0);
}
END_TEST

START_TEST(pipelines_do_not_mix) {
  look("cam0", 0, 0, 1);
  look("cam1", 0, 0, 1);
  look("cam0", 10, 0, 2);
  look("cam1", 20, 0, 2);
  ck_assert_double_eq(history_rate(history_find(history, "cam0"), 0), 10);
  ck_assert_double_eq(history_rate(history_find(history, "cam1"), 0), 20);
  ck_assert_ptr_null(history_find(history, "cam2"));
}
END_TEST

START_TEST(a_new_daemon_starts_from_zero) {
  const struct history_line *line = look("cam0", 1000, 5, 1);
  look("cam0", 1010, 5, 2);
  look("cam0", 3, 0, 3); /* counters went back */
  ck_assert_double_eq(history_rate(line, 0), 10);
  look("cam0", 33, 0, 4);
  ck_assert_double_eq(history_rate(line, 0), 30);
  history_break(history);
  look("cam0", 99999, 0, 5); /* what happened while it was away is nobody's rate */
  ck_assert_double_eq(history_rate(line, 0), 30);
}
END_TEST

START_TEST(old_rates_leave) {
  const struct history_line *line = NULL;
  for (unsigned i = 0; i <= 3 * HISTORY_LENGTH; i++) {
    line = look("cam0", (uint64_t)i * i, 0, i);
  }
  ck_assert_double_eq(history_rate(line, 0), 2 * 3 * HISTORY_LENGTH - 1);
  ck_assert_double_eq(history_rate(line, HISTORY_LENGTH - 1), 2 * 2 * HISTORY_LENGTH + 1);
  ck_assert_double_eq(history_rate(line, HISTORY_LENGTH), -1);
}
END_TEST

START_TEST(more_pipelines_than_places_are_left_out) {
  for (int i = 0; i < HISTORY_PIPELINES; i++) {
    char name[16];
    snprintf(name, sizeof name, "p%d", i);
    ck_assert_ptr_nonnull(look(name, 0, 0, 1));
  }
  ck_assert_ptr_null(look("one more", 0, 0, 1));
  ck_assert_ptr_nonnull(look("p5", 0, 0, 2));
}
END_TEST

Suite *history_suite(void);
Suite *history_suite(void) {
  Suite *suite = suite_create("history");
  TCase *cases = tcase_create("history");
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_add_test(cases, rates_are_differences);
  tcase_add_test(cases, pipelines_do_not_mix);
  tcase_add_test(cases, a_new_daemon_starts_from_zero);
  tcase_add_test(cases, old_rates_leave);
  tcase_add_test(cases, more_pipelines_than_places_are_left_out);
  suite_add_tcase(suite, cases);
  return suite;
}
