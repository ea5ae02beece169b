/* Canaries on the CPU backend: they come back, also many times, and are missed where the device does not let them through. */
#include "daemon/frame/canary.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/device/private.h"
#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"

enum { PATIENCE_S = 20 };

static struct device *device;
static struct canary *canary;
static _Atomic int64_t completion;

static void open_site(void) {
  struct gpu_error error;
  struct failure failure;
  completion = 0;
  device = device_open(&(struct device_setup){.choice = GPU_BACKEND_CPU, .workers = 1}, &error);
  ck_assert_ptr_nonnull(device);
  const struct canary_setup setup = {.device = device, .number = 7, .completion = &completion};
  canary = canary_new(&setup, &failure);
  ck_assert_msg(canary != NULL, "%s", failure.text);
}

static void close_site(void) {
  canary = canary_free(canary);
  device = device_close(device);
}

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static struct canary_view wait_for_end(void) {
  int64_t limit = clock_now() + PATIENCE_S * NS_PER_S;
  struct canary_view view;
  for (canary_read(canary, &view); view.under_way && !view.failure; canary_read(canary, &view)) {
    ck_assert_msg(clock_now() < limit, "the canary neither comes back nor fails");
    nap();
  }
  return view;
}

START_TEST(a_new_one_has_been_there_and_back) {
  struct canary_view view;
  open_site();
  canary_read(canary, &view);
  ck_assert(!view.under_way);
  ck_assert_ptr_null(view.failure);
  ck_assert_int_gt(view.sent, 0);
  ck_assert_int_ge(view.returned, view.sent);
  ck_assert_int_gt(view.round_trip, 0);
  close_site();
}
END_TEST

START_TEST(each_flight_comes_back) {
  open_site();
  int64_t before = 0;
  for (int i = 0; i < 300; i++) { /* more than there are different inputs */
    canary_send(canary, PATIENCE_S * NS_PER_S);
    struct canary_view view = wait_for_end();
    ck_assert_msg(!view.failure, "%s", view.failure);
    ck_assert_int_gt(view.returned, before);
    ck_assert_int_eq(view.round_trip, view.returned - view.sent);
    before = view.returned;
  }
  close_site();
}
END_TEST

/* -- a device that lets nothing through --------------------------------------------------------------------------- */

/* The worker stands still until it is let go on. */
static void block(void) {
  char path[64], state = ' ';
  ck_assert_int_eq(kill(process_id(device->process), SIGSTOP), 0);
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process_id(device->process));
  while (state != 'T') {
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    nap();
  }
}

static void unblock(void) { ck_assert_int_eq(kill(process_id(device->process), SIGCONT), 0); }

START_TEST(one_that_does_not_come_back_is_said_with_device_and_time) {
  struct gpu_error error;
  open_site();
  block();
  canary_send(canary, 50 * NS_PER_MS);
  struct canary_view view = wait_for_end();
  ck_assert_ptr_nonnull(view.failure);
  ck_assert_ptr_nonnull(strstr(view.failure, "device 7"));
  ck_assert_ptr_nonnull(strstr(view.failure, "for 0.05 s"));
  ck_assert(view.under_way);
  ck_assert_msg(!device_lives(device, &error) && strstr(error.text, "canary"), "the device is not dead of it");
  canary_send(canary, NS_PER_S); /* without effect */
  close_site();
}
END_TEST

START_TEST(one_that_is_late_comes_back_within_its_patience) {
  open_site();
  block();
  canary_send(canary, PATIENCE_S * NS_PER_S);
  for (int i = 0; i < 20; i++) {
    struct canary_view view;
    canary_read(canary, &view);
    ck_assert(view.under_way && !view.failure);
    nap();
  }
  unblock();
  ck_assert_ptr_null(wait_for_end().failure);
  close_site();
}
END_TEST

/* Frames that leave the device show that the canary only waits behind them: as if there were always one until then. */
START_TEST(completions_of_frames_excuse_it) {
  open_site();
  block();
  atomic_store(&completion, clock_now() + PATIENCE_S * NS_PER_S);
  canary_send(canary, 50 * NS_PER_MS);
  for (int64_t end = clock_now() + 300 * NS_PER_MS; clock_now() < end; nap()) {
  }
  unblock();
  ck_assert_ptr_null(wait_for_end().failure);
  close_site();
}
END_TEST

START_TEST(on_a_dead_device_it_fails_with_the_cause) {
  open_site();
  device_abandon(device, "a frame made an illegal access");
  canary_send(canary, PATIENCE_S * NS_PER_S);
  struct canary_view view = wait_for_end();
  ck_assert_ptr_nonnull(view.failure);
  ck_assert_ptr_nonnull(strstr(view.failure, "a frame made an illegal access"));
  close_site();
}
END_TEST

START_TEST(there_is_none_on_a_dead_device) {
  struct failure failure;
  open_site();
  device_abandon(device, "a frame made an illegal access");
  const struct canary_setup setup = {.device = device, .number = 7};
  ck_assert_ptr_null(canary_new(&setup, &failure));
  ck_assert_ptr_nonnull(strstr(failure.text, "illegal access"));
  close_site();
}
END_TEST

Suite *canary_suite(void);
Suite *canary_suite(void) {
  Suite *suite = suite_create("canary");
  TCase *cases = tcase_create("canary");
  tcase_set_timeout(cases, 3 * PATIENCE_S);
  tcase_add_test(cases, a_new_one_has_been_there_and_back);
  tcase_add_test(cases, each_flight_comes_back);
  tcase_add_test(cases, one_that_does_not_come_back_is_said_with_device_and_time);
  tcase_add_test(cases, one_that_is_late_comes_back_within_its_patience);
  tcase_add_test(cases, completions_of_frames_excuse_it);
  tcase_add_test(cases, on_a_dead_device_it_fails_with_the_cause);
  tcase_add_test(cases, there_is_none_on_a_dead_device);
  suite_add_tcase(suite, cases);
  return suite;
}
