/* Child processes: what they are given, how they end, and what is no program. */
#include "daemon/base/child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/runner.h"

static uv_loop_t loop;
static struct failure failure;
static int status, by_signal, ended;

static void set_up(void) {
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ended = 0;
}

static void tear_down(void) {
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void on_end(void *context, int exited, int signal) {
  (void)context;
  status = exited;
  by_signal = signal;
  ended++;
}

static struct child *start(const char *script, const int *descriptors, int count) {
  char *arguments[] = {(char[]){"sh"}, (char[]){"-c"}, strdup(script), NULL};
  const struct child_setup setup = {.program = "/bin/sh", .arguments = arguments, .descriptors = descriptors, .count = count};
  struct child *child = child_start(&loop, &setup, on_end, NULL, &failure);
  free(arguments[2]);
  return child;
}

START_TEST(a_child_has_its_descriptors_and_its_status_is_told) {
  char text[16] = "";
  int said = memfd_create("said", MFD_CLOEXEC);
  const int descriptors[] = {-1, said, -1, said};
  ck_assert_ptr_nonnull(start("echo one; echo two >&3; exit 7", descriptors, 4));
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert(ended == 1 && status == 7 && by_signal == 0);
  ck_assert_int_eq(pread(said, text, sizeof text - 1, 0), 8);
  ck_assert_str_eq(text, "one\ntwo\n");
  close(said);
}
END_TEST

START_TEST(a_child_can_be_killed) {
  struct child *child = start("sleep 60", (const int[]){-1, -1, -1}, 3);
  ck_assert_ptr_nonnull(child);
  ck_assert_int_gt(child_pid(child), 0);
  child_kill(child);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert(ended == 1 && status == -1 && by_signal == SIGKILL);
}
END_TEST

START_TEST(a_file_that_is_no_program_is_an_error) {
  char path[] = "/tmp/framed-child-XXXXXX", *arguments[] = {path, NULL};
  const struct child_setup setup = {.program = path, .arguments = arguments};
  int fd = mkstemp(path);
  ck_assert_int_eq(dprintf(fd, "exit 0\n"), 7);
  ck_assert_int_eq(fchmod(fd, 0700), 0);
  close(fd);
  ck_assert_ptr_null(child_start(&loop, &setup, on_end, NULL, &failure));
  ck_assert_ptr_nonnull(strstr(failure.text, "Exec format error"));
  unlink(path);
  ck_assert_ptr_null(child_start(&loop, &setup, on_end, NULL, &failure));
  ck_assert_ptr_nonnull(strstr(failure.text, "No such file"));
}
END_TEST

Suite *child_suite(void);

Suite *child_suite(void) {
  Suite *suite = suite_create("child");
  TCase *cases = tcase_create("child");
  tcase_add_checked_fixture(cases, set_up, tear_down);
  tcase_add_test(cases, a_child_has_its_descriptors_and_its_status_is_told);
  tcase_add_test(cases, a_child_can_be_killed);
  tcase_add_test(cases, a_file_that_is_no_program_is_an_error);
  suite_add_tcase(suite, cases);
  return suite;
}
