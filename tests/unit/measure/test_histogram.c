/* Histograms of durations: how exact a figure is, what lies between two looks, and reading while another records. */
#include "daemon/measure/histogram.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

enum { COUNT = 200000 };

static const int64_t last_edge = INT64_C(128) << (HISTOGRAM_OCTAVES - 1);

static struct histogram_view *look_at(const struct histogram *histogram) {
  struct histogram_view *view = calloc(1, sizeof *view);
  histogram_read(histogram, view);
  return view;
}

/* Where one value is counted. */
static unsigned bucket_of(int64_t ns) {
  struct histogram *histogram = calloc(1, sizeof *histogram);
  histogram_record(histogram, ns);
  unsigned bucket = 0;
  while (bucket < HISTOGRAM_BUCKETS && histogram->counts[bucket] == 0) {
    bucket++;
  }
  free(histogram);
  return bucket;
}

static struct histogram_summary summarize(const struct histogram *histogram) {
  struct histogram_view *view = look_at(histogram);
  struct histogram_summary summary = histogram_summarize(view, NULL);
  free(view);
  return summary;
}

/* From 1 ns to the end of the scale in steps of 0.7 %: 3 % or, below 128 ns, half a bucket of 4 ns. */
START_TEST(a_value_is_exact_to_three_percent) {
  double worst = 0;
  for (double exact = 1; exact < (double)last_edge; exact = ceil(exact * 1.007)) {
    double error = fabs((double)histogram_value(bucket_of((int64_t)exact)) - exact);
    double relative = error <= 2 ? 0 : error / exact;
    worst = relative > worst ? relative : worst;
  }
  ck_assert_double_le(worst, 0.03);
  ck_assert_double_gt(worst, 0.001); /* the loop did look */
}
END_TEST

START_TEST(edges_ascend_without_a_gap) {
  unsigned wrong = 0;
  int64_t edge = 0;
  for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
    int64_t upper = histogram_upper_edge(bucket), middle = histogram_value(bucket);
    wrong += upper <= edge || middle < edge || middle >= upper;
    wrong += bucket_of(edge) != bucket || bucket_of(upper - 1) != bucket;
    edge = upper;
  }
  ck_assert_uint_eq(wrong, 0);
  ck_assert_int_eq(edge, last_edge);
}
END_TEST

START_TEST(what_is_off_the_scale_is_in_the_end_buckets) {
  ck_assert_uint_eq(bucket_of(0), 0);
  ck_assert_uint_eq(bucket_of(-5), 0);
  ck_assert_uint_eq(bucket_of(INT64_MIN), 0);
  ck_assert_uint_eq(bucket_of(last_edge), HISTOGRAM_BUCKETS - 1);
  ck_assert_uint_eq(bucket_of(INT64_MAX), HISTOGRAM_BUCKETS - 1);
}
END_TEST

START_TEST(nothing_recorded_is_zero) {
  static struct histogram histogram;
  struct histogram_summary summary = summarize(&histogram), zero = {0};
  ck_assert_mem_eq(&summary, &zero, sizeof zero);
}
END_TEST

