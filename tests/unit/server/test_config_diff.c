/* What a new configuration changes. Configurations are made by hand: name and canonical text are all that counts. */
#include "daemon/server/config_diff.h"

#include <string.h>

#include "tests/unit/runner.h"

static struct config_pipeline pipeline(const char *name, const char *text) {
  return (struct config_pipeline){.name = (char *)name, .text = (char *)text};
}

START_TEST(pipelines_are_told_apart_by_name_and_text) {
  struct config_pipeline before[] = {pipeline("same", "a"), pipeline("changed", "b"), pipeline("removed", "c")};
  struct config_pipeline after[] = {pipeline("added", "c"), pipeline("changed", "B"), pipeline("same", "a")};
  const struct config old = {.pipelines = before, .pipeline_count = 3};
  const struct config new = {.pipelines = after, .pipeline_count = 3};
  struct diff diff;
  ck_assert(config_diff_make(&diff, &old, &new));
  ck_assert_int_eq(diff.now[0].change, CHANGE_ADDED);
  ck_assert_int_eq(diff.now[1].change, CHANGE_CHANGED);
  ck_assert_uint_eq(diff.now[1].old, 1);
  ck_assert_int_eq(diff.now[2].change, CHANGE_NONE);
  ck_assert_uint_eq(diff.now[2].old, 0);
  ck_assert(!diff.removed[0] && !diff.removed[1] && diff.removed[2]);
  config_diff_clear(&diff);
  config_diff_clear(&diff);
}
END_TEST

START_TEST(stages_alone_are_a_change_of_their_own) {
  struct config_pipeline before[] = {pipeline("stages", "a"), pipeline("all", "b"), pipeline("same", "c")};
  struct config_pipeline after[] = {pipeline("stages", "A"), pipeline("all", "B"), pipeline("same", "c")};
  const struct config old = {.pipelines = before, .pipeline_count = 3};
  const struct config new = {.pipelines = after, .pipeline_count = 3};
  struct diff diff;
  before[0].ends = after[0].ends = before[1].ends = before[2].ends = after[2].ends = (char *)"x";
  after[1].ends = (char *)"y";
  ck_assert(config_diff_make(&diff, &old, &new));
  ck_assert_int_eq(diff.now[0].change, CHANGE_STAGES);
  ck_assert_int_eq(diff.now[1].change, CHANGE_CHANGED);
  ck_assert_int_eq(diff.now[2].change, CHANGE_NONE);
  config_diff_clear(&diff);
}
END_TEST

START_TEST(from_nothing_and_to_nothing) {
  struct config_pipeline one[] = {pipeline("cam0", "a")};
  const struct config empty = {0};
  const struct config full = {.pipelines = one, .pipeline_count = 1};
  struct diff diff;
  ck_assert(config_diff_make(&diff, &empty, &full));
  ck_assert_int_eq(diff.now[0].change, CHANGE_ADDED);
  config_diff_clear(&diff);
  ck_assert(config_diff_make(&diff, &full, &empty));
  ck_assert_uint_eq(diff.new_count, 0);
  ck_assert(diff.removed[0]);
  config_diff_clear(&diff);
}
END_TEST

static const struct config base = {.lanes = 2, .status = {.socket = (char *)"/a"}, .gpu = {.timeout_ns = 5}};

static const char *fixed_keys(const struct config *changed, char text[128]) {
  return config_diff_fixed_keys(&base, changed, text, 128) ? text : "";
}

START_TEST(keys_that_need_a_restart_are_named) {
  char text[128];
  struct config changed = base;
  changed.drain_timeout_ns = 7; /* these may change */
  changed.limits.sessions_per_user = 1;
  changed.log_level = CONFIG_LOG_DEBUG;
  changed.status.http = (char *)"127.0.0.1:1";
  ck_assert_str_eq(fixed_keys(&changed, text), "");
  changed.lanes = 3;
  ck_assert_str_eq(fixed_keys(&changed, text), "lanes");
  changed.gpu.backend = CONFIG_BACKEND_CPU;
  ck_assert_str_eq(fixed_keys(&changed, text), "lanes, gpu.backend");
  changed = base;
  changed.status.socket = (char *)"/b";
  changed.gpu.device = 1;
  changed.gpu.count = 4;
  changed.gpu.timeout_ns = 6;
  ck_assert_str_eq(fixed_keys(&changed, text), "status.socket, gpu.device, gpu.count, gpu.timeout");
  changed = base;
  changed.realtime.processors.bits[1] = 4;
  ck_assert_str_eq(fixed_keys(&changed, text), "realtime");
}
END_TEST

START_TEST(a_short_buffer_is_never_overrun) {
  char text[8];
  memset(text, 'x', sizeof text);
  struct config changed = {.lanes = 9, .status = {.socket = (char *)"/b"}, .gpu = {.device = 1}};
  ck_assert(config_diff_fixed_keys(&base, &changed, text, 6));
  ck_assert_str_eq(text, "lanes");
  ck_assert_int_eq(text[6], 'x');
}
END_TEST

Suite *config_diff_suite(void);
Suite *config_diff_suite(void) {
  Suite *suite = suite_create("config_diff");
  TCase *all = tcase_create("all");
  tcase_add_test(all, pipelines_are_told_apart_by_name_and_text);
  tcase_add_test(all, stages_alone_are_a_change_of_their_own);
  tcase_add_test(all, from_nothing_and_to_nothing);
  tcase_add_test(all, keys_that_need_a_restart_are_named);
  tcase_add_test(all, a_short_buffer_is_never_overrun);
  suite_add_tcase(suite, all);
  return suite;
}
