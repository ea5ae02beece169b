/* The bound of a row, and what it is said to be bound by. */
#include "tools/framebench/overlap/overlap.h"
#include "tools/framectl/common/forecast.h"

#include <string.h>

#include "tests/unit/runner.h"

enum { MANY = 2000 };

/* A row as the engine would make it: all that is waited for is on the device, but for the turnaround. */
static json_t *row_of(const struct overlap_work *work, const char *way) {
  double us = forecast_wall(work, MANY) / MANY;
  double held = overlap_sum(work) + work->turnaround + work->host;
  double wait = us * work->slots > held ? us * work->slots - held : 0;
  return json_pack("{s:i, s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "bytes", 4096, "kernel", "affine",
                   "way", way, "graph", "no", "slots", (int)work->slots, "us", us, "ideal_us", us, "h2d_us",
                   work->service[OVERLAP_H2D], "kernel_us", work->service[OVERLAP_KERNEL], "d2h_us", work->service[OVERLAP_D2H],
                   "wait_us", wait, "host_us", work->host, "notice_us", work->turnaround);
}

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
  json_t *row = row_of(&of->work, of->way);
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
    json_t *row = row_of(&work, "spin");
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

Suite *bound_suite(void);
Suite *bound_suite(void) {
  Suite *suite = suite_create("bound");
  TCase *cases = tcase_create("bound");
  tcase_add_loop_test(cases, a_row_is_held_to_what_bounds_it, 0, sizeof bounded / sizeof bounded[0]);
  tcase_add_test(cases, a_row_s_bound_knows_what_the_warm_up_measured);
  tcase_add_test(cases, a_row_without_times_has_no_bound);
  suite_add_tcase(suite, cases);
  return suite;
}
