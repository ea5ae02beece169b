#include "daemon/base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/loop.h"

struct child {
  pid_t pid;
  int pidfd; /* readable once the child has ended */
  struct loop_watch *watch;
  child_ended *ended;
  void *context;
};

/* Some C libraries lack wrappers for these system calls. */
static int open_pidfd(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

static void send_signal(int pidfd, int number) { (void)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0); }

static void on_end(void *context) {
  struct child *child = context;
  int state = 0;
  if (waitpid(child->pid, &state, WNOHANG) != child->pid) {
    return;
  }
  loop_watch_close(child->watch);
  close(child->pidfd);
  child->ended(child->context, WIFEXITED(state) ? WEXITSTATUS(state) : -1, WIFSIGNALED(state) ? WTERMSIG(state) : 0);
  free(child);
}

/* Sources are numbers above the targets, and targets are filled from 0, so no source is overwritten before it is copied. */
static int map_descriptors(posix_spawn_file_actions_t *actions, const int *descriptors, int count) {
  int error = 0;
  for (int i = 0; i < count && error == 0; i++) {
    if (descriptors[i] >= 0) {
      error = posix_spawn_file_actions_adddup2(actions, descriptors[i], i);
    } else if (descriptors[i] == CHILD_NULL) {
      error = posix_spawn_file_actions_addopen(actions, i, "/dev/null", O_RDWR, 0);
    }
  }
  return error;
}

int child_spawn(const struct child_setup *setup, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) {
    return error;
  }
  error = posix_spawnattr_init(&attributes);
  if (error == 0) {
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    error = map_descriptors(&actions, setup->descriptors, setup->count);
    char *const *environment = setup->environment ? setup->environment : environ;
    error = error == 0 ? posix_spawn(pid, setup->program, &actions, &attributes, setup->arguments, environment) : error;
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* -- watching it --------------------------------------------------------------------------------------------------- */

static bool watch(struct child *child, uv_loop_t *loop) {
  child->pidfd = open_pidfd(child->pid);
  child->watch = child->pidfd >= 0 ? loop_watch_new(loop, child->pidfd, on_end, child) : NULL;
  if (child->watch) {
    loop_watch_start(child->watch);
  }
  return child->watch != NULL;
}

struct child *child_watch(uv_loop_t *loop, pid_t pid, child_ended *ended, void *context) {
  struct child *child = malloc(sizeof *child);
  if (!child) {
    errno = ENOMEM;
    return NULL;
  }
  *child = (struct child){.pid = pid, .pidfd = -1, .ended = ended, .context = context};
  if (!watch(child, loop)) {
    int error = errno;
    if (child->pidfd >= 0) {
      close(child->pidfd);
    }
    free(child);
    errno = error;
    return NULL;
  }
  return child;
}

struct child *child_start(uv_loop_t *loop, const struct child_setup *setup, child_ended *ended, void *context,
                          struct failure *failure) {
  pid_t pid;
  int error = child_spawn(setup, &pid);
  struct child *child = error == 0 ? child_watch(loop, pid, ended, context) : NULL;
  if (error == 0 && !child) {
    error = errno;
    child_end(pid);
  }
  if (error != 0) {
    failure_set_system(failure, error, NULL, "cannot execute '%s'", setup->program);
  }
  return child;
}

void child_end(pid_t pid) {
  kill(pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
  }
}

pid_t child_pid(const struct child *child) { return child->pid; }

void child_kill(const struct child *child) { send_signal(child->pidfd, SIGKILL); }
