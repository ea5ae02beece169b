/*
 * A worker: a process of the program framed-worker, which has one device and everything that others wrote.
 *
 * It is started from a descriptor of the program that was opened once, so that what is installed later is never mixed with this
 * daemon. A thread of its own watches it; whoever asks learns at once that it is lost, and why. What holds a worker keeps this
 * record and not the process: a call to a worker that has ended fails.
 */
#ifndef FRAMED_DEVICE_PROCESS_H
#define FRAMED_DEVICE_PROCESS_H

#include <sys/types.h>

#include "gpu/record/messages.h"
#include "gpu/record/pages.h"

struct process;

/* Starts a worker that has no device yet. NULL with an error. */
struct process *process_start(struct gpu_error *error);
struct process *process_hold(struct process *process); /* returns it */
/* The last one who lets go ends the worker and waits until it has ended. NULL is fine; returns NULL. */
struct process *process_release(struct process *process);

/* Sends the request and waits for the answer, which is the caller's to free also on false. `answer->unpack` stands behind what
 * says that it worked. Any set-up thread. */
bool process_call(struct process *process, enum worker_call call, const struct pack *request, const int *descriptors,
                  unsigned count, struct worker_message *answer, struct gpu_error *error);
/* The same for a call without an answer of its own. */
bool process_tell(struct process *process, enum worker_call call, const struct pack *request, struct gpu_error *error);
/* Has the worker forget an object, if it still is. */
void process_let_go(struct process *process, uint64_t id);

pid_t process_id(const struct process *process);
/* Different for each worker that this process has started, and never 0. */
unsigned process_generation(const struct process *process);
/* The page of counts, which the worker writes once it has a device, and the memory of the page. */
struct worker_counts *process_counts(struct process *process);
int process_counts_memory(const struct process *process);

/* Whether it is lost, and (unless NULL) why. Any thread; never blocks. */
bool process_is_lost(const struct process *process, struct gpu_error *cause);
/* Whether the driver reported a fault of the GPU, after which nothing that the worker began runs there any more. Its process
 * may take 60 ms longer to end. */
bool process_is_stopped(const struct process *process);
/* Waits until it has ended, which it is about to. */
void process_await_end(struct process *process);
/* Ends it at once, for that reason unless there is one already. Any thread; never blocks. */
void process_kill(struct process *process, const struct gpu_error *reason);
/* Who is told, by the watching thread, that it is lost; before it can be. */
typedef void process_lost(void *context);
void process_on_lost(struct process *process, process_lost *lost, void *context);

/* -- from one image of the daemon to the next (left.c) --------------------------------------------------------------- */

struct process_program { /* the file that a worker executes */
  uint64_t device, inode;
};

/* The record from which the next image goes on with a worker. The descriptors must stay open in that image. */
struct process_left {
  uint32_t version; /* WORKER_VERSION; 0: there is no worker */
  int32_t pid, control, counts;
  struct process_program program;
};

/* Fills that in, and exempts the worker from process_end_others(). A worker that is lost is not left. */
void process_leave(struct process *process, struct process_left *left);
/* Takes a worker over from the image before, with its descriptors as they are now, and has it forget what it has made. NULL: it
 * could not be had, and is ended. */
struct process *process_adopt(const struct process_left *left, int control, int counts);
bool process_is_adopted(const struct process *process);
/* Whether the worker executes another file than the daemon would start now. */
bool process_is_outdated(const struct process *process);
/* Before the next image follows: all workers that are not left to it are ended, and have ended when this returns. */
void process_end_others(void);
/* The next image did not follow: every worker goes on. */
void process_stay(void);

/* A memfd of zeros, mapped; -1 and errno on error. */
int process_memory(const char *name, size_t bytes, void **base);

#endif
