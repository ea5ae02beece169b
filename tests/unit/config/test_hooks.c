/* The caller's check: when it is asked, and what becomes of its errors. */
#include <string.h>

#include "tests/unit/config/fixture.h"

struct asked {
  unsigned count;
  char names[64];
  unsigned device;
};

static void note(const struct config *config, const struct config_pipeline *pipeline, struct config_errors *errors,
                 void *context) {
  struct asked *asked = context;
  (void)config;
  (void)errors;
  asked->count++;
  asked->device = pipeline->device;
  size_t length = strlen(asked->names);
  snprintf(asked->names + length, sizeof asked->names - length, "%s", pipeline->name);
}

static void refuse(const struct config *config, const struct config_pipeline *pipeline, struct config_errors *errors,
                   void *context) {
  (void)config;
  (void)context;
  config_errors_add(errors, pipeline->stages[0].at, "use another", "stage '%s' does not fit", "sobel");
}

static struct reading read_with(const struct config_hooks *hooks, const char *text) {
  struct reading reading = {.errors = config_errors_new(), .report = ""};
  reading.config = config_parse("t.yaml", text, strlen(text), hooks, reading.errors);
  reading.report = config_errors_text(reading.errors);
  return reading;
}

START_TEST(each_valid_pipeline_is_checked_once) {
  struct asked asked = {0};
  struct config_hooks hooks = {.vocabulary = &fixture_vocabulary, .check = note, .context = &asked};
  struct reading reading = read_with(&hooks, "pipelines:\n  a: {source: {socket: a, " FORMAT "}, sink: {socket: a2}}\n"
                                             "  b: {source: {socket: b, " FORMAT "}, sink: {socket: b2}, slots: 99}\n"
                                             "  c: {source: {socket: c, " FORMAT "}, sink: {socket: c2}}\n"
                                             "gpu: {device: 5}\n");
  ck_assert_ptr_null(reading.config);
  ck_assert_str_eq(asked.names, "ac");
  ck_assert_uint_eq(asked.count, 2);
  ck_assert_uint_eq(asked.device, 5);
  fixture_end(&reading);
}
END_TEST

/* An alias leaves a hole where a value should be, so nothing behind it is whole. */
START_TEST(nothing_in_a_file_with_holes_is_checked) {
  struct asked asked = {0};
  struct config_hooks hooks = {.vocabulary = &fixture_vocabulary, .check = note, .context = &asked};
  struct reading reading = read_with(&hooks, SOURCE("socket: *x, " FORMAT, SINK));
  ck_assert_ptr_null(reading.config);
  ck_assert_uint_eq(asked.count, 0);
  fixture_end(&reading);
}
END_TEST

START_TEST(errors_of_the_check_are_reported_with_their_place) {
  struct config_hooks hooks = {.vocabulary = &fixture_vocabulary, .check = refuse};
  struct reading reading = read_with(&hooks, PIPELINE("    stages:\n      - sobel: {}\n"));
  ck_assert_ptr_null(reading.config);
  ck_assert_str_eq(reading.report, "t.yaml:6:9: stage 'sobel' does not fit\n"
                                   "    - sobel: {}\n"
                                   "      ^~~~~\n"
                                   "  use another\n");
  fixture_end(&reading);
}
END_TEST

Suite *hooks_suite(void);

Suite *hooks_suite(void) {
  Suite *suite = suite_create("hooks");
  TCase *check = tcase_create("check");
  tcase_add_test(check, each_valid_pipeline_is_checked_once);
  tcase_add_test(check, nothing_in_a_file_with_holes_is_checked);
  tcase_add_test(check, errors_of_the_check_are_reported_with_their_place);
  suite_add_tcase(suite, check);
  return suite;
}
