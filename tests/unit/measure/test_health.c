/* What is healthy and what is not, and that the reason names it. Times are in milliseconds from an hour after the boot. */
#include "daemon/measure/health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"

#define HOUR (3600 * NS_PER_S)

static int64_t at(int64_t milliseconds) { return HOUR + milliseconds * NS_PER_MS; }

/* gpu.timeout is 2 s: the limit 1 s, a canary each second. */
static struct health_moment moment_at(int64_t milliseconds) {
  return (struct health_moment){.now = at(milliseconds),
                                .limit = health_limit(2 * NS_PER_S),
                                .period = health_period(2 * NS_PER_S),
                                .lane_limit = 5 * NS_PER_S};
}

START_TEST(limits_follow_the_timeout) {
  static const struct {
    int64_t timeout, limit, period; /* ms */
  } cases[] = {{2000, 1000, 1000}, {10000, 5000, 1000}, {600, 300, 300}, {200, 100, 100}, {10, 100, 100}};
  int64_t timeout = cases[_i].timeout * NS_PER_MS;
  ck_assert_int_eq(health_limit(timeout), cases[_i].limit * NS_PER_MS);
  ck_assert_int_eq(health_period(timeout), cases[_i].period * NS_PER_MS);
}
END_TEST

/* Frames of a slow pipeline take 1 s by themselves: its device has 5 s instead of 2, and half of that to be healthy. */
START_TEST(limits_follow_the_slowest_frame) {
  static const struct {
    int64_t alone, patience, limit; /* ms */
  } cases[] = {{0, 2000, 1000}, {400, 2000, 1000}, {1000, 5000, 2500}};
  struct health_moment moment = moment_at(cases[_i].limit);
  struct health_device device = {.work = {.frames = 1, .since = at(0), .alone = cases[_i].alone * NS_PER_MS}};
  struct health_item item;
  ck_assert_int_eq(health_patience(2 * NS_PER_S, device.work.alone), cases[_i].patience * NS_PER_MS);
  ck_assert_int_eq(health_device_limit(&moment, &device), cases[_i].limit * NS_PER_MS);
  for (int late = 0; late < 2; late++, moment.now++) {
    health_of_device(&moment, &device, &item);
    ck_assert_int_eq(item.ok, !late);
    health_of_pipeline(&moment, "slow", &device, &device.work, &item);
    ck_assert_int_eq(item.ok, !late);
  }
}
END_TEST

/* -- lanes ------------------------------------------------------------------------------------------------------------ */

START_TEST(lanes_finish_turns) {
  static const struct {
    int64_t now, awake;
    bool ok;
  } cases[] = {{0, 0, true}, {5000, 0, true}, {5001, 0, false}, {5001, 1, true}};
  struct health_moment moment = moment_at(cases[_i].now);
  struct health_item item;
  moment.awake = cases[_i].awake ? at(cases[_i].awake) : 0;
  health_of_lanes(&moment, at(0), &item);
  ck_assert_int_eq(item.kind, HEALTH_LANES);
  ck_assert_int_eq(item.ok, cases[_i].ok);
  ck_assert_int_eq(item.why[0] == '\0', cases[_i].ok);
}
END_TEST

/* -- devices ---------------------------------------------------------------------------------------------------------- */

struct device_case {
  const char *what;
  uint64_t frames;
  int64_t since, completed, probed, awake; /* ms; 0: long ago */
  bool ok;
};

/* All looked at when 10 s have passed. */
static const struct device_case device_cases[] = {
    {"its canary came back just now", 0, 0, 0, 9900, 0, true},
    {"it has to come back once more within the period and the limit", 0, 0, 0, 8000, 0, true},
    {"and has not", 0, 0, 0, 7999, 0, false},
    {"a frame did instead", 0, 0, 8000, 5000, 0, true},
    {"a frame did, long ago", 0, 0, 7000, 5000, 0, false},
    {"no canary could be expected while the process stood still", 0, 0, 0, 100, 9000, true},
    {"a frame has just gone there, after a long silence", 1, 9900, 100, 9800, 0, true},
    {"it has been there for as long as it may", 1, 9000, 100, 8900, 0, true},
    {"and for longer, which a canary does not excuse", 1, 8999, 100, 9900, 0, false},
    {"a long queue that moves", 16, 5000, 9000, 100, 0, true},
    {"a long queue that does not", 16, 5000, 8999, 100, 0, false},
    {"frames from before a standstill", 16, 5000, 5000, 100, 9500, true},
};

