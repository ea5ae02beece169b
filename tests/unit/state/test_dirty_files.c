/* Files that may be torn, as text: each is found again with the size of its results, and what is no such text has any file. */
#include <stdlib.h>

#include "config/stream.h"
#include "daemon/state/fd_store.h"

#include "tests/unit/runner.h"

static const char named[] = "out", spaced[] = "a 7 b\n3 3 out", last[] = "/run/framed/out.raw";

static char *list(void) {
  struct stream lines;
  ck_assert(stream_open(&lines));
  fd_store_list(lines.out, spaced, 5);
  fd_store_list(lines.out, named, 512);
  fd_store_list(lines.out, last, 0);
  char *text = stream_close(&lines);
  ck_assert_ptr_nonnull(text);
  return text;
}

static uint64_t size_of(const char *lines, const char *file) {
  uint64_t bytes = 99;
  ck_assert(fd_store_is_dirty(lines, file, &bytes));
  return bytes;
}

START_TEST(each_file_is_found_with_its_size) {
  char *lines = list();
  ck_assert_uint_eq(size_of(lines, spaced), 5);
  ck_assert_uint_eq(size_of(lines, named), 512);
  ck_assert_uint_eq(size_of(lines, last), 0);
  free(lines);
}
END_TEST

START_TEST(no_other_file_is_found) {
  char *lines = list();
  const char *const others[] = {"ou", "out2", "b", "raw", ""};
  uint64_t bytes;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    ck_assert(!fd_store_is_dirty(lines, others[i], &bytes));
  }
  ck_assert(!fd_store_is_dirty("", named, &bytes));
  free(lines);
}
END_TEST

START_TEST(what_is_no_such_text_has_any_file_of_no_known_size) {
  const char *const others[] = {"any",    "1",  "5 3",       "5 3 ou", "5 3 out", "5 18446744073709551615 out\n",
                                "5 0 \n", "\n", "9 1 a\nany"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    ck_assert_uint_eq(size_of(others[i], named), 99);
  }
}
END_TEST

Suite *dirty_files_suite(void);
Suite *dirty_files_suite(void) {
  Suite *suite = suite_create("dirty_files");
  TCase *test = tcase_create("fd_store_torn");
  tcase_add_test(test, each_file_is_found_with_its_size);
  tcase_add_test(test, no_other_file_is_found);
  tcase_add_test(test, what_is_no_such_text_has_any_file_of_no_known_size);
  suite_add_tcase(suite, test);
  return suite;
}
