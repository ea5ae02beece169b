/* Quoting a line with a caret, whatever the file holds. */
#include "config/quote.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void expect(const char *text, unsigned line, unsigned column, const char *expected) {
  char *quoted = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&quoted, &length);
  quote_print(out, text, strlen(text), line, column);
  fclose(out);
  ck_assert_str_eq(quoted, expected);
  free(quoted);
}

START_TEST(word_is_underlined) {
  expect("a: 1\n  slot: 3\n", 2, 3, "    slot: 3\n    ^~~~\n");
  expect("a: [one, two]", 1, 10, "    a: [one, two]\n             ^~~\n");
  expect("a: \"two words\" # c", 1, 4, "    a: \"two words\" # c\n       ^~~~~~~~~~~\n");
  expect("url: a:b", 1, 6, "    url: a:b\n         ^~~\n");
}
END_TEST

START_TEST(place_outside_the_line_is_safe) {
  expect("a: 1\n", 1, 99, "    a: 1\n        ^\n");
  expect("a: 1\n", 7, 1, "");
  expect("", 1, 1, "");
  expect("\n\n", 2, 1, "");
  expect("  a", 1, 1, "    a\n    ^\n");
}
END_TEST

START_TEST(characters_are_counted_not_bytes) { expect("\xC3\xA4\xC3\xB6: x\n", 1, 5, "    \xC3\xA4\xC3\xB6: x\n        ^\n"); }
END_TEST

START_TEST(all_line_breaks_of_yaml_count) {
  expect("a\r\nb\rc\xC2\x85"
         "d\xE2\x80\xA8"
         "e",
         5, 1, "    e\n    ^\n");
}
END_TEST

START_TEST(what_is_not_printable_is_replaced) {
  expect("a\tb\x1b[31m\x7f\xff\xC2\x9B|", 1, 12, "    a b?[31m???|\n               ^\n");
}
END_TEST

START_TEST(long_line_is_cut_around_the_place) {
  char line[1001];
  memset(line, 'x', 1000);
  line[1000] = '\0';
  line[500] = ' ';
  line[504] = ' ';
  char *quoted = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&quoted, &length);
  quote_print(out, line, 1000, 1, 502);
  fclose(out);
  const char *caret = strchr(quoted, '^');
  const char *second = strchr(quoted, '\n') + 1;
  ck_assert_uint_lt(length, 300);
  ck_assert_ptr_nonnull(caret);
  ck_assert_int_eq(strncmp(quoted + (caret - second), "xxx ", 4), 0);
  ck_assert_int_eq(strncmp(caret, "^~~\n", 4), 0);
  free(quoted);
}
END_TEST

START_TEST(text_becomes_printable_in_place) {
  char text[] = "a\nb\x1b\xC3\xA4\xC3(\xF0\x9F\x98\x80\xED\xA0\x80\xF5";
  quote_make_printable(text);
  ck_assert_str_eq(text, "a?b?\xC3\xA4?(\xF0\x9F\x98\x80????");
}
END_TEST

Suite *quote_suite(void);

Suite *quote_suite(void) {
  Suite *suite = suite_create("quote");
  TCase *lines = tcase_create("lines");
  tcase_add_test(lines, word_is_underlined);
  tcase_add_test(lines, place_outside_the_line_is_safe);
  tcase_add_test(lines, characters_are_counted_not_bytes);
  tcase_add_test(lines, all_line_breaks_of_yaml_count);
  tcase_add_test(lines, what_is_not_printable_is_replaced);
  tcase_add_test(lines, long_line_is_cut_around_the_place);
  tcase_add_test(lines, text_becomes_printable_in_place);
  suite_add_tcase(suite, lines);
  return suite;
}
