/* What intervals sum up to, against sums made by hand. */
#include "tools/framebench/overlap/intervals.h"

#include "tests/unit/runner.h"

static void check_summary(struct intervals *intervals, uint64_t longest_gap, const struct intervals_summary *wanted) {
  struct intervals_summary summary = intervals_summarise(intervals, longest_gap);
  ck_assert_double_eq_tol(summary.busy, wanted->busy, 1e-9);
  ck_assert_double_eq_tol(summary.sum, wanted->sum, 1e-9);
  ck_assert_double_eq_tol(summary.gaps, wanted->gaps, 1e-9);
  ck_assert_uint_eq(summary.overlapping, wanted->overlapping);
}

START_TEST(nothing_sums_up_to_nothing) {
  struct intervals intervals = {0};
  check_summary(&intervals, 1000, &(struct intervals_summary){0});
  intervals_forget(&intervals);
}
END_TEST

/* From 5 to 7 us, 1 to 3 after that was added, 2 to 4 across it, one within another, and one far off. */
START_TEST(what_overlaps_counts_once) {
  struct intervals intervals = {0};
  const uint64_t ends[][2] = {{5000, 7000}, {1000, 3000}, {2000, 4000}, {5500, 6000}, {107000, 108000}};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    ck_assert(intervals_add(&intervals, ends[i][0], ends[i][1]));
  }
  check_summary(&intervals, 1000, &(struct intervals_summary){.busy = 6, .sum = 7.5, .gaps = 1, .overlapping = 2});
  check_summary(&intervals, 999, &(struct intervals_summary){.busy = 6, .sum = 7.5, .gaps = 0, .overlapping = 2});
  check_summary(&intervals, 100000, &(struct intervals_summary){.busy = 6, .sum = 7.5, .gaps = 101, .overlapping = 2});
  intervals_forget(&intervals);
  check_summary(&intervals, 1000, &(struct intervals_summary){0});
}
END_TEST

START_TEST(many_are_kept) {
  struct intervals intervals = {0};
  for (uint64_t i = 5000; i > 0; i--) {
    ck_assert(intervals_add(&intervals, i * 1000, i * 1000 + 1000));
  }
  check_summary(&intervals, 0, &(struct intervals_summary){.busy = 5000, .sum = 5000});
  intervals_forget(&intervals);
}
END_TEST

Suite *intervals_suite(void);
Suite *intervals_suite(void) {
  Suite *suite = suite_create("intervals");
  TCase *cases = tcase_create("intervals");
  tcase_add_test(cases, nothing_sums_up_to_nothing);
  tcase_add_test(cases, what_overlaps_counts_once);
  tcase_add_test(cases, many_are_kept);
  suite_add_tcase(suite, cases);
  return suite;
}
