/*
 * An error as a value: what failed and where, what to do about it, and the exit status it means for a program
 * that cannot go on without it (sysexits). Functions fill it and return false or NULL; nobody prints it but main
 * and the log.
 *
 * EXIT_STATUS_CONFIG means that the text of the configuration is wrong; a service manager does not start such a daemon again.
 * What the system refuses (a full disk, a lost mount, no descriptor) may be over in a moment: `passes` says so, and the caller
 * waits and tries again. failure_set_system() alone decides this, by the errno. Every call that the system may refuse fails
 * through it; tests/structure.py allows no strerror() in a failure_set().
 */
#ifndef FRAMED_BASE_FAILURE_H
#define FRAMED_BASE_FAILURE_H

#include <stdbool.h>

enum exit_status {
  EXIT_STATUS_OK = 0,
  EXIT_STATUS_USAGE = 64,
  EXIT_STATUS_NO_GPU = 69,
  EXIT_STATUS_INTERNAL = 70,
  EXIT_STATUS_GPU_LOST = 71,
  EXIT_STATUS_CONFIG = 78
};

enum { FAILURE_REMEDY = 256 };

struct failure {
  enum exit_status status;
  bool device; /* a device failed, which another process may find well */
  bool later;  /* it may be over in a moment */
  bool passes; /* the system refused something that it may allow later: the configuration is not wrong */
  char text[512];
  char remedy[FAILURE_REMEDY]; /* may be empty */
};

/* Fills `failure` and returns false, so that a function can end in `return failure_set(...)`. */
__attribute__((format(printf, 4, 5))) bool failure_set(struct failure *failure, enum exit_status status, const char *remedy,
                                                       const char *format, ...);

/* Fills it for a call that the system refused with that errno, whose words follow the text: ": No space left on device". With a
 * `remedy` of NULL the errno chooses one. */
__attribute__((format(printf, 4, 5))) bool failure_set_system(struct failure *failure, int error, const char *remedy,
                                                              const char *format, ...);
/* Fills it where something is in the way of one pipeline: another file, or another process's socket. It may be a mistake, for
 * which a reload is refused, but somebody may also move it away: at a start the pipeline waits, and the others begin. */
__attribute__((format(printf, 3, 4))) bool failure_set_in_the_way(struct failure *failure, const char *remedy,
                                                                  const char *format, ...);
/* Fills it where memory is short, which passes. */
__attribute__((format(printf, 2, 3))) bool failure_set_memory(struct failure *failure, const char *format, ...);

/* Whether the machine may cure an error of that number while the configuration stays as it is. */
bool failure_passes(int error);

#endif
