#include "daemon/state/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/systemd.h"
#include "daemon/device/device.h"
#include "daemon/state/fd_store.h"
#include "daemon/state/fd_table.h"
#include "daemon/state/image.h"
#include "daemon/state/state.h"

#define VARIABLE "FRAMED_STATE"
#define SELF     "/proc/self/exe"

enum { FIRST = STDERR_FILENO + 1, PATH_ROOM = 4096 };

static struct {
  char **argv;
  char program[PATH_ROOM];
  int reserve[EXEC_RESERVE]; /* 0: none */
} call;

/* If the daemon was started by a symbolic link, an upgrade executes the link's target at that time. */
static void follow_link(const char *name) {
  char folder[PATH_ROOM / 2], path[PATH_ROOM];
  char *real = strchr(name, '/') ? realpath(name, NULL) : NULL;
  bool is_link = real && strcmp(real, call.program) == 0 && strcmp(real, name) != 0;
  free(real);
  if (!is_link || (name[0] != '/' && !getcwd(folder, sizeof folder))) {
    return;
  }
  int length = snprintf(path, sizeof path, "%s%s%s", name[0] == '/' ? "" : folder, name[0] == '/' ? "" : "/", name);
  if (length < (int)sizeof path) {
    memcpy(call.program, path, (size_t)length + 1);
  }
}

void exec_remember(char **argv) {
  static const char deleted[] = " (deleted)";
  ssize_t length = readlink(SELF, call.program, sizeof call.program - 1);
  call.argv = argv;
  call.program[length > 0 ? length : 0] = '\0';
  size_t whole = strlen(call.program), end = sizeof deleted - 1;
  if (whole > end && strcmp(call.program + whole - end, deleted) == 0) {
    call.program[whole - end] = '\0'; /* this program was replaced already; the path is that of its successor */
  }
  follow_link(argv[0]);
}

void exec_reserve(int count) {
  for (int i = 0; i < EXEC_RESERVE; i++) {
    if (i < count && call.reserve[i] == 0) {
      int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, FIRST);
      call.reserve[i] = fd > 0 ? fd : 0;
    } else if (i >= count && call.reserve[i] > 0) {
      close(call.reserve[i]);
      call.reserve[i] = 0;
    }
  }
}

const char *exec_program(void) { return call.program[0] ? call.program : NULL; }

/* -- receiving ----------------------------------------------------------------------------------------------------- */

/* The manager keeps its copy of each socket until it has read that it may forget it. Until then such a socket looks like that
 * of another daemon. */
static void wait_for_manager(void) {
  if (systemd_keeps() > 0) {
    (void)systemd_has_read(); /* without an answer in time they look like that */
  }
}

/* The variable names the image of the previous process. */
static enum receipt receive_by_variable(const char *text, struct failure *failure) {
  int fd = (int)strtol(text, NULL, 10);
  enum receipt receipt = fd_store_open_image(fd >= FIRST ? fd : -1, false, failure);
  unsetenv(VARIABLE);
  close_range(FIRST, ~0U, CLOSE_RANGE_CLOEXEC);
  if (receipt == RECEIPT_WHOLE) {
    fd_table_receive(false);
  }
  return receipt;
}

enum receipt exec_receive(struct failure *failure) {
  const char *text = getenv(VARIABLE);
  enum receipt receipt = text ? receive_by_variable(text, failure) : fd_store_receive(failure);
  if (receipt == RECEIPT_UNUSABLE) {
    wait_for_manager();
  }
  exec_reserve(1); /* the start needs the other reserved descriptors */
  return receipt;
}

void exec_discard(void) {
  fd_table_close_rest(!state_left()->by_manager);
  fd_store_withdraw();
  wait_for_manager();
}

/* -- handing over -------------------------------------------------------------------------------------------------- */

static bool name_image(int image) {
  char text[16];
  snprintf(text, sizeof text, "%d", image);
  return setenv(VARIABLE, text, 1) == 0;
}

static bool exec_run(const char *program, struct failure *failure) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool passed_on = systemd_pass_on();
  if (passed_on) {
    device_end_all();
    execv(program, call.argv);
  }
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!passed_on) {
    return failure_set_memory(failure, "not enough memory to hand over");
  }
  return failure_set_system(failure, error, "check that the file is there and may be executed", "cannot execute '%s'", program);
}

/* Executes the program with all wanted descriptors and the image. The program finds the image by the variable, or as the
 * service manager passed it. */
static void hand_over(const char *program, int image, bool by_manager, struct failure *failure) {
  exec_reserve(0);
  close_range(FIRST, ~0U, CLOSE_RANGE_CLOEXEC);
  bool stays = fd_table_stay() && fcntl(image, F_SETFD, 0) == 0;
  if (!stays || !(by_manager ? systemd_pass_again() : name_image(image))) {
    failure_set_system(failure, errno, NULL, "not all can be handed over");
  } else {
    exec_run(program, failure);
  }
  unsetenv(VARIABLE);
  systemd_pass_nothing();
  close_range(FIRST, ~0U, CLOSE_RANGE_CLOEXEC);
  exec_reserve(EXEC_RESERVE);
}

void exec_execute(const char *program, struct state *state, struct failure *failure) {
  fd_store_note(state, IMAGE_IS_LIVE);
  hand_over(program ? program : SELF, image_fd(), false, failure);
  fd_table_mark(); /* the exec failed, so the descriptors to keep may change again */
}

void exec_repeat(struct failure *failure) {
  fd_store_repeat();
  hand_over(SELF, image_left_fd(), state_left()->by_manager, failure);
}

void exec_start_over(struct failure *failure) {
  int image = fd_store_was_killed() ? image_left_fd() : -1;
  if (image < 0) {
    fd_store_forget_image();
  }
  wait_for_manager();
  close_range(FIRST, ~0U, CLOSE_RANGE_CLOEXEC);
  if (image >= 0 && (fcntl(image, F_SETFD, 0) != 0 || !name_image(image))) {
    failure_set_memory(failure, "not enough memory to begin anew");
    return;
  }
  exec_run(SELF, failure);
}
