/*
 * A child process of the control loop, watched through a pidfd.
 *
 * The program is executed directly, never through a shell; a file that the kernel cannot execute is an error. The child gets
 * default signals, an empty signal mask, and only the given descriptors. Control loop only.
 */
#ifndef FRAMED_BASE_CHILD_H
#define FRAMED_BASE_CHILD_H

#include <sys/types.h>
#include <uv.h>

#include "daemon/base/failure.h"

struct child;

/* Called once, after the child was reaped: with its exit status, or -1 and the signal that ended it. The child is freed after
 * this. */
typedef void child_ended(void *context, int status, int signal);

/* `descriptors`: the child's 0, 1, 2 and so on; -1 is /dev/null. The caller keeps them. NULL on failure. */
struct child *child_start(uv_loop_t *loop, const char *program, char *const arguments[], const int *descriptors, int count,
                          child_ended *ended, void *context, struct failure *failure);
pid_t child_pid(const struct child *child);
/* Sends SIGKILL; ended() follows. */
void child_kill(const struct child *child);

#endif
