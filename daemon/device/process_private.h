/* What process.c and call.c share: the record of a worker. */
#ifndef FRAMED_DEVICE_PROCESS_PRIVATE_H
#define FRAMED_DEVICE_PROCESS_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/device/process.h"

enum { END_MS = 2000 }; /* a worker that is to end has ended by then, or is killed */

enum condition { ALIVE, DYING, LOST };

struct process {
  atomic_uint holders;
  unsigned generation;
  pid_t pid;
  int pidfd; /* -1: a tool that runs this process knows of none; then the control socket alone tells of the end */
  int control;
  struct worker_counts *counts;
  int counts_memory;
  pthread_mutex_t lock; /* of the descriptors, which go with the worker, */
  pthread_cond_t gone;
  bool ended; /* and of this: it was reaped */
  _Atomic enum condition condition;
  struct gpu_error cause; /* not read before LOST */
  atomic_bool ends;       /* it was let go of: its end is no loss */
  atomic_bool is_left;    /* to the next image of the daemon */
  bool is_adopted, is_outdated;
  struct process_program program;
  _Atomic(process_lost *) lost;
  void *context;
  struct process *next; /* of all */
};

/* Makes a record and has `begin` fill in its process, control socket and counts; then watches it. NULL with an error. */
typedef bool process_begin(struct process *process, const void *context, struct gpu_error *error);
struct process *process_new(process_begin *begin, const void *context, struct gpu_error *error);
/* Like process_call(), for a call without a request, an answer, or patience: of so many seconds. */
bool process_tell_within(struct process *process, enum worker_call call, int seconds, struct gpu_error *error);
/* Waits until it was reaped; without a limit if that is negative. False: it was not by then. */
bool process_await(struct process *process, int milliseconds);
/* Fills the error with what the system said. Returns false. */
bool process_error(struct gpu_error *error, int code, const char *what);

#endif
