/* Which readings a meter keeps, and what it makes of two of them. */
#include "daemon/measure/meter.h"

#include "tests/unit/runner.h"

static struct meter *meter;

static void make(void) { meter = meter_new(); }
static void clear(void) { meter = meter_free(meter); }

static void keep(int64_t at) { meter_next(meter)->at = at; }

START_TEST(the_first_reading_stays_until_there_are_enough) {
  for (int64_t at = 1; at <= METER_READINGS; at++) {
    keep(at);
    ck_assert_int_eq(meter_oldest(meter)->at, 1);
    ck_assert_int_eq(meter_latest(meter)->at, at);
  }
}
END_TEST

START_TEST(then_the_oldest_makes_room) {
  for (int64_t at = 1; at <= 3 * METER_READINGS + 1; at++) {
    keep(at);
  }
  ck_assert_int_eq(meter_oldest(meter)->at, 2 * METER_READINGS + 2);
}
END_TEST

START_TEST(what_was_before_the_latest_is_forgotten) {
  meter_restart(meter);
  ck_assert_ptr_null(meter_latest(meter));
  for (int64_t at = 1; at <= METER_READINGS + _i; at++) {
    keep(at);
  }
  meter_restart(meter);
  ck_assert_int_eq(meter_oldest(meter)->at, METER_READINGS + _i);
  ck_assert_int_eq(meter_latest(meter)->at, METER_READINGS + _i);
  keep(99);
  ck_assert_int_eq(meter_oldest(meter)->at, METER_READINGS + _i);
  ck_assert_int_eq(meter_latest(meter)->at, 99);
}
END_TEST

START_TEST(a_new_meter_has_an_empty_reading) {
  ck_assert_uint_eq(meter_oldest(meter)->ledger.in, 0);
  ck_assert_ptr_null(meter_latest(meter));
}
END_TEST

START_TEST(rates_are_differences_over_time) {
  static struct reading before, now;
  before =
      (struct reading){.at = NS_PER_S, .ledger = {.in = 7, .in_bytes = 100, .out_bytes = 10, .fates = {[FATE_EMITTED] = 5}}};
  now = (struct reading){.at = 3 * NS_PER_S,
                         .ledger = {.in = 87, .in_bytes = 300, .out_bytes = 50, .fates = {[FATE_EMITTED] = 65}}};
  struct meter_rates rates = meter_rates(&now, &before);
  ck_assert_double_eq(rates.seconds, 2);
  ck_assert_double_eq(rates.out_fps, 30);
  ck_assert_double_eq(rates.in_fps, 40);
  ck_assert_double_eq(rates.in_bytes_per_s, 100);
  ck_assert_double_eq(rates.out_bytes_per_s, 20);
}
END_TEST

START_TEST(without_time_there_are_no_rates) {
  static struct reading moment = {.at = 5, .ledger = {.in_bytes = 9}};
  struct meter_rates rates = meter_rates(&moment, &moment);
  ck_assert_double_eq(rates.out_fps, 0);
  ck_assert_double_eq(rates.seconds, 0);
}
END_TEST

/* Frames from the tenth second on, looked at in the given one. */
static double fps_at(int64_t second, int64_t began, uint64_t frames_before) {
  static struct reading before, now;
  before = (struct reading){.at = 8 * NS_PER_S, .ledger = {.in = frames_before}};
  now = (struct reading){.at = second * NS_PER_S, .began = began, .ledger = {.in = 60, .fates = {[FATE_EMITTED] = 60}}};
  return meter_rates(&now, &before).out_fps;
}

START_TEST(the_time_before_the_first_frame_does_not_count) {
  ck_assert_double_eq(fps_at(12, 10 * NS_PER_S, 0), 30);
  ck_assert_double_eq(fps_at(12, 12 * NS_PER_S - 1, 0), 240); /* but a quarter of a second does */
  ck_assert_double_eq(fps_at(12, 7 * NS_PER_S, 0), 15);       /* it began in between: the reading had not seen it yet */
  ck_assert_double_eq(fps_at(12, 10 * NS_PER_S, 1), 15);      /* frames of another producer: the silence since is real */
  ck_assert_double_eq(fps_at(8, 8 * NS_PER_S, 0), 0);
}
END_TEST

START_TEST(a_burst_after_a_moment_is_no_rate) {
  static struct reading before, now;
  before = (struct reading){.at = NS_PER_S, .began = 1, .ledger = {.in = 100, .fates = {[FATE_EMITTED] = 100}}};
  now = (struct reading){
      .at = NS_PER_S + NS_PER_S / 128, .began = 1, .ledger = {.in = 102, .in_bytes = 8, .fates = {[FATE_EMITTED] = 102}}};
  struct meter_rates rates = meter_rates(&now, &before);
  ck_assert_double_eq(rates.out_fps, 8);
  ck_assert_double_eq(rates.in_bytes_per_s, 32);
  ck_assert_double_eq(rates.seconds, 1.0 / 128);
}
END_TEST

