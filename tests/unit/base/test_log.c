/*
 * The log as its reader sees it: stderr is a pipe of the test, whose text is compared. The journal is in
 * tests/systemd. The limits and the escapes are tested at their own interfaces, with time passed in.
 */
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/log_text.h"
#include "daemon/measure/clock.h"
#include "tests/unit/runner.h"

/* -- stderr as a pipe --------------------------------------------------------------------------------------------- */

struct capture {
  int saved, reader;
  char text[65536 * 2];
};

static struct capture capture;

static void redirect(void) {
  int ends[2];
  ck_assert_int_eq(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  ck_assert_int_eq(fcntl(ends[1], F_SETFL, 0), 0); /* the writing end blocks, as a terminal's would */
  capture.saved = dup(STDERR_FILENO);
  capture.reader = ends[0];
  ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
  close(ends[1]);
  unsetenv("JOURNAL_STREAM");
  log_open(CONFIG_LOG_INFO);
}

static void restore(void) {
  dup2(capture.saved, STDERR_FILENO);
  close(capture.saved);
  close(capture.reader);
}

/* What was written since the last call. */
static const char *captured(void) {
  size_t length = 0;
  ssize_t taken;
  while ((taken = read(capture.reader, capture.text + length, sizeof capture.text - 1 - length)) > 0) {
    length += (size_t)taken;
  }
  capture.text[length] = '\0';
  return capture.text;
}

static unsigned count_of(const char *text, const char *part) {
  unsigned count = 0;
  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
    count++;
  }
  return count;
}

static void assert_matches(const char *text, const char *pattern) {
  regex_t regex;
  ck_assert_int_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
  ck_assert_msg(regexec(&regex, text, 0, NULL, 0) == 0, "'%s' does not match '%s'", text, pattern);
  regfree(&regex);
}

START_TEST(a_line_has_time_level_pipeline_and_text) {
  log_event(LOG_MALFORMED, "cam0", "closed %d", 7);
  assert_matches(captured(), "^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z warning cam0: closed 7\n$");
  log_event(LOG_STARTED, NULL, "ready");
  assert_matches(captured(), "Z info ready\n$");
}
END_TEST

START_TEST(lines_below_the_level_are_not_written) {
  log_set_level(CONFIG_LOG_ERROR);
  log_event(LOG_STARTED, NULL, "not seen");
  log_event(LOG_FAILED, NULL, "seen");
  const char *text = captured();
  ck_assert_uint_eq(count_of(text, "not seen"), 0);
  ck_assert_uint_eq(count_of(text, "error seen\n"), 1);
}
END_TEST

START_TEST(a_forged_line_stays_within_its_own) {
  log_event(LOG_MALFORMED, "cam0", "got '%s'", "x\n2026-01-01T00:00:00.000Z error \033[2J");
  const char *text = captured();
  ck_assert_uint_eq(count_of(text, "\n"), 1);
  ck_assert_ptr_nonnull(strstr(text, "x\\n2026"));
  ck_assert_ptr_nonnull(strstr(text, "\\x1b[2J"));
}
END_TEST

START_TEST(limited_kinds_stop_at_the_burst_for_each_pipeline) {
  for (int i = 0; i < LOG_BURST + 3; i++) {
    log_event(LOG_REFUSED, "cam0", "refused");
  }
  log_event(LOG_REFUSED, "cam1", "refused");
  const char *text = captured();
  ck_assert_uint_eq(count_of(text, "cam0: refused"), LOG_BURST);
  ck_assert_uint_eq(count_of(text, "cam1: refused"), 1);
  log_flush();
  assert_matches(captured(), "^[^ ]+ info cam0: 3 more of kind REFUSED left out: the log takes 5 in 10 s of each pipeline\n$");
  log_flush();
  ck_assert_str_eq(captured(), "");
}
END_TEST

START_TEST(other_kinds_are_never_left_out) {
  for (int i = 0; i < 4 * LOG_BURST; i++) {
    log_event(LOG_PAUSED, "cam0", "paused");
  }
  ck_assert_uint_eq(count_of(captured(), "cam0: paused"), 4 * LOG_BURST);
}
END_TEST

