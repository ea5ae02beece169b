/*
 * Workers over an upgrade: the daemon executes its next image, and its workers go on. The new image finds them by their process
 * and by the descriptors that stay open, has them forget what the image before had asked for, and asks for everything again.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/device/process_private.h"

enum { RESET_S = 2 }; /* a worker whose frames take longer is ended, as one that hangs */

void process_leave(struct process *process, struct process_left *left) {
  *left = (struct process_left){.version = 0};
  if (!process_is_lost(process, NULL)) {
    atomic_store(&process->is_left, true);
    *left = (struct process_left){.version = WORKER_VERSION,
                                  .pid = process->pid,
                                  .control = process->control,
                                  .counts = process->counts_memory,
                                  .program = process->program};
  }
}

/* The descriptors are in `left`. */
static bool take_up(struct process *process, const void *context, struct gpu_error *error) {
  const struct process_left *left = context;
  struct stat status;
  void *counts = MAP_FAILED;
  siginfo_t info;
  process->pid = left->pid;
  process->control = left->control;
  process->is_outdated = left->program.device != process->program.device || left->program.inode != process->program.inode;
  process->program = left->program;
  errno = EINVAL;
  const bool is_child = waitid(P_PID, (id_t)left->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (is_child && fstat(left->counts, &status) == 0 && status.st_size >= (off_t)sizeof *process->counts) {
    counts = mmap(NULL, sizeof *process->counts, PROT_READ | PROT_WRITE, MAP_SHARED, left->counts, 0);
  }
  if (counts == MAP_FAILED) {
    close(left->counts);
    return process_error(error, errno, "a worker of the image before cannot be taken over");
  }
  process->counts = counts;
  process->counts_memory = left->counts;
  process->is_adopted = true;
  return true;
}

struct process *process_adopt(const struct process_left *left, int control, int counts) {
  struct process_left now = *left;
  struct gpu_error error;
  now.control = control;
  now.counts = counts;
  struct process *process = control >= 0 && counts >= 0 && left->version == WORKER_VERSION && left->pid > 0
                                ? process_new(take_up, &now, &error)
                                : NULL;
  if (process && !process_tell_within(process, WORKER_RESET, RESET_S, &error)) {
    process_kill(process, &error);
    process = process_release(process);
  }
  return process;
}

bool process_is_adopted(const struct process *process) { return process->is_adopted; }

bool process_is_outdated(const struct process *process) { return process->is_outdated; }