static struct health_item judge_device(const struct device_case *test) {
  struct health_moment moment = moment_at(10000);
  struct health_item item;
  const struct health_device device = {
      .number = 3,
      .work = {.frames = test->frames, .since = test->since ? at(test->since) : 0},
      .completed = test->completed ? at(test->completed) : 0,
      .probed = at(test->probed),
  };
  moment.awake = test->awake ? at(test->awake) : 0;
  health_of_device(&moment, &device, &item);
  return item;
}

START_TEST(a_device_lets_frames_or_canaries_through) {
  const struct device_case *test = &device_cases[_i];
  struct health_item item = judge_device(test);
  ck_assert_int_eq(item.kind, HEALTH_DEVICE);
  ck_assert_str_eq(item.name, "3");
  ck_assert_msg(item.ok == test->ok, "%s: %s", test->what, item.why);
  ck_assert_msg((item.why[0] == '\0') == test->ok, "%s: %s", test->what, item.why);
}
END_TEST

START_TEST(reasons_say_for_how_long_and_what_is_there) {
  const struct device_case frames = {"", 2, 7500, 0, 0, 0, false}, canary = {"", 0, 0, 0, 5000, 0, false};
  ck_assert_str_eq(judge_device(&frames).why,
                   "nothing has come back from it for 2.5 s with 2 frames there, and 1 s is the limit");
  ck_assert_str_eq(judge_device(&canary).why,
                   "nothing has come back from it for 5 s: no frame is there, and the canary of every 1 s has not come back "
                   "within 1 s");
}
END_TEST

/* -- pipelines -------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *what;
  uint64_t frames;
  int64_t since, completed; /* ms */
  bool ok;
} pipeline_cases[] = {
    {"nothing is on the device: idle, paused, drained, blocked", 0, 0, 100, true},
    {"a frame on its way", 1, 9500, 100, true},
    {"a frame that does not come", 2, 8999, 100, false},
    {"a frame behind those of others", 1, 5000, 9500, true},
    {"a frame behind those of others for too long", 1, 4999, 9500, false},
};

START_TEST(a_pipeline_gets_its_frames_back) {
  const struct health_moment moment = moment_at(10000);
  const struct health_work work = {.frames = pipeline_cases[_i].frames, .since = at(pipeline_cases[_i].since)};
  const struct health_device device = {.number = 0, .work = work, .completed = at(pipeline_cases[_i].completed)};
  struct health_item item;
  health_of_pipeline(&moment, "cam0", &device, &work, &item);
  ck_assert_int_eq(item.kind, HEALTH_PIPELINE);
  ck_assert_str_eq(item.name, "cam0");
  ck_assert_msg(item.ok == pipeline_cases[_i].ok, "%s: %s", pipeline_cases[_i].what, item.why);
}
END_TEST

/* -- all -------------------------------------------------------------------------------------------------------------- */

static struct health *health_of(const bool oks[3]) {
  struct health *health = calloc(1, sizeof *health + 3 * sizeof health->items[0]);
  ck_assert_ptr_nonnull(health);
  health->count = 3;
  static const enum health_kind kinds[] = {HEALTH_LANES, HEALTH_DEVICE, HEALTH_PIPELINE};
  for (int i = 0; i < 3; i++) {
    struct health_item *item = &health->items[i];
    *item = (struct health_item){.kind = kinds[i], .ok = oks[i]};
    snprintf(item->name, sizeof item->name, "%s", kinds[i] == HEALTH_DEVICE ? "1" : kinds[i] == HEALTH_PIPELINE ? "cam0" : "");
    snprintf(item->why, sizeof item->why, "%s", oks[i] ? "" : "it stands");
  }
  health_sum_up(health);
  return health;
}

