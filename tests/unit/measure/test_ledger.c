/* The ledger's names and sums: status, metrics, documents and tools all take them from here. */
#include "daemon/measure/ledger.h"

#include <string.h>

#include "tests/unit/runner.h"

static unsigned count_bad_names(const char *const *names, const char *const *texts, int count) {
  unsigned bad = 0;
  for (int i = 0; i < count; i++) {
    bad += strlen(names[i]) == 0 || strspn(names[i], "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(names[i]);
    bad += strlen(texts[i]) < 10 || texts[i][strlen(texts[i]) - 1] == '.';
    for (int other = 0; other < i; other++) {
      bad += strcmp(names[i], names[other]) == 0;
    }
  }
  return bad;
}

START_TEST(names_can_be_keys_and_labels) {
  ck_assert_uint_eq(count_bad_names(fate_names, fate_meanings, FATE_COUNT), 0);
  ck_assert_uint_eq(count_bad_names(step_names, step_help, STEP_COUNT), 0);
}
END_TEST

START_TEST(names_are_those_of_the_design) {
  ck_assert_str_eq(fate_names[FATE_EMITTED], "emitted");
  ck_assert_str_eq(fate_names[FATE_GPU_FAULT], "gpu_fault");
  ck_assert_str_eq(fate_names[FATE_CLIENT_GONE], "client_gone");
  ck_assert_str_eq(step_names[STEP_GPU_WAIT], "gpu_wait");
  ck_assert_int_eq(FATE_COUNT, 10);
  ck_assert_int_eq(STEP_TOTAL, STEP_COUNT - 1);
}
END_TEST

START_TEST(sums_take_every_field) {
  struct ledger sum = {.in = 1, .in_flight = 2, .in_bytes = 3, .out_bytes = 4},
                other = {.in = 10, .in_flight = 20, .in_bytes = 30, .out_bytes = 40};
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    sum.fates[fate] = (uint64_t)fate;
    other.fates[fate] = 100;
  }
  ledger_add(&sum, &other);
  ck_assert_uint_eq(sum.in, 11);
  ck_assert_uint_eq(sum.in_flight, 22);
  ck_assert_uint_eq(sum.in_bytes, 33);
  ck_assert_uint_eq(sum.out_bytes, 44);
  for (int fate = 0; fate < FATE_COUNT; fate++) {
    ck_assert_uint_eq(sum.fates[fate], 100 + (uint64_t)fate);
  }
}
END_TEST

Suite *ledger_suite(void);
Suite *ledger_suite(void) {
  Suite *suite = suite_create("ledger");
  TCase *cases = tcase_create("ledger");
  tcase_add_test(cases, names_can_be_keys_and_labels);
  tcase_add_test(cases, names_are_those_of_the_design);
  tcase_add_test(cases, sums_take_every_field);
  suite_add_tcase(suite, cases);
  return suite;
}
