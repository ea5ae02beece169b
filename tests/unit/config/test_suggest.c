/* The nearest name to a misspelt one. */
#include "config/suggest.h"

#include <check.h>
#include <string.h>

static const char *nearest(const char *word) {
  static const char *const names[] = {"slots", "source", "sink", "stages", "spin_for", "s", "overload"};
  struct suggestion suggestion = suggest_begin(word);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    suggest_offer(&suggestion, names[i]);
  }
  return suggestion.best ? suggestion.best : "";
}

START_TEST(each_kind_of_slip_is_found) {
  ck_assert_str_eq(nearest("slot"), "slots");   /* left out */
  ck_assert_str_eq(nearest("slotss"), "slots"); /* too many */
  ck_assert_str_eq(nearest("slots"), "slots");  /* none */
  ck_assert_str_eq(nearest("slats"), "slots");  /* replaced */
  ck_assert_str_eq(nearest("solts"), "slots");  /* swapped */
  ck_assert_str_eq(nearest("overlaod"), "overload");
  ck_assert_str_eq(nearest("spin-for"), "spin_for");
}
END_TEST

START_TEST(far_words_get_nothing) {
  ck_assert_str_eq(nearest("zebra"), "");
  ck_assert_str_eq(nearest("x"), "");
  ck_assert_str_eq(nearest(""), "");
}
END_TEST

START_TEST(the_nearer_name_wins) { ck_assert_str_eq(nearest("sourc"), "source"); }
END_TEST

START_TEST(words_of_any_length_are_safe) {
  char word[4096];
  for (size_t length = 1; length < sizeof word; length = length * 2 + 1) {
    memset(word, 's', length);
    word[length] = '\0';
    nearest(word);
  }
  ck_assert_str_eq(nearest(word), "");
}
END_TEST

START_TEST(text_has_the_name_or_the_alternative) {
  char text[SUGGEST_TEXT];
  struct suggestion suggestion = suggest_begin("slot");
  ck_assert_str_eq(suggest_text(&suggestion, "nothing near", text), "nothing near");
  suggest_offer(&suggestion, "slots");
  ck_assert_str_eq(suggest_text(&suggestion, NULL, text), "did you mean 'slots'?");
}
END_TEST

Suite *suggest_suite(void);

Suite *suggest_suite(void) {
  Suite *suite = suite_create("suggest");
  TCase *slips = tcase_create("slips");
  tcase_add_test(slips, each_kind_of_slip_is_found);
  tcase_add_test(slips, far_words_get_nothing);
  tcase_add_test(slips, the_nearer_name_wins);
  tcase_add_test(slips, words_of_any_length_are_safe);
  tcase_add_test(slips, text_has_the_name_or_the_alternative);
  suite_add_tcase(suite, slips);
  return suite;
}