START_TEST(an_unread_stderr_blocks_nothing_and_its_losses_are_said) {
  enum { LINES = 3000 }; /* far more than a pipe holds */
  char filler[200];
  memset(filler, 'x', sizeof filler - 1);
  filler[sizeof filler - 1] = '\0';
  for (int i = 0; i < LINES; i++) {
    log_event(LOG_STATE_DUMP, NULL, "%s", filler);
  }
  unsigned seen = count_of(captured(), filler);
  ck_assert_uint_gt(seen, 100);
  ck_assert_uint_lt(seen, LINES);
  log_event(LOG_STATE_DUMP, NULL, "after");
  const char *text = captured();
  char expected[64];
  snprintf(expected, sizeof expected, " info %u lines were lost", LINES - seen);
  ck_assert_msg(strstr(text, expected) != NULL, "'%s' does not say '%s'", text, expected);
  assert_matches(text, "\n[^\n]+ info after\n$");
}
END_TEST

START_TEST(a_line_longer_than_a_pipe_takes_at_once_arrives_whole) {
  size_t length = 20000;
  char *long_text = malloc(length + 1);
  ck_assert_ptr_nonnull(long_text);
  memset(long_text, 'y', length);
  long_text[length] = '\0';
  log_event(LOG_STATE_DUMP, NULL, "%s", long_text);
  ck_assert_ptr_nonnull(strstr(captured(), long_text));
  free(long_text);
}
END_TEST

START_TEST(a_closed_reader_is_survived) {
  close(capture.reader);
  log_event(LOG_STARTED, NULL, "nobody hears this");
  capture.reader = open("/dev/null", O_RDONLY | O_CLOEXEC);
}
END_TEST

/* -- limits ------------------------------------------------------------------------------------------------------- */

static void sum_left_out(void *context, unsigned kind, const char *pipeline, uint64_t left_out) {
  (void)kind;
  (void)pipeline;
  *(uint64_t *)context += left_out;
}

START_TEST(a_new_window_says_what_the_last_left_out) {
  struct log_limit limit = LOG_LIMIT_NULL(2);
  uint64_t left_out;
  int64_t now = 5 * NS_PER_S;
  ck_assert(log_limit_admit(&limit, 1, "a", now, &left_out));
  ck_assert(log_limit_admit(&limit, 1, "a", now + 1, &left_out));
  for (int i = 0; i < 40; i++) {
    ck_assert(!log_limit_admit(&limit, 1, "a", now + NS_PER_S, &left_out));
  }
  ck_assert(log_limit_admit(&limit, 2, "a", now + NS_PER_S, &left_out)); /* another kind counts for itself */
  ck_assert(log_limit_admit(&limit, 1, "a", now + LOG_LIMIT_WINDOW_S * NS_PER_S, &left_out));
  ck_assert_uint_eq(left_out, 40);
  uint64_t told = 0;
  log_limit_settle(&limit, now + 10 * LOG_LIMIT_WINDOW_S * NS_PER_S, sum_left_out, &told);
  ck_assert_uint_eq(told, 0);
  ck_assert_ptr_null(limit.counts);
}
END_TEST

START_TEST(settling_tells_once_and_keeps_a_window_that_runs) {
  struct log_limit limit = LOG_LIMIT_NULL(1);
  uint64_t left_out;
  uint64_t told = 0;
  ck_assert(log_limit_admit(&limit, 1, NULL, NS_PER_S, &left_out));
  ck_assert(!log_limit_admit(&limit, 1, NULL, NS_PER_S, &left_out));
  log_limit_settle(&limit, 2 * NS_PER_S, sum_left_out, &told);
  log_limit_settle(&limit, 2 * NS_PER_S, sum_left_out, &told);
  ck_assert_uint_eq(told, 1);
  ck_assert(!log_limit_admit(&limit, 1, NULL, 3 * NS_PER_S, &left_out));
  log_limit_settle(&limit, 60 * NS_PER_S, sum_left_out, &told);
  ck_assert_uint_eq(told, 2);
}
END_TEST

