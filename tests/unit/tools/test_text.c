/* Figures and tables as people read them. */
#include "tools/framectl/common/text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/runner.h"

typedef const char *format_function(char text[TEXT_ROOM], double value);

static const struct {
  format_function *format;
  double value;
  const char *text;
} figures[] = {
    {text_duration, 0, "0.0 us"},
    {text_duration, 4.25, "4.2 us"},
    {text_duration, 9.96, "10 us"},
    {text_duration, 310, "310 us"},
    {text_duration, 999.6, "1.00 ms"},
    {text_duration, 1200, "1.20 ms"},
    {text_duration, 36100, "36.1 ms"},
    {text_duration, 480000, "480 ms"},
    {text_duration, 999600, "1.00 s"},
    {text_duration, 2.1e6, "2.10 s"},
    {text_duration, 2.75e8, "275 s"},
    {text_bytes, 0, "0 B"},
    {text_bytes, 999, "999 B"},
    {text_bytes, 1000, "1.0 kB"},
    {text_bytes, 18.4e6, "18.4 MB"},
    {text_bytes, 999.96e3, "1.0 MB"},
    {text_bytes, 5.7e9, "5.7 GB"},
    {text_bytes, 1e19, "10000.0 PB"},
    {text_rate, 0, "0.0"},
    {text_rate, 59.94, "59.9"},
    {text_rate, 2310.4, "2310"},
    {text_rate, 86123, "86.1k"},
    {text_uptime, 0.4, "0 s"},
    {text_uptime, 59.9, "59 s"},
    {text_uptime, 192, "3 min 12 s"},
    {text_uptime, 3 * 3600 + 61, "3 h 1 min"},
    {text_uptime, 400 * 86400.0, "400 d 0 h"},
    {text_uptime, -1, "0 s"},
};

START_TEST(figures_have_three_digits_and_a_unit) {
  char text[TEXT_ROOM];
  ck_assert_str_eq(figures[_i].format(text, figures[_i].value), figures[_i].text);
}
END_TEST

static char *print(const struct table *table, bool colour) {
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  ck_assert(table_print(table, out, "> ", colour));
  fclose(out);
  return text;
}

START_TEST(what_deceives_a_reader_is_escaped) {
  static const char *const texts[][2] = {{"a\xe2\x80\xae"
                                          "b",
                                          "a\\u202eb"},
                                         {"\xe2\x81\xa6", "\\u2066"},
                                         {"\xd8\x9c", "\\u061c"},
                                         {"\xe2\x80\xa8", "\\u2028"},
                                         {"\xc2\x9b", "\\x9b"},
                                         {"\xe2\x82\xac", "\xe2\x82\xac"},
                                         {"\xe2\x80", "\xe2\x80"},
                                         {"\xd8", "\xd8"},
                                         {"", ""}};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char *safe = text_safe(texts[i][0], false);
    ck_assert_str_eq(safe, texts[i][1]);
    free(safe);
  }
}
END_TEST

START_TEST(columns_are_as_wide_as_their_widest_cell) {
  struct table *table = table_new("NAME|>COUNT|REST");
  const char *const rows[][3] = {{"a", "1", "x"}, {"longer", "1000000", ""}};
  for (int row = 0; row < 2; row++) {
    for (int column = 0; column < 3; column++) {
      table_cell(table, COLOUR_NONE, "%s", rows[row][column]);
    }
  }
  char *text = print(table, false);
  ck_assert_str_eq(text, "> NAME      COUNT  REST\n"
                         "> a             1  x\n"
                         "> longer  1000000  \n");
  free(text);
  table_free(table);
}
END_TEST

START_TEST(colours_do_not_change_the_columns) {
  struct table *table = table_new("A|B");
  table_cell(table, COLOUR_RED, "%s", "red");
  table_cell(table, COLOUR_NONE, "%s", "plain");
  char *text = print(table, true);
  ck_assert_str_eq(text, "> \033[1mA\033[0m    \033[1mB\033[0m\n> \033[31mred\033[0m  plain\n");
  free(text);
  table_free(table);
}
END_TEST

START_TEST(a_table_may_be_wide) {
  struct table *table = table_new("0|1|2|3|4|5|6|7|8|9|A|B|C|D|E|F|G|H");
  for (int row = 0; row < 2; row++) {
    for (char cell = 'a'; cell < 'a' + 18; cell++) {
      table_cell(table, COLOUR_NONE, "%c", cell);
    }
  }
  char *text = print(table, false);
  ck_assert_str_eq(text, "> 0  1  2  3  4  5  6  7  8  9  A  B  C  D  E  F  G  H\n"
                         "> a  b  c  d  e  f  g  h  i  j  k  l  m  n  o  p  q  r\n"
                         "> a  b  c  d  e  f  g  h  i  j  k  l  m  n  o  p  q  r\n");
  free(text);
  table_free(table);
}
END_TEST

START_TEST(a_table_may_be_empty_or_long) {
  struct table *table = table_new("ONLY");
  char *text = print(table, false);
  ck_assert_str_eq(text, "> ONLY\n");
  free(text);
  for (int i = 0; i < 1000; i++) {
    table_cell(table, COLOUR_NONE, "%d", i);
  }
  text = print(table, false);
  ck_assert_ptr_nonnull(strstr(text, "> 999\n"));
  free(text);
  table_free(table);
  ck_assert_ptr_null(table_free(NULL));
}
END_TEST

Suite *text_suite(void);
Suite *text_suite(void) {
  Suite *suite = suite_create("text");
  TCase *cases = tcase_create("text");
  tcase_add_loop_test(cases, figures_have_three_digits_and_a_unit, 0, sizeof figures / sizeof figures[0]);
  tcase_add_test(cases, what_deceives_a_reader_is_escaped);
  tcase_add_test(cases, columns_are_as_wide_as_their_widest_cell);
  tcase_add_test(cases, colours_do_not_change_the_columns);
  tcase_add_test(cases, a_table_may_be_wide);
  tcase_add_test(cases, a_table_may_be_empty_or_long);
  suite_add_tcase(suite, cases);
  return suite;
}
