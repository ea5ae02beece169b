/*
 * An error as a value: what failed and where, what to do about it, and the exit status it means for a program
 * that cannot go on without it (sysexits). Functions fill it and return false or NULL; nobody prints it but main
 * and the log.
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
  char text[512];
  char remedy[FAILURE_REMEDY]; /* may be empty */
};

/* Fills `failure` and returns false, so that a function can end in `return failure_set(...)`. */
__attribute__((format(printf, 4, 5))) bool failure_set(struct failure *failure, enum exit_status status, const char *remedy,
                                                       const char *format, ...);

#endif
