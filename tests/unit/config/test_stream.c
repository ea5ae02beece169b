/* A stream into memory has all that was written, or says that it has not: also where memory was missing for a moment only. */
#include "config/stream.h"

#include <stdlib.h>
#include <string.h>

#include "config/memory.h"
#include "tests/unit/runner.h"

enum { LINES = 4000, LINE = sizeof "line 0000" }; /* with its end */

static void write_lines(const struct stream *stream, int from, int to) {
  for (int i = from; i < to; i++) {
    fprintf(stream->out, "line %04d\n", i);
  }
}

static void check_lines(const char *text) {
  char line[32];
  ck_assert_uint_eq(strlen(text), LINES * LINE);
  for (int i = 0; i < LINES; i++) {
    snprintf(line, sizeof line, "line %04d\n", i);
    ck_assert_int_eq(memcmp(text + i * LINE, line, LINE), 0);
  }
}

START_TEST(all_that_is_written_is_there) {
  struct stream stream;
  ck_assert(stream_open(&stream));
  write_lines(&stream, 0, LINES);
  char *text = stream_close(&stream);
  check_lines(text);
  free(text);
}
END_TEST

START_TEST(nothing_is_an_empty_text) {
  struct stream stream;
  ck_assert(stream_open(&stream));
  char *text = stream_close(&stream);
  ck_assert_str_eq(text, "");
  free(text);
}
END_TEST

/* Memory ends with the first, the second allocation and so on, and is there again for the last lines. */
START_TEST(a_part_is_none) {
  struct stream stream;
  char *text = NULL;
  int tries = 0;
  for (; !text; tries++) {
    memory_allocations_left = tries;
    bool opened = stream_open(&stream);
    ck_assert(opened || tries == 0);
    if (opened) {
      write_lines(&stream, 0, LINES - 10);
      fflush(stream.out);
      memory_allocations_left = -1;
      write_lines(&stream, LINES - 10, LINES);
      text = stream_close(&stream);
    }
  }
  check_lines(text);
  free(text);
  ck_assert_int_gt(tries, 3);
}
END_TEST

Suite *stream_suite(void);
Suite *stream_suite(void) {
  Suite *suite = suite_create("stream");
  TCase *test = tcase_create("stream");
  tcase_add_test(test, all_that_is_written_is_there);
  tcase_add_test(test, nothing_is_an_empty_text);
  tcase_add_test(test, a_part_is_none);
  suite_add_tcase(suite, test);
  return suite;
}
