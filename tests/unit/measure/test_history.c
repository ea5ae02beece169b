/* How often one process image followed another, and for how long nothing moved. */
#include <check.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "daemon/measure/history.h"
#include "daemon/state/state.h"

START_TEST(gaps_are_summed) {
  struct succession succession = {0};
  succession_end(&succession, SUCCESSION_FAULT, "it fell", 1000);
  succession_begin(&succession, 1300);
  succession_end(&succession, SUCCESSION_UPGRADE, "it grew", 5000);
  succession_begin(&succession, 5100);
  ck_assert(succession.gap == 100 && succession.longest == 300 && succession.total == 400);
  ck_assert(succession.counts[SUCCESSION_FAULT] == 1 && succession.counts[SUCCESSION_UPGRADE] == 1);
  ck_assert(succession.cause == SUCCESSION_UPGRADE && strcmp(succession.text, "it grew") == 0);
}
END_TEST

START_TEST(so_many_faults_a_minute_are_too_many) {
  struct succession succession = {0};
  int64_t now = 100 * NS_PER_S;
  ck_assert(succession_is_too_fast(&succession, 0, now));
  for (int i = 0; i < 5; i++) {
    ck_assert(!succession_is_too_fast(&succession, 5, now));
    succession_note_fault(&succession, now);
    now += NS_PER_S;
  }
  ck_assert(succession_is_too_fast(&succession, 5, now));
  ck_assert(!succession_is_too_fast(&succession, 6, now));
  ck_assert(!succession_is_too_fast(&succession, 5, now + 60 * NS_PER_S));
}
END_TEST

START_TEST(upgrades_are_no_faults) {
  struct succession succession = {0};
  succession_end(&succession, SUCCESSION_UPGRADE, "", NS_PER_S);
  ck_assert(!succession_is_too_fast(&succession, 1, 2 * NS_PER_S));
}
END_TEST

START_TEST(its_place_on_a_tape_can_take_another) {
  struct tape tape;
  uint32_t before = 7, after = 9;
  struct succession succession = {0}, taken;
  succession_end(&succession, SUCCESSION_UPGRADE, "it grew", 1000);
  tape_begin(&tape);
  TAPE_PASS(&tape, before);
  size_t at = tape.length;
  succession_pass(&succession, &tape);
  TAPE_PASS(&tape, after);
  succession_note_fault(&succession, 2000);
  succession_end(&succession, SUCCESSION_FAULT, "it fell", succession.stopped);
  ck_assert(!succession_replace(&succession, &tape, tape.length - 1));
  ck_assert(succession_replace(&succession, &tape, at));
  tape.writing = false;
  before = after = 0;
  TAPE_PASS(&tape, before);
  succession_pass(&taken, &tape);
  TAPE_PASS(&tape, after);
  ck_assert(tape_is_at_end(&tape) && before == 7 && after == 9);
  ck_assert(taken.counts[SUCCESSION_UPGRADE] == 1 && taken.counts[SUCCESSION_FAULT] == 1 && taken.faults[0] == 2000);
  ck_assert(taken.stopped == 1000 && strcmp(taken.text, "it fell") == 0);
  tape_clear(&tape);
}
END_TEST

Suite *history_suite(void);

Suite *history_suite(void) {
  Suite *suite = suite_create("history");
  TCase *all = tcase_create("all");
  tcase_add_test(all, gaps_are_summed);
  tcase_add_test(all, so_many_faults_a_minute_are_too_many);
  tcase_add_test(all, upgrades_are_no_faults);
  tcase_add_test(all, its_place_on_a_tape_can_take_another);
  suite_add_tcase(suite, all);
  return suite;
}