static int compare(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static void expect_near(double got_us, int64_t exact_ns) {
  ck_assert_double_le(fabs(got_us * 1e3 - (double)exact_ns), 0.03 * (double)exact_ns + 2);
}

/* Against the sorted values themselves, spread over nine decades. */
START_TEST(quantiles_agree_with_sorted_values) {
  static struct histogram histogram;
  int64_t *values = malloc(COUNT * sizeof *values);
  double sum = 0;
  srand(7);
  for (int i = 0; i < COUNT; i++) {
    values[i] = (int64_t)exp((double)rand() / RAND_MAX * log(1e10));
    sum += (double)values[i];
    histogram_record(&histogram, values[i]);
  }
  qsort(values, COUNT, sizeof *values, compare);
  struct histogram_summary summary = summarize(&histogram);
  ck_assert_uint_eq(summary.count, COUNT);
  expect_near(summary.p50, values[COUNT / 2 - 1]);
  expect_near(summary.p90, values[COUNT / 10 * 9 - 1]);
  expect_near(summary.p99, values[COUNT / 100 * 99 - 1]);
  expect_near(summary.p999, values[COUNT / 1000 * 999 - 1]);
  expect_near(summary.max, values[COUNT - 1]);
  ck_assert_double_le(fabs(summary.mean * 1e3 * COUNT - sum), 1e-9 * sum);
  free(values);
}
END_TEST

START_TEST(a_difference_sees_only_what_came_between) {
  static struct histogram histogram;
  for (int i = 0; i < 1000; i++) {
    histogram_record(&histogram, 1000000);
  }
  struct histogram_view *before = look_at(&histogram);
  for (int i = 0; i < 10; i++) {
    histogram_record(&histogram, 5000);
  }
  struct histogram_view *now = look_at(&histogram);
  struct histogram_summary summary = histogram_summarize(now, before);
  ck_assert_uint_eq(summary.count, 10);
  expect_near(summary.max, 5000);
  expect_near(summary.mean, 5000);
  summary = histogram_summarize(now, now);
  ck_assert_uint_eq(summary.count, 0);
  ck_assert_double_eq(summary.p99, 0);
  free(before);
  free(now);
}
END_TEST

START_TEST(any_share_can_be_asked_of_a_view) {
  struct histogram *histogram = calloc(1, sizeof *histogram);
  for (int64_t us = 1; us <= 10000; us++) {
    histogram_record(histogram, us * 1000);
  }
  struct histogram_view *view = look_at(histogram);
  static const double shares[] = {0.0001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
    double exact = shares[i] * 10000;
    ck_assert_double_le(fabs(histogram_quantile(view, shares[i]) - exact), exact * 0.03);
  }
  *view = (struct histogram_view){0};
  ck_assert_double_eq(histogram_quantile(view, 0.5), 0);
  free(view);
  free(histogram);
}
END_TEST

START_TEST(reading_adds_to_a_view) {
  static struct histogram one, other;
  histogram_record(&one, 300);
  histogram_record(&other, 300);
  histogram_record(&other, 70000);
  struct histogram_view *view = look_at(&one);
  histogram_read(&other, view);
  struct histogram_summary summary = histogram_summarize(view, NULL);
  ck_assert_uint_eq(summary.count, 3);
  ck_assert_uint_eq(view->sum_ns, 70600);
  free(view);
}
END_TEST

static void *record_many(void *context) {
  struct histogram *histogram = context;
  for (int i = 0; i < COUNT; i++) {
    histogram_record(histogram, i);
  }
  return NULL;
}

/* Each look sees at least what the look before saw, in every bucket; TSan sees the rest. */
START_TEST(readers_need_no_lock) {
  static struct histogram histogram;
  pthread_t recorder;
  ck_assert_int_eq(pthread_create(&recorder, NULL, record_many, &histogram), 0);
  struct histogram_view *before = calloc(1, sizeof *before);
  unsigned went_back = 0;
  uint64_t total = 0;
  while (total < COUNT) {
    struct histogram_view *now = look_at(&histogram);
    total = histogram_summarize(now, NULL).count;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
      went_back += now->counts[i] < before->counts[i];
    }
    free(before);
    before = now;
  }
  free(before);
  pthread_join(recorder, NULL);
  ck_assert_uint_eq(went_back, 0);
  ck_assert_uint_eq(summarize(&histogram).count, COUNT);
}
END_TEST

Suite *histogram_suite(void);
Suite *histogram_suite(void) {
  Suite *suite = suite_create("histogram");
  TCase *cases = tcase_create("histogram");
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, a_value_is_exact_to_three_percent);
  tcase_add_test(cases, edges_ascend_without_a_gap);
  tcase_add_test(cases, what_is_off_the_scale_is_in_the_end_buckets);
  tcase_add_test(cases, nothing_recorded_is_zero);
  tcase_add_test(cases, quantiles_agree_with_sorted_values);
  tcase_add_test(cases, a_difference_sees_only_what_came_between);
  tcase_add_test(cases, any_share_can_be_asked_of_a_view);
  tcase_add_test(cases, reading_adds_to_a_view);
  tcase_add_test(cases, readers_need_no_lock);
  suite_add_tcase(suite, cases);
  return suite;
}
