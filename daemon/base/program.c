#include "daemon/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/child.h"

int program_descriptor(int fd) {
  int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, PROGRAM_DESCRIPTORS) : -1;
  int error = errno;
  if (fd >= 0) {
    close(fd);
  }
  errno = error;
  return high;
}

bool program_open(struct program *program, struct failure *failure) {
  static const char *const places[] = {"", "../", "../libexec/framed/", "../../libexec/framed/"};
  const char *named = getenv(program->variable);
  char own[PATH_MAX], path[2 * PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  own[length > 0 ? length : 0] = '\0';
  const char *folder = dirname(own);
  int error = 0;
  for (size_t i = 0; i < (named ? 1 : sizeof places / sizeof places[0]) && program->fd < 0; i++) {
    snprintf(path, sizeof path, "%s/%s%s", folder, places[i], program->name);
    program->fd = program_descriptor(open(named ? named : path, O_PATH | O_CLOEXEC));
    error = program->fd < 0 && errno != ENOENT ? errno : error;
  }
  if (program->fd < 0 && error != 0) {
    return failure_set_system(failure, error, NULL, "cannot open %s", program->name);
  }
  return program->fd >= 0 || failure_set(failure, EXIT_STATUS_CONFIG, "install it with framed: both are of one version",
                                         "there is no %s beside %.300s nor in libexec", program->name, folder);
}

/* Made once, since the daemon changes its environment before it executes itself, when another thread may start a worker. */
static char **environment_for_programs(void) {
  static const char *const hidden[] = {"NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_", "FRAMED_STATE", "CREDENTIALS_DIRECTORY="};
  static char **made;
  size_t count = 0, kept = 0;
  while (environ[count]) {
    count++;
  }
  char **copy = made ? NULL : calloc(count + 1, sizeof *copy);
  for (size_t i = 0; copy && i < count; i++) {
    bool hides = false;
    for (size_t k = 0; k < sizeof hidden / sizeof hidden[0]; k++) {
      hides = hides || strncmp(environ[i], hidden[k], strlen(hidden[k])) == 0;
    }
    if (!hides) {
      copy[kept++] = environ[i];
    }
  }
  made = made ? made : copy;
  return made;
}

int program_spawn(const struct program *program, char *const arguments[], const int *descriptors, int count, pid_t *pid) {
  char path[64];
  const char *named = getenv(program->variable);
  snprintf(path, sizeof path, "/proc/self/fd/%d", program->fd);
  /* A script cannot be executed by its descriptor, which its interpreter does not have. */
  const struct child_setup setup = {.program = named ? named : path,
                                    .arguments = arguments,
                                    .environment = environment_for_programs(),
                                    .descriptors = descriptors,
                                    .count = count};
  return setup.environment ? child_spawn(&setup, pid) : ENOMEM;
}