/* Half a second after a start: what has passed counts, and not a second, nor the ten that a window can have. */
START_TEST(a_short_window_divides_by_what_has_passed) {
  static struct reading before, now;
  before = (struct reading){.at = NS_PER_S, .began = 1, .ledger = {.in = 100, .fates = {[FATE_UNREAD] = 100}}};
  now = (struct reading){.at = NS_PER_S + NS_PER_S / 2,
                         .began = 1,
                         .ledger = {.in = 115, .in_bytes = 15 * 460800, .fates = {[FATE_UNREAD] = 115}}};
  struct meter_rates rates = meter_rates(&now, &before);
  ck_assert_double_eq(rates.in_fps, 30);
  ck_assert_double_eq(rates.out_fps, 0);
  ck_assert_double_eq(rates.in_bytes_per_s, 30 * 460800);
}
END_TEST

START_TEST(the_busiest_lane_counts) {
  static struct reading before, now;
  before = (struct reading){.at = NS_PER_S, .lane_time = {[3] = 5, [7] = 1}};
  now = (struct reading){.at = 3 * NS_PER_S, .lane_time = {[0] = 9 * NS_PER_S, [3] = NS_PER_S + 5, [7] = NS_PER_S / 2}};
  ck_assert_double_eq(meter_lane_share(&now, &before), 0.5); /* lane 0 was not there before */
  ck_assert_double_eq(meter_lane_share(&now, &now), 0);
}
END_TEST

START_TEST(a_lane_works_for_others_too) {
  static struct reading before, now;
  before = (struct reading){.at = NS_PER_S, .lane_time = {[3] = 5}, .lane_work = {[3] = 100}, .lane_own = {[3] = 50}};
  now = (struct reading){.at = 3 * NS_PER_S,
                         .lane_time = {[3] = NS_PER_S + 5},
                         .lane_work = {[3] = 100 + NS_PER_S},
                         .lane_own = {[3] = 50 + NS_PER_S / 4}};
  /* Half of the time, a quarter of that for us: 0.125 of the 0.625 that others leave. */
  ck_assert_double_eq_tol(meter_host_share(&now, &before), 0.2, 1e-9);
  ck_assert_double_eq(meter_host_share(&now, &now), 0);
  now.lane_own[3] = 50 + NS_PER_S; /* alone there */
  ck_assert_double_eq_tol(meter_host_share(&now, &before), 0.5, 1e-9);
  now.lane_own[3] = 50; /* not there at all */
  ck_assert_double_eq(meter_host_share(&now, &before), 0);
}
END_TEST

START_TEST(results_on_another_lane_take_what_its_sessions_leave) {
  static struct reading before, now;
  before = (struct reading){.at = NS_PER_S, .lane_time = {[3] = 5}, .lane_work = {[3] = 100}};
  now = (struct reading){.at = 3 * NS_PER_S, .lane_time = {[3] = NS_PER_S + 5}, .lane_work = {[3] = 100 + NS_PER_S * 3 / 4}};
  /* Half of the time, three quarters of that for the sessions there: 0.125 of the 0.625 that they leave. */
  ck_assert_double_eq_tol(meter_host_share(&now, &before), 0.2, 1e-9);
  now.lane_work[3] = 100; /* none works there */
  ck_assert_double_eq_tol(meter_host_share(&now, &before), 0.5, 1e-9);
  now.lane_work[3] = 100 + 2 * NS_PER_S; /* which wait within their turns for others on the processor */
  ck_assert_double_eq(meter_host_share(&now, &before), 0);
}
END_TEST

START_TEST(polling_is_no_work) {
  static struct reading before, now;
  before = (struct reading){.at = NS_PER_S, .worked = 7};
  now = (struct reading){.at = 3 * NS_PER_S, .worked = NS_PER_S + 7, .lane_time = {[1] = 2 * NS_PER_S, [2] = 2 * NS_PER_S}};
  ck_assert_double_eq(meter_worked_share(&now, &before), 0.25);
  ck_assert_double_eq(meter_worked_share(&now, &now), 0);
}
END_TEST

Suite *meter_suite(void);
Suite *meter_suite(void) {
  Suite *suite = suite_create("meter");
  TCase *all = tcase_create("all");
  tcase_add_checked_fixture(all, make, clear);
  tcase_add_test(all, the_first_reading_stays_until_there_are_enough);
  tcase_add_test(all, then_the_oldest_makes_room);
  tcase_add_loop_test(all, what_was_before_the_latest_is_forgotten, -METER_READINGS + 1, 3);
  tcase_add_test(all, a_new_meter_has_an_empty_reading);
  tcase_add_test(all, rates_are_differences_over_time);
  tcase_add_test(all, the_time_before_the_first_frame_does_not_count);
  tcase_add_test(all, without_time_there_are_no_rates);
  tcase_add_test(all, a_burst_after_a_moment_is_no_rate);
  tcase_add_test(all, a_short_window_divides_by_what_has_passed);
  tcase_add_test(all, the_busiest_lane_counts);
  tcase_add_test(all, a_lane_works_for_others_too);
  tcase_add_test(all, results_on_another_lane_take_what_its_sessions_leave);
  tcase_add_test(all, polling_is_no_work);
  suite_add_tcase(suite, all);
  return suite;
}
