/* Percentiles by the nearest rank, whatever the order in which samples came. */
#include "tools/framebench/common/samples.h"

#include "tests/unit/runner.h"

static double percentile(const double *values, size_t count, double share) {
  struct samples samples = {0};
  for (size_t i = 0; i < count; i++) {
    ck_assert(samples_add(&samples, values[i]));
  }
  double value = samples_percentile(&samples, share);
  samples_free(&samples);
  return value;
}

START_TEST(test_nearest_rank) {
  const double values[] = {40, 10, 30, 20};
  ck_assert_double_eq(percentile(values, 4, 0), 10);
  ck_assert_double_eq(percentile(values, 4, 0.25), 10);
  ck_assert_double_eq(percentile(values, 4, 0.26), 20);
  ck_assert_double_eq(percentile(values, 4, 0.5), 20);
  ck_assert_double_eq(percentile(values, 4, 0.99), 40);
  ck_assert_double_eq(percentile(values, 4, 1), 40);
}
END_TEST

START_TEST(test_one_and_none) {
  const double value = 7;
  ck_assert_double_eq(percentile(&value, 1, 0.5), 7);
  ck_assert_double_eq(percentile(&value, 0, 0.5), 0);
}
END_TEST

START_TEST(test_many) {
  struct samples samples = {0};
  for (int i = 5000; i > 0; i--) {
    ck_assert(samples_add(&samples, i));
  }
  ck_assert_uint_eq(samples.count, 5000);
  ck_assert_double_eq(samples_percentile(&samples, 0.999), 4995);
  ck_assert(samples_add(&samples, 0.5)); /* sorted or not, more may come */
  ck_assert_double_eq(samples_percentile(&samples, 0), 0.5);
  samples_free(&samples);
  ck_assert_uint_eq(samples.count, 0);
}
END_TEST

Suite *samples_suite(void);
Suite *samples_suite(void) {
  Suite *suite = suite_create("samples");
  TCase *cases = tcase_create("samples");
  tcase_add_test(cases, test_nearest_rank);
  tcase_add_test(cases, test_one_and_none);
  tcase_add_test(cases, test_many);
  suite_add_tcase(suite, cases);
  return suite;
}