START_TEST(all_is_well_if_each_is) {
  static const struct {
    bool oks[3];
    const char *why;
  } cases[] = {{{true, true, true}, ""},
               {{false, true, true}, "lanes: it stands"},
               {{true, false, true}, "device 1: it stands"},
               {{true, true, false}, "pipeline cam0: it stands"},
               {{true, false, false}, "device 1: it stands"}};
  struct health *health = health_of(cases[_i].oks);
  ck_assert_int_eq(health->ok, cases[_i].why[0] == '\0');
  ck_assert_int_eq(health->live, health->ok);
  ck_assert_str_eq(health->why, cases[_i].why);
  free(health);
}
END_TEST

/* Nothing needs a device that is left out, and no restart mends one whose workers fail. */
START_TEST(a_device_without_a_worker_is_no_matter_of_life) {
  struct health *health = calloc(1, sizeof *health + sizeof health->items[0]);
  struct health_moment moment = moment_at(9000);
  ck_assert_ptr_nonnull(health);
  health->count = 1;
  health_of_left_out(&moment, 3, at(4000), "it is broken", &health->items[0]);
  health_sum_up(health);
  ck_assert(health->live && !health->ok);
  ck_assert_str_eq(health->why, "device 3: it is left out: it is broken");
  ck_assert_str_eq(health_reason_names[health->items[0].reason], "left_out");
  ck_assert_double_eq(health->items[0].since_s, 5);
  health_of_waiting(&moment, 3, at(4000), "it fell", &health->items[0]);
  health_sum_up(health);
  ck_assert(health->live && !health->ok);
  ck_assert_str_eq(health_reason_names[health->items[0].reason], "waiting");
  free(health);
}
END_TEST

/* A camera that is silent ends no process: troubles make the daemon unwell, and leave it live. */
START_TEST(troubles_are_no_matter_of_life) {
  struct health *health = calloc(1, sizeof *health + 2 * sizeof health->items[0]);
  struct health_moment moment = moment_at(9000);
  struct trouble trouble = {0};
  ck_assert_ptr_nonnull(health);
  trouble_note(&trouble, at(2000), "make room", "no space");
  trouble_note(&trouble, at(4000), "make room", "no space at all");
  trouble_repeat(&trouble, at(8000), 3);
  health->count = 2;
  health_of_lanes(&moment, at(9000), &health->items[0]);
  health_of_trouble(&moment, "cam0", HEALTH_SINK, &trouble, &health->items[1]);
  health_sum_up(health);
  ck_assert(health->live && !health->ok);
  ck_assert_str_eq(health->why, "pipeline cam0: no space at all");
  ck_assert_str_eq(health_reason_names[health->items[1].reason], "sink");
  ck_assert_str_eq(health->items[1].remedy, "make room");
  ck_assert_double_eq(health->items[1].since_s, 7);
  ck_assert_uint_eq(health->items[1].count, 5);
  ck_assert_int_eq(trouble.last, at(8000));
  trouble_clear(&trouble);
  ck_assert_uint_eq(trouble.count, 0);
  free(health);
}
END_TEST

Suite *health_suite(void);
Suite *health_suite(void) {
  Suite *suite = suite_create("health");
  TCase *cases = tcase_create("health");
  int device_count = sizeof device_cases / sizeof device_cases[0];
  tcase_add_loop_test(cases, limits_follow_the_timeout, 0, 5);
  tcase_add_loop_test(cases, limits_follow_the_slowest_frame, 0, 3);
  tcase_add_loop_test(cases, lanes_finish_turns, 0, 4);
  tcase_add_loop_test(cases, a_device_lets_frames_or_canaries_through, 0, device_count);
  tcase_add_test(cases, reasons_say_for_how_long_and_what_is_there);
  tcase_add_loop_test(cases, a_pipeline_gets_its_frames_back, 0, sizeof pipeline_cases / sizeof pipeline_cases[0]);
  tcase_add_loop_test(cases, all_is_well_if_each_is, 0, 5);
  tcase_add_test(cases, troubles_are_no_matter_of_life);
  tcase_add_test(cases, a_device_without_a_worker_is_no_matter_of_life);
  suite_add_tcase(suite, cases);
  return suite;
}
