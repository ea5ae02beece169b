/* The list of errors on its own: order, limits, and memory that runs out. */
#include "config/errors.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct config_errors *errors;

static void begin(void) { errors = config_errors_new(); }
static void end(void) { errors = config_errors_free(errors); }

START_TEST(nothing_gives_an_empty_report) {
  ck_assert_uint_eq(config_errors_count(errors), 0);
  ck_assert_str_eq(config_errors_text(errors), "");
}
END_TEST

START_TEST(what_the_machine_refuses_is_told_from_the_text) {
  config_errors_add(errors, (struct config_mark){"a.yaml", 1, 1}, NULL, "cannot read it: %s", strerror(EMFILE));
  ck_assert(config_errors_pass(errors));
  config_errors_add(errors, (struct config_mark){"a.yaml", 2, 1}, NULL, "labels.txt: %s", strerror(EIO));
  ck_assert(config_errors_pass(errors));
  config_errors_add(errors, (struct config_mark){"a.yaml", 3, 1}, NULL, "model.onnx: %s", strerror(ENOENT));
  ck_assert(!config_errors_pass(errors));
}
END_TEST

START_TEST(report_is_sorted_by_file_line_and_column) {
  static const char text[] = "abc\ndef\n";
  ck_assert(errors_add_file(errors, "z.yaml", text, strlen(text)));
  ck_assert(errors_add_file(errors, "a.yaml", text, strlen(text)));
  config_errors_add(errors, (struct config_mark){"a.yaml", 1, 1}, NULL, "fifth");
  config_errors_add(errors, (struct config_mark){"z.yaml", 2, 3}, NULL, "fourth");
  config_errors_add(errors, (struct config_mark){"z.yaml", 2, 1}, "mend it", "%s", "third");
  config_errors_add(errors, (struct config_mark){"z.yaml", 0, 0}, NULL, "second");
  config_errors_add(errors, (struct config_mark){NULL, 0, 0}, NULL, "first");
  ck_assert_str_eq(config_errors_text(errors), "first\n"
                                               "z.yaml: second\n"
                                               "z.yaml:2:1: third\n    def\n    ^~~\n  mend it\n"
                                               "z.yaml:2:3: fourth\n    def\n      ^\n"
                                               "a.yaml:1:1: fifth\n    abc\n    ^~~\n");
  ck_assert_uint_eq(config_errors_count(errors), 5);
}
END_TEST

START_TEST(equal_places_keep_their_order) {
  config_errors_add(errors, (struct config_mark){"a.yaml", 1, 1}, NULL, "one");
  config_errors_add(errors, (struct config_mark){"a.yaml", 1, 1}, NULL, "two");
  ck_assert_str_eq(config_errors_text(errors), "a.yaml:1:1: one\na.yaml:1:1: two\n");
}
END_TEST

START_TEST(text_of_an_unknown_file_is_not_quoted) {
  config_errors_add(errors, (struct config_mark){"other", 3, 4}, "mend it", "wrong");
  ck_assert_str_eq(config_errors_text(errors), "other:3:4: wrong\n  mend it\n");
}
END_TEST

START_TEST(report_can_be_asked_for_again) {
  config_errors_add(errors, (struct config_mark){"b", 1, 1}, NULL, "one");
  ck_assert_str_eq(config_errors_text(errors), "b:1:1: one\n");
  config_errors_add(errors, (struct config_mark){"b", 2, 1}, NULL, "two");
  ck_assert_str_eq(config_errors_text(errors), "b:1:1: one\nb:2:1: two\n");
}
END_TEST

START_TEST(report_is_bounded) {
  for (unsigned i = 0; i < 1000; i++) {
    config_errors_add(errors, (struct config_mark){"b", i + 1, 1}, NULL, "wrong");
  }
  ck_assert_uint_eq(config_errors_count(errors), 1000);
  const char *text = config_errors_text(errors);
  ck_assert_ptr_nonnull(strstr(text, "b:64:1: wrong\nand 936 more errors, not shown\n"));
  ck_assert_ptr_null(strstr(text, "b:65:1"));
}
END_TEST

START_TEST(long_and_unprintable_messages_are_safe) {
  char long_text[5000];
  memset(long_text, 'x', sizeof long_text - 1);
  long_text[sizeof long_text - 1] = '\0';
  config_errors_add(errors, (struct config_mark){"b", 1, 1}, "a\x1b[0m", "%s", long_text);
  config_errors_add(errors, (struct config_mark){"b", 2, 1}, NULL, "line\nline");
  const char *text = config_errors_text(errors);
  ck_assert_uint_lt(strlen(text), 1000);
  ck_assert_ptr_nonnull(strstr(text, "\n  a?[0m\n"));
  ck_assert_ptr_nonnull(strstr(text, "line?line\n"));
}
END_TEST

START_TEST(exhaustion_is_an_error_by_itself) {
  errors_set_exhausted(errors);
  ck_assert_uint_eq(config_errors_count(errors), 1);
  ck_assert_str_eq(config_errors_text(errors), "out of memory while reading the configuration\n");
}
END_TEST

Suite *errors_suite(void);

Suite *errors_suite(void) {
  Suite *suite = suite_create("errors");
  TCase *report = tcase_create("report");
  tcase_add_checked_fixture(report, begin, end);
  tcase_add_test(report, nothing_gives_an_empty_report);
  tcase_add_test(report, what_the_machine_refuses_is_told_from_the_text);
  tcase_add_test(report, report_is_sorted_by_file_line_and_column);
  tcase_add_test(report, equal_places_keep_their_order);
  tcase_add_test(report, text_of_an_unknown_file_is_not_quoted);
  tcase_add_test(report, report_can_be_asked_for_again);
  tcase_add_test(report, report_is_bounded);
  tcase_add_test(report, long_and_unprintable_messages_are_safe);
  tcase_add_test(report, exhaustion_is_an_error_by_itself);
  suite_add_tcase(suite, report);
  return suite;
}
