/*
 * Workers over an upgrade: the daemon executes its next image, and its workers go on. The new image finds them by their process
 * and by the descriptors that stay open, has them forget what the image before had asked for, and asks for everything again.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/child.h"
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

struct adoption {
  const struct process_left *left;
  int control, counts;
  void *page;
  bool is_taken; /* the record has all of that */
};

static bool take_up(struct process *process, const void *context, struct gpu_error *error) {
  struct adoption *adoption = *(struct adoption *const *)context;
  const struct process_left *left = adoption->left;
  (void)error;
  process->pid = left->pid;
  process->control = adoption->control;
  process->counts = adoption->page;
  process->counts_memory = adoption->counts;
  process->is_outdated = left->program.device != process->program.device || left->program.inode != process->program.inode;
  process->program = left->program;
  process->is_adopted = true;
  adoption->is_taken = true;
  return true;
}

static bool is_child(pid_t pid) {
  siginfo_t info;
  return pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void *map_counts(int counts) {
  struct stat status;
  const size_t bytes = sizeof(struct worker_counts);
  void *page = MAP_FAILED;
  if (fstat(counts, &status) == 0 && status.st_size >= (off_t)bytes) {
    page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, counts, 0);
  }
  return page == MAP_FAILED ? NULL : page;
}

/* A worker that nobody takes over would keep its GPU. */
static void end_left(const struct adoption *adoption) {
  const int descriptors[] = {adoption->control, adoption->counts};
  for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++) {
    if (descriptors[i] >= 0) {
      close(descriptors[i]);
    }
  }
  if (adoption->page) {
    munmap(adoption->page, sizeof(struct worker_counts));
  }
  if (is_child(adoption->left->pid)) {
    child_end(adoption->left->pid);
  }
}

struct process *process_adopt(const struct process_left *left, int control, int counts) {
  struct adoption adoption = {.left = left, .control = control, .counts = counts};
  struct adoption *const context = &adoption;
  struct process *process = NULL;
  struct gpu_error error;
  if (left->version == WORKER_VERSION && control >= 0 && is_child(left->pid)) {
    adoption.page = map_counts(counts);
    process = adoption.page ? process_new(take_up, &context, &error) : NULL;
  }
  if (!adoption.is_taken) {
    end_left(&adoption);
  }
  if (process && !process_tell_within(process, WORKER_RESET, RESET_S, &error)) {
    process_kill(process, &error);
    process = process_release(process);
  }
  return process;
}

bool process_is_adopted(const struct process *process) { return process->is_adopted; }

bool process_is_outdated(const struct process *process) { return process->is_outdated; }
