/*
 * An error as a value: what failed and where, the remedy, and the exit status (sysexits) if the program cannot continue.
 * Functions fill it and return false or NULL. Only main and the log print it.
 *
 * EXIT_STATUS_CONFIG means that the text of the configuration is wrong; a service manager does not restart such a daemon. An
 * error of the system (full disk, lost mount, no descriptor) may be temporary. Then `passes` is set, and the caller waits and
 * tries again. Only failure_set_system() decides this, from the errno. Every failed system call is reported through it;
 * tests/structure.py allows no strerror() in a failure_set().
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
  bool device; /* a device failed; it may work for another process */
  bool later;  /* may be over in a moment */
  bool passes; /* a temporary error of the system; the configuration is not wrong */
  char text[512];
  char remedy[FAILURE_REMEDY]; /* may be empty */
};

/* Fills `failure` and returns false, so that a function can end with `return failure_set(...)`. */
__attribute__((format(printf, 4, 5))) bool failure_set(struct failure *failure, enum exit_status status, const char *remedy,
                                                       const char *format, ...);

/* For a failed system call: appends the text of the errno (": No space left on device"). If `remedy` is NULL the errno selects
 * one. */
__attribute__((format(printf, 4, 5))) bool failure_set_system(struct failure *failure, int error, const char *remedy,
                                                              const char *format, ...);
/* For one pipeline that cannot start because of another file or another process's socket. A reload is refused, because it may
 * be a mistake. At a start this pipeline waits, because somebody may remove the obstacle, and the others start. */
__attribute__((format(printf, 3, 4))) bool failure_set_in_the_way(struct failure *failure, const char *remedy,
                                                                  const char *format, ...);
/* For a lack of memory, which is temporary. */
__attribute__((format(printf, 2, 3))) bool failure_set_memory(struct failure *failure, const char *format, ...);

/* True if the error may go away while the configuration stays as it is. */
bool failure_passes(int error);

#endif
