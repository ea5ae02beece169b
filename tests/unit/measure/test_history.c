/* How often one process image followed another, and for how long nothing moved. */
#include <check.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/measure/history.h"

START_TEST(gaps_are_summed) {
  struct history history = {0};
  history_end(&history, HISTORY_FAULT, "it fell", 1000);
  history_begin(&history, 1300);
  history_end(&history, HISTORY_UPGRADE, "it grew", 5000);
  history_begin(&history, 5100);
  ck_assert(history.gap == 100 && history.longest == 300 && history.total == 400);
  ck_assert(history.counts[HISTORY_FAULT] == 1 && history.counts[HISTORY_UPGRADE] == 1);
  ck_assert(history.cause == HISTORY_UPGRADE && strcmp(history.text, "it grew") == 0);
}
END_TEST

START_TEST(workers_are_counted) {
  struct worker_history workers = {0};
  worker_history_begin(&workers, 1000);
  ck_assert(workers.generation == 1 && workers.replaced == 0 && workers.since == 1000 && workers.gap == 0);
  worker_history_replace(&workers, "it fell", 2000, 2300);
  worker_history_begin(&workers, 5000); /* of the next image */
  ck_assert(workers.generation == 3 && workers.replaced == 1 && workers.since == 5000);
  ck_assert(workers.stopped == 2000 && workers.gap == 300 && strcmp(workers.text, "it fell") == 0);
}
END_TEST

START_TEST(so_many_faults_a_minute_are_too_many) {
  struct history history = {0};
  int64_t now = 100 * NS_PER_S;
  ck_assert(history_is_too_fast(&history, 0, now));
  for (int i = 0; i < 5; i++) {
    ck_assert(!history_is_too_fast(&history, 5, now));
    history_note_fault(&history, now);
    now += NS_PER_S;
  }
  ck_assert(history_is_too_fast(&history, 5, now));
  ck_assert(!history_is_too_fast(&history, 6, now));
  ck_assert(!history_is_too_fast(&history, 5, now + 60 * NS_PER_S));
}
END_TEST

START_TEST(upgrades_are_no_faults) {
  struct history history = {0};
  history_end(&history, HISTORY_UPGRADE, "", NS_PER_S);
  ck_assert(!history_is_too_fast(&history, 1, 2 * NS_PER_S));
}
END_TEST

Suite *history_suite(void);

Suite *history_suite(void) {
  Suite *suite = suite_create("history");
  TCase *all = tcase_create("all");
  tcase_add_test(all, gaps_are_summed);
  tcase_add_test(all, workers_are_counted);
  tcase_add_test(all, so_many_faults_a_minute_are_too_many);
  tcase_add_test(all, upgrades_are_no_faults);
  suite_add_tcase(suite, all);
  return suite;
}
