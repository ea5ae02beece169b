/*
 * A child process, and one of the control loop, which watches it through a pidfd.
 *
 * The program is executed directly, never through a shell; a file that the kernel cannot execute is an error. The child gets
 * default signals, an empty signal mask, and only the given descriptors.
 */
#ifndef FRAMED_BASE_CHILD_H
#define FRAMED_BASE_CHILD_H

#include <sys/types.h>
#include <uv.h>

#include "daemon/base/failure.h"

enum { CHILD_NULL = -1, CHILD_KEEPS = -2 };

struct child_setup {
  const char *program;      /* its path */
  char *const *arguments;   /* the first one is its name */
  char *const *environment; /* NULL: this process's */
  const int *descriptors;   /* the child's 0, 1, 2 and so on; CHILD_NULL is /dev/null, CHILD_KEEPS is this process's own one */
  int count;
};

/* Executes the program, whose end is the caller's to await. Descriptors stay the caller's. 0, or an errno. Any thread. */
int child_spawn(const struct child_setup *setup, pid_t *pid);
/* Kills a child that nobody watches, and waits until it has ended. */
void child_end(pid_t pid);

/* -- control loop only -------------------------------------------------------------------------------------------- */

struct child;

/* Called once, after the child was reaped: with its exit status, or -1 and the signal that ended it. The child is freed after
 * this. */
typedef void child_ended(void *context, int status, int signal);

/* NULL with a failure. */
struct child *child_start(uv_loop_t *loop, const struct child_setup *setup, child_ended *ended, void *context,
                          struct failure *failure);
/* Watches a child of this process that was executed already. NULL: that cannot be done, and errno says why. */
struct child *child_watch(uv_loop_t *loop, pid_t pid, child_ended *ended, void *context);
pid_t child_pid(const struct child *child);
/* Sends SIGKILL; ended() follows. */
void child_kill(const struct child *child);

#endif
