/*
 * How a process lets go of its devices while another image follows it.
 *
 * The driver ends what a process has on its devices when their descriptors and its memory go. An image that executes another
 * one waits for that, a third of a second with two GPUs, and a driver that nobody uses is then slower to begin again. So a
 * child has these descriptors and the same memory until the image has gone, and lets go of them while the next one begins with
 * the driver. That waits for it before it makes anything on a device, for which there might be no room.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/backend.h"

enum { STACK = 16 << 10, ONE_STEP = 256 };

static struct {
  bool begun;
  int hold, gone; /* a pipe: closed by this process when it executes, or stays after all; read by the child */
  int *others;    /* descriptors of anything but devices */
  size_t count;
  _Alignas(64) unsigned char stack[STACK];
} leaving;

/* Has the thread's memory of the process that it shares, so that it calls the kernel and nothing else. */
static int let_go(void *context) {
  char none;
  (void)context;
  for (size_t i = 0; i < leaving.count; i++) {
    syscall(SYS_close, leaving.others[i]);
  }
  syscall(SYS_close, leaving.hold);
  syscall(SYS_read, leaving.gone, &none, sizeof none);
  return (int)syscall(SYS_exit_group, 0);
}

static bool note_other(int fd) {
  if (leaving.count % ONE_STEP == 0) {
    int *others = realloc(leaving.others, (leaving.count + ONE_STEP) * sizeof *others);
    if (!others) {
      return false;
    }
    leaving.others = others;
  }
  leaving.others[leaving.count++] = fd;
  return true;
}

/* Notes all but those whose names begin like a device's; gives the highest number. False: there is no device, or no memory. */
static bool look_at_descriptors(const char *devices, int *highest) {
  DIR *folder = opendir("/proc/self/fd");
  const struct dirent *entry;
  bool any = false, good = folder;
  *highest = -1;
  leaving.count = 0;
  while (good && (entry = readdir(folder))) {
    char name[PATH_MAX] = "";
    ssize_t length = readlinkat(dirfd(folder), entry->d_name, name, sizeof name - 1);
    bool is_device = length > 0 && strncmp(name, devices, strlen(devices)) == 0;
    int fd = length > 0 ? (int)strtol(entry->d_name, NULL, 10) : -1; /* the kernel names descriptors */
    *highest = fd > *highest ? fd : *highest;
    any = any || is_device;
    good = is_device || fd < 0 || fd == leaving.gone || note_other(fd);
  }
  if (folder) {
    closedir(folder);
  }
  return good && any;
}

static void leave(const char *devices) {
  int ends[2], highest;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return;
  }
  leaving.gone = ends[0]; /* before anything is noted that has its number no more then */
  bool any = look_at_descriptors(devices, &highest);
  leaving.hold = any ? fcntl(ends[1], F_DUPFD_CLOEXEC, highest + 1) : -1; /* the last that goes when this process executes */
  close(ends[1]);
  leaving.begun = leaving.hold >= 0 && clone(let_go, leaving.stack + STACK, CLONE_VM, NULL) > 0;
  close(leaving.gone);
  if (leaving.hold >= 0 && !leaving.begun) {
    close(leaving.hold);
  }
}

void gpu_leave(void) { leave("/dev/nvidia"); }

void gpu_stay(void) {
  if (leaving.begun) {
    close(leaving.hold);
    gpu_await_left();
  }
  leaving.begun = false;
  free(leaving.others);
  leaving.others = NULL;
}

/* No other child is one that tells its parent by no signal. */
void gpu_await_left(void) {
  while (waitpid(-1, NULL, (int)__WCLONE) < 0 && errno == EINTR) {
  }
}
