/* What the daemon foretells of measurements that go by the model, and of some that do not; and what bounds them. */
#include "daemon/measure/overlap.h"
#include "tools/framebench/overlap/overlap.h"

#include <string.h>

#include "tests/unit/runner.h"

enum { MANY = 2000 };

/* A row as the engine would make it: all that is waited for is on the device, but for the turnaround. */
static json_t *row_of(const struct overlap_work *work, const char *way, double stretch) {
  double us = overlap_wall(work, MANY) / MANY * stretch;
  double held = overlap_sum(work) + work->turnaround + work->host;
  double wait = us * work->slots > held ? us * work->slots - held : 0;
  return json_pack("{s:i, s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "bytes", 4096, "kernel", "affine",
                   "way", way, "graph", "no", "slots", (int)work->slots, "us", us, "ideal_us", us, "h2d_us",
                   work->service[OVERLAP_H2D], "kernel_us", work->service[OVERLAP_KERNEL], "d2h_us", work->service[OVERLAP_D2H],
                   "wait_us", wait, "host_us", work->host, "notice_us", work->turnaround);
}

/* Predictions of the rows with 1, 3 and 4 slots, of which the last take so much longer; gives how many there are. */
static size_t predict(const struct overlap_work *work, const char *way, double stretch, double ratios[3]) {
  static const struct column columns[] = {{"us", "US", COLUMN_TIME}, {0}};
  static const struct section section = {"rows", "Rows", columns};
  struct results *results = results_new("overlap", true, json_object());
  ck_assert_ptr_nonnull(results);
  results_section(results, &section);
  for (unsigned slots = 1; slots <= 4; slots++) {
    struct overlap_work other = *work;
    other.slots = slots;
    results_row(results, row_of(&other, way, slots > 2 ? stretch : 1));
  }
  overlap_predict(results, 1);
  const json_t *predictions = results_rows(results, "predictions");
  size_t count = json_array_size(predictions);
  for (size_t i = 0; i < count && i < 3; i++) {
    ratios[i] = json_number_value(json_object_get(json_array_get(predictions, i), "ratio"));
  }
  results_free(results);
  return count;
}

static const struct overlap_work works[] = {
    {.service = {80, 20, 70}, .turnaround = 60}, /* the slots are short */
    {.service = {80, 5, 85}, .turnaround = 4},   /* a copy is what takes longest */
    {.service = {80, 160, 80}, .turnaround = 2}, /* the kernel */
    {.service = {4, 3, 4}, .host = 10},          /* the host */
};

START_TEST(what_goes_by_the_model_is_foretold) {
  double ratios[3];
  ck_assert_uint_eq(predict(&works[_i], _i == 0 ? "callback" : "spin", 1, ratios), 3);
  for (int i = 0; i < 3; i++) {
    ck_assert_double_eq_tol(ratios[i], 1, 0.05);
  }
}
END_TEST

START_TEST(what_does_not_is_not) {
  double ratios[3];
  ck_assert_uint_eq(predict(&works[_i], "spin", 1.3, ratios), 3);
  ck_assert_double_eq_tol(ratios[0], 1, 0.05);
  ck_assert_double_eq_tol(ratios[1], 1 / 1.3, 0.05);
  ck_assert_double_eq_tol(ratios[2], 1 / 1.3, 0.05);
}
END_TEST

/* -- what bounds a row ---------------------------------------------------------------------------------------------- */

struct bounded {
  struct overlap_work work;
  const char *way, *copies;
  double bound;
  const char *by;
};

static const struct bounded bounded[] = {
    {{.service = {10, 5, 9}, .slots = 4, .turnaround = 2}, "spin", "engine", 10, "h2d"},
    {{.service = {10, 15, 9}, .slots = 4, .turnaround = 2}, "spin", "engine", 15, "kernel"},
    {{.service = {10, 5, 9}, .slots = 4, .turnaround = 2, .host = 20}, "spin", "engine", 20, "host"},
    {{.service = {10, 5, 9}, .slots = 2, .turnaround = 60, .host = 4}, "callback", "engine", 44, "slots"},
    /* Each of four slots' frames is on the device beside the others. */
    {{.service = {10, 5, 9}, .slots = 4, .turnaround = 4, .host = 4}, "spin", "kernel", 8, "slots"},
};

START_TEST(a_row_is_held_to_what_bounds_it) {
  const struct bounded *of = &bounded[_i];
  json_t *row = row_of(&of->work, of->way, 1);
  json_object_set_new(row, "us", json_real(50));
  json_object_set_new(row, "copies", json_string(of->copies));
  overlap_bound(row, 1);
  ck_assert_double_eq_tol(json_number_value(json_object_get(row, "bound_us")), of->bound, 0.1);
  ck_assert_double_eq_tol(json_number_value(json_object_get(row, "of_bound")), of->bound / 50, 0.002);
  ck_assert_str_eq(json_string_value(json_object_get(row, "bound_by")), of->by);
  json_decref(row);
}
END_TEST

/* What the warm-up measured of frames goes in: alone they take 30, and of both copies one passes every 12. */
START_TEST(a_row_s_bound_knows_what_the_warm_up_measured) {
  struct overlap_work work = {.service = {10, 5, 9}, .slots = 8};
  for (int slots = 1; slots <= 8; slots += 7) {
    work.slots = (unsigned)slots;
    json_t *row = row_of(&work, "spin", 1);
    json_object_set_new(row, "costs",
                        json_pack("{s:f, s:f, s:[f,f,f], s:[f,f,f]}", "alone_us", 30.0, "lane_us", 3.0, "service_us", 10.0, 5.0,
                                  9.0, "together_us", 12.0, 5.0, 12.0));
    overlap_bound(row, 1);
    ck_assert_double_eq_tol(json_number_value(json_object_get(row, "bound_us")), slots == 1 ? 30 : 12, 0.1);
    json_decref(row);
  }
}
END_TEST

START_TEST(a_row_without_times_has_no_bound) {
  json_t *row = json_pack("{s:s, s:f}", "way", "serial", "us", 10.0);
  overlap_bound(row, 1);
  ck_assert_ptr_null(json_object_get(row, "bound_us"));
  json_decref(row);
}
END_TEST

Suite *predictions_suite(void);
Suite *predictions_suite(void) {
  Suite *suite = suite_create("predictions");
  TCase *cases = tcase_create("predictions");
  tcase_add_loop_test(cases, what_goes_by_the_model_is_foretold, 0, sizeof works / sizeof works[0]);
  tcase_add_loop_test(cases, what_does_not_is_not, 0, sizeof works / sizeof works[0]);
  tcase_add_loop_test(cases, a_row_is_held_to_what_bounds_it, 0, sizeof bounded / sizeof bounded[0]);
  tcase_add_test(cases, a_row_s_bound_knows_what_the_warm_up_measured);
  tcase_add_test(cases, a_row_without_times_has_no_bound);
  suite_add_tcase(suite, cases);
  return suite;
}
