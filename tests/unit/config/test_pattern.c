/* Names with the time in them: which ones a pattern can become, and which patterns have one in common. */
#include "config/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/runner.h"

static struct pattern one, other;
static char problem[PATTERN_PROBLEM];

static bool takes(const char *pattern, const char *name) {
  ck_assert_msg(pattern_read(pattern, &one, problem), "%s: %s", pattern, problem);
  const struct pattern_part whole = pattern_whole(&one);
  return pattern_takes(&whole, name, strlen(name));
}

static bool meet(const char *first, const char *second) {
  ck_assert(pattern_read(first, &one, problem) && pattern_read(second, &other, problem));
  const struct pattern_part a = pattern_whole(&one), b = pattern_whole(&other);
  bool they_do = pattern_meets(&a, &b);
  ck_assert_int_eq(they_do, pattern_meets(&b, &a));
  return they_do;
}

START_TEST(a_pattern_takes_what_strftime_makes_of_it) {
  static const char each[] = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%";
  for (size_t i = 0; i < sizeof each - 1; i++) {
    for (time_t at = 951782400; at < 951782400 + 400 * 86400; at += 86400 * 9 + 3601) { /* from 29 February 2000 on */
      char pattern[32], name[64];
      struct tm time;
      const char *modifier = strchr("cCxXyY", each[i]) ? "E" : strchr("deHImMSuUVwWy", each[i]) ? "O" : "";
      snprintf(pattern, sizeof pattern, "x%%%c-%%%s%c.y", each[i], modifier, each[i]);
      strftime(name, sizeof name, pattern, localtime_r(&at, &time));
      ck_assert_msg(takes(pattern, name), "%s: %s", pattern, name);
    }
  }
  ck_assert(takes("%-d.%_H.%3j.%^a", "1. 9.012.FRI"));
}
END_TEST

START_TEST(a_pattern_takes_no_neighbours_names) {
  ck_assert(takes("front-%H%M.raw", "front-0315.raw") && takes("front-%H%M.raw", "front-0315-12.raw"));
  ck_assert(!takes("front-%H%M.raw", "front-door-0315.raw") && !takes("front-%H%M.raw", "front-0315.raw.index"));
  ck_assert(!takes("front-%H%M.raw", "front-0315-.raw") && !takes("front-%H%M.raw", "front-031.raw"));
  ck_assert(takes("out-%S", "out-07") && takes("out-%S", "out-07-1") && !takes("out-%S", "out-07.part"));
  ck_assert(!takes("%A/x", "a/b/x") && takes("100%%-%H", "100%-01"));
}
END_TEST

START_TEST(patterns_meet_where_they_can_become_one_name) {
  ck_assert(meet("%H%M.raw", "%Y.raw") && meet("a-%H.raw", "a-%H-%M.raw") && meet("%a-%H", "x-%H") && meet("%s", "%Y"));
  ck_assert(meet("rec/%D/x", "rec/%m/%d/%y/x"));
  ck_assert(!meet("front-%H.raw", "front-door-%H.raw") && !meet("%H.raw", "%Y.raw") && !meet("%H.raw", "%H.y4m"));
  ck_assert(!meet("a/%H", "b/%H") && !meet("a/%A", "a/%A/x"));
}
END_TEST

START_TEST(what_a_name_does_not_show_is_refused) {
  static const char *const patterns[] = {"a-%Q", "a-%", "a-%-D", "a-%Oc", "a-%10F"};
  ck_assert(!pattern_read(patterns[_i], &one, problem));
  ck_assert_ptr_nonnull(strstr(problem, "%"));
}
END_TEST

START_TEST(a_pattern_that_is_too_long_is_refused) {
  char *text = malloc(2 * PATTERN_MOST);
  memset(text, 'x', 2 * PATTERN_MOST - 1);
  text[2 * PATTERN_MOST - 1] = '\0';
  ck_assert(!pattern_read(text, &one, problem));
  free(text);
}
END_TEST

/* The name has 255 bytes at most, with what the daemon puts behind it. */
START_TEST(a_name_has_room_for_what_is_put_behind_it) {
  static const char *const wrong[] = {"%Y.part", "%Y.raw.index", "x/%Y.raw.part"};
  char text[300] = "folder/";
  memset(text + 7, 'x', 234);
  strcpy(text + 7 + 234, "%d.raw");
  ck_assert(!takes(text, "other"));
  strcpy(text + 7 + 234, "%Y.raw");
  ck_assert(!takes(text, "other"));
  strcpy(text + 7 + 234, "x%Y.raw");
  ck_assert(!pattern_read(text, &one, problem) && strstr(problem, "longer than 255 bytes"));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ck_assert(!pattern_read(wrong[i], &one, problem) && strstr(problem, "the daemon itself uses"));
  }
  ck_assert(!takes("%Y.parts", "other") && !takes("part/%Y", "other"));
}
END_TEST

Suite *pattern_suite(void);
Suite *pattern_suite(void) {
  Suite *suite = suite_create("pattern");
  TCase *all = tcase_create("patterns");
  tcase_add_test(all, a_pattern_takes_what_strftime_makes_of_it);
  tcase_add_test(all, a_pattern_takes_no_neighbours_names);
  tcase_add_test(all, patterns_meet_where_they_can_become_one_name);
  tcase_add_loop_test(all, what_a_name_does_not_show_is_refused, 0, 5);
  tcase_add_test(all, a_pattern_that_is_too_long_is_refused);
  tcase_add_test(all, a_name_has_room_for_what_is_put_behind_it);
  suite_add_tcase(suite, all);
  return suite;
}
