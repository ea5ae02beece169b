/* The limits of a process after it has confined itself. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/runner.h"
#include "tools/camera/confine.h"

static char path[] = "/tmp/framed-confine-XXXXXX";

/* Nothing may run in the child that writes files at its end. 0: as it should be. */
static int check_confined(bool has_device) {
  char *const program[] = {"/bin/true", NULL};
  if (!confine_all(has_device)) {
    return 1;
  }
  if (open(path, O_RDONLY | O_CLOEXEC) < 0 || open("/etc/hosts", O_RDONLY | O_CLOEXEC) < 0) {
    return 2;
  }
  if (open(path, O_WRONLY | O_CLOEXEC) >= 0 || open("/tmp/framed-confine-new", O_CREAT | O_CLOEXEC, 0600) >= 0) {
    return 3;
  }
  if ((open(path, O_RDWR | O_CLOEXEC) >= 0) != has_device) {
    return 4;
  }
  if (open(path, O_RDWR | O_TRUNC | O_CLOEXEC) >= 0 || unlink(path) == 0 || chmod(path, 0666) == 0) {
    return 5;
  }
  if (execv(program[0], program) == 0 || errno != EPERM || kill(getppid(), 0) == 0) {
    return 6;
  }
  return 0;
}

START_TEST(a_confined_process_can_read_and_no_more) {
  int fd = mkstemp(path), status = -1;
  ck_assert_int_ge(fd, 0);
  pid_t child = fork();
  if (child == 0) {
    _exit(check_confined(_i == 1));
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  unlink(path);
  close(fd);
#if defined(FRAMED_SECCOMP) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ck_assert_int_eq(status, 0);
#endif
}
END_TEST

Suite *confine_suite(void);
Suite *confine_suite(void) {
  Suite *suite = suite_create("confine");
  TCase *cases = tcase_create("confine");
  tcase_add_loop_test(cases, a_confined_process_can_read_and_no_more, 0, 2);
  suite_add_tcase(suite, cases);
  return suite;
}
