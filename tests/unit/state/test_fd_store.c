/* What a process that was killed had noted: each file that it wrote is known with the size of its results, and no other one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/state/fd_store.h"
#include "daemon/state/state.h"

#include "tests/unit/runner.h"

static const char named[] = "/run/framed/out", unsized[] = "/run/framed/out.raw";

static struct fd_store_file file_of(const char *path, uint64_t result_bytes) {
  return (struct fd_store_file){.path = state_checksum(path, strlen(path)), .result_bytes = result_bytes};
}

/* As the next process would find it. Nobody hears what the manager is told. */
static void note(const struct fd_store_file *files, unsigned count) {
  const struct history history = {.cause = HISTORY_UPGRADE, .closed = 7};
  setenv("NOTIFY_SOCKET", "/nobody", 1);
  setenv("FDSTORE", "10", 1);
  fd_store_note(&history, files, count);
  ck_assert(fd_store_look_into(dup(image_fd()), true));
  ck_assert(fd_store_was_killed());
}

START_TEST(files_that_were_written_are_known) {
  const struct fd_store_file files[] = {file_of(named, 512), file_of(unsized, 0)};
  struct history history = {0};
  uint64_t bytes = 9;
  note(files, 2);
  ck_assert(fd_store_was_writing(named, &bytes) && bytes == 512);
  ck_assert(fd_store_was_writing(unsized, &bytes) && bytes == 0);
  ck_assert(!fd_store_was_writing("/run/framed/ou", &bytes) && !fd_store_was_writing("", &bytes));
  ck_assert(fd_store_recover(&history) && history.cause == HISTORY_UPGRADE && history.closed == 7);
  fd_store_forget_last();
  ck_assert(!fd_store_was_writing(named, &bytes) && !fd_store_was_killed());
}
END_TEST

START_TEST(without_a_journal_it_may_be_any_file) {
  uint64_t bytes = 9;
  note(NULL, 0);
  ck_assert(fd_store_was_writing(named, &bytes) && bytes == 0);
  ck_assert(!fd_store_recover(&(struct history){0}));
  fd_store_forget_last();
}
END_TEST

START_TEST(who_ended_by_itself_was_not_killed) {
  const struct fd_store_file file = file_of(named, 512);
  uint64_t bytes;
  note(&file, 1);
  fd_store_end();
  ck_assert(fd_store_look_into(dup(image_fd()), true) && !fd_store_was_killed());
  ck_assert(!fd_store_was_writing(named, &bytes) && bytes == 0);
  fd_store_forget_last();
}
END_TEST

Suite *fd_store_suite(void);
Suite *fd_store_suite(void) {
  Suite *suite = suite_create("fd_store");
  TCase *test = tcase_create("all");
  tcase_add_test(test, files_that_were_written_are_known);
  tcase_add_test(test, without_a_journal_it_may_be_any_file);
  tcase_add_test(test, who_ended_by_itself_was_not_killed);
  suite_add_tcase(suite, test);
  return suite;
}
