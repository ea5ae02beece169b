/*
 * A program that belongs to this release, such as framed-worker: where it is, and how the daemon executes it.
 *
 * It is beside the daemon (built, unpacked) or in libexec/framed (installed). The daemon opens it once, so that it never
 * executes the program of a release that was installed later. Such a program is nobody for systemd: it gets no variables of the
 * service manager.
 */
#ifndef FRAMED_BASE_PROGRAM_H
#define FRAMED_BASE_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/base/failure.h"

enum { PROGRAM_DESCRIPTORS = 8 }; /* a program gets fewer */

struct program {
  const char *name;     /* "framed-worker" */
  const char *variable; /* a variable of the environment that names another file */
  int fd;               /* of the file; -1: it was not opened yet */
};

/* Opens it; idempotent. The caller makes sure that one thread at a time does so. */
bool program_open(struct program *program, struct failure *failure);
/* Executes it. `descriptors` are the child's 0, 1, 2 and so on: CHILD_NULL, CHILD_KEEPS, or a number that is at least
 * PROGRAM_DESCRIPTORS, so that none is overwritten before it is passed on. 0, or an errno. */
int program_spawn(const struct program *program, char *const arguments[], const int *descriptors, int count, pid_t *pid);
/* A copy of the descriptor that is high enough for program_spawn(); closes the given one. -1 and errno. */
int program_descriptor(int fd);

#endif