/* -- escapes ------------------------------------------------------------------------------------------------------ */

static const struct {
  const char *raw, *escaped;
} escapes[] = {
    {"plain text", "plain text"},
    {"", ""},
    {"tab\tline\nreturn\r", "tab\\tline\\nreturn\\r"},
    {"\x01\x7f", "\\x01\\x7f"},
    {"K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x8e\xa5", "K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x8e\xa5"}, /* UTF-8 stays */
    {"\xc2\x9b", "\\xc2\\x9b"},                                                                 /* C1: CSI in UTF-8 */
    {"\x9b", "\\x9b"},                                                                          /* and bare */
    {"\xc3", "\\xc3"},                                                                          /* cut short */
    {"\xc0\xaf", "\\xc0\\xaf"},                                                                 /* overlong */
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                                                        /* a surrogate */
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},                                               /* beyond Unicode */
    {"\xe2\x80\xae\xe2\x80\xac", "\\xe2\\x80\\xae\\xe2\\x80\\xac"},                             /* to the left and back */
    {"\xe2\x81\xa6\xe2\x81\xa9", "\\xe2\\x81\\xa6\\xe2\\x81\\xa9"},                             /* isolated */
    {"\xd8\x9c\xe2\x80\x8f", "\\xd8\\x9c\\xe2\\x80\\x8f"},                                      /* marks */
    {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},                                                        /* a line's end */
    {"\xe2\x80\x9c\xe2\x81\xaa\xd8\x9b", "\xe2\x80\x9c\xe2\x81\xaa\xd8\x9b"},                   /* not these */
};

START_TEST(escapes_are_exact) {
  char out[64];
  const char *raw = escapes[_i].raw;
  ck_assert_uint_le(strlen(escapes[_i].escaped) + 1, log_text_bound(raw));
  ck_assert_uint_eq(log_text_escape(out, sizeof out, raw), strlen(escapes[_i].escaped));
  ck_assert_str_eq(out, escapes[_i].escaped);
}
END_TEST

START_TEST(a_small_buffer_gets_whole_escapes_only) {
  for (size_t size = 1; size <= 8; size++) {
    char out[9] = "########";
    size_t length = log_text_escape(out, size, "a\x01z");
    ck_assert_uint_eq(length, size <= 1 ? 0 : size <= 5 ? 1 : size == 6 ? 5 : 6);
    ck_assert_uint_eq(strlen(out), length);
    ck_assert_int_eq(out[8], '\0');
  }
}
END_TEST

Suite *log_suite(void);
Suite *log_suite(void) {
  Suite *suite = suite_create("log");
  TCase *lines = tcase_create("stderr");
  tcase_add_checked_fixture(lines, redirect, restore);
  tcase_add_test(lines, a_line_has_time_level_pipeline_and_text);
  tcase_add_test(lines, lines_below_the_level_are_not_written);
  tcase_add_test(lines, a_forged_line_stays_within_its_own);
  tcase_add_test(lines, limited_kinds_stop_at_the_burst_for_each_pipeline);
  tcase_add_test(lines, other_kinds_are_never_left_out);
  tcase_add_test(lines, an_unread_stderr_blocks_nothing_and_its_losses_are_said);
  tcase_add_test(lines, a_line_longer_than_a_pipe_takes_at_once_arrives_whole);
  tcase_add_test(lines, a_closed_reader_is_survived);
  suite_add_tcase(suite, lines);
  TCase *limits = tcase_create("limits");
  tcase_add_test(limits, a_new_window_says_what_the_last_left_out);
  tcase_add_test(limits, settling_tells_once_and_keeps_a_window_that_runs);
  suite_add_tcase(suite, limits);
  TCase *texts = tcase_create("escapes");
  tcase_add_loop_test(texts, escapes_are_exact, 0, (int)(sizeof escapes / sizeof *escapes));
  tcase_add_test(texts, a_small_buffer_gets_whole_escapes_only);
  suite_add_tcase(suite, texts);
  return suite;
}
