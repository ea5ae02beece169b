/* When the machine's processors are short, by what the kernel says. */
#include "daemon/base/processors.h"

#include <string.h>

#include "tests/unit/runner.h"

static const char before[] = "cpu  1000 0 0 9000 0 0 0 0 0 0\ncpu0 1 0\ncpu1 1 0\nintr 5 1\nprocs_running 1\n";

static struct processors after(const char *stat, const char *pressure, uint64_t mine) {
  struct processors processors = {0};
  processors_note(&processors, before, "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n", 100);
  processors_note(&processors, stat, pressure, mine);
  return processors;
}

static const char busy[] = "cpu  1900 0 0 9100 0 0 0 0 0 0\ncpu0 1 0\ncpu1 1 0\nintr 5 1\nprocs_running 7\n",
                  robbed[] = "cpu  1500 0 0 9300 0 0 0 200 0 0\ncpu0 1 0\ncpu1 1 0\nintr 5 1\nprocs_running 1\n",
                  waited[] = "some avg10=45.00 avg60=0.00 avg300=0.00 total=1\n",
                  quiet[] = "some avg10=1.00 avg60=0.00 avg300=0.00 total=1\n";

START_TEST(shares_are_of_what_has_passed) {
  struct processors processors = after(busy, waited, 400);
  ck_assert_uint_eq(processors.count, 2);
  ck_assert_uint_eq(processors.ready, 7);
  ck_assert_double_eq_tol(processors.used, 0.9, 1e-9);
  ck_assert_double_eq_tol(processors.own, 0.3, 1e-9);
  ck_assert_double_eq_tol(processors.waited, 0.45, 1e-9);
  processors = after(robbed, quiet, 100);
  ck_assert_double_eq_tol(processors.stolen, 0.2, 1e-9);
}
END_TEST

START_TEST(they_are_short_where_others_take_them) {
  struct processors others = after(busy, waited, 400), ours = after(busy, waited, 900), calm = after(busy, quiet, 400),
                    stolen = after(robbed, quiet, 400), first = {0};
  ck_assert(processors_are_short(&others));
  ck_assert(!processors_are_short(&ours));
  ck_assert(!processors_are_short(&calm));
  ck_assert(processors_are_short(&stolen));
  ck_assert(!processors_are_short(&first));
}
END_TEST

START_TEST(without_pressure_who_is_ready_counts) {
  struct processors processors = after(busy, "", 400);
  ck_assert_double_eq_tol(processors.waited, 0.25, 1e-9);
  processors_look(&processors); /* of this machine: nothing to expect but that it is read */
  ck_assert_uint_gt(processors.count, 0);
  ck_assert_uint_gt(processors.total, 0);
}
END_TEST

Suite *processors_suite(void);
Suite *processors_suite(void) {
  Suite *suite = suite_create("processors");
  TCase *all = tcase_create("all");
  tcase_add_test(all, shares_are_of_what_has_passed);
  tcase_add_test(all, they_are_short_where_others_take_them);
  tcase_add_test(all, without_pressure_who_is_ready_counts);
  suite_add_tcase(suite, all);
  return suite;
}
