#include "daemon/device/process_private.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/child.h"
#include "daemon/base/program.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct process *all; /* these three with `lock` */
static struct program program = {.name = "framed-worker", .variable = "FRAMED_WORKER", .fd = -1};
static unsigned generations;

/* -- the program ---------------------------------------------------------------------------------------------------- */

static bool open_program(struct gpu_error *error) {
  struct failure failure;
  bool opened = program_open(&program, &failure);
  if (!opened) {
    *error = (struct gpu_error){.stage = -1, .of_system = failure.passes};
    snprintf(error->text, sizeof error->text, "%s", failure.text);
    snprintf(error->remedy, sizeof error->remedy, "%s", failure.remedy);
  }
  return opened;
}

bool process_error(struct gpu_error *error, int code, const char *what) {
  char reason[64];
  *error = (struct gpu_error){.code = code, .of_system = true, .stage = -1};
  snprintf(error->text, sizeof error->text, "%s: %s", what, strerror_r(code, reason, sizeof reason));
  if (code == EMFILE || code == ENFILE) {
    snprintf(error->remedy, sizeof error->remedy, "raise the limit of open files (LimitNOFILE)");
  }
  return false;
}

int process_memory(const char *name, size_t bytes, void **base) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  *base = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (*base == MAP_FAILED) {
    int code = errno;
    if (fd >= 0) {
      close(fd);
    }
    errno = code;
    *base = NULL;
    fd = -1;
  }
  return fd;
}

/* -- its end -------------------------------------------------------------------------------------------------------- */

static void die(struct process *process, const struct gpu_error *error) {
  enum condition alive = ALIVE;
  if (atomic_compare_exchange_strong(&process->condition, &alive, DYING)) {
    process->cause = *error;
    atomic_store(&process->condition, LOST);
  }
}

bool process_is_lost(const struct process *process, struct gpu_error *cause) {
  if (atomic_load_explicit(&process->condition, memory_order_acquire) != LOST) {
    return false;
  }
  if (cause) {
    *cause = process->cause;
  }
  return true;
}

bool process_is_stopped(const struct process *process) { return process_is_lost(process, NULL) && process->cause.is_stopped; }

static void send_signal(struct process *process, int number) {
  pthread_mutex_lock(&process->lock);
  if (!process->ended) {
    kill(process->pid, number); /* nobody else has the number before it was waited for */
  }
  pthread_mutex_unlock(&process->lock);
}

void process_kill(struct process *process, const struct gpu_error *reason) {
  die(process, reason);
  send_signal(process, SIGKILL);
}

/* Without a limit if that is negative. False: it has not ended by then. */
bool process_await(struct process *process, int milliseconds) {
  struct timespec limit;
  int code = 0;
  clock_gettime(CLOCK_MONOTONIC, &limit);
  limit.tv_sec += milliseconds / 1000;
  pthread_mutex_lock(&process->lock);
  while (!process->ended && code == 0) {
    code = milliseconds < 0 ? pthread_cond_wait(&process->gone, &process->lock)
                            : pthread_cond_clockwait(&process->gone, &process->lock, CLOCK_MONOTONIC, &limit);
  }
  bool ended = process->ended;
  pthread_mutex_unlock(&process->lock);
  return ended;
}

static void describe_end(pid_t pid, const siginfo_t *info, struct gpu_error *error) {
  *error = (struct gpu_error){.stage = -1};
  if (info->si_code == CLD_EXITED) {
    snprintf(error->text, sizeof error->text, "the worker (process %d) has ended with status %d", (int)pid, info->si_status);
  } else {
    snprintf(error->text, sizeof error->text, "the worker (process %d) was ended by signal %d (%s)", (int)pid, info->si_status,
             strsignal(info->si_status));
  }
  snprintf(error->remedy, sizeof error->remedy, "a stage or a model that others wrote may have crashed: see coredumpctl");
}

static void hear_last_words(struct process *process) {
  struct worker_last_words words;
  ssize_t got;
  while ((got = recvfrom(process->control, &words, sizeof words, MSG_DONTWAIT, NULL, NULL)) < 0 && errno == EINTR) {
  }
  if (got == (ssize_t)sizeof words && words.version == WORKER_VERSION) {
    words.error.text[sizeof words.error.text - 1] = '\0';
    words.error.remedy[sizeof words.error.remedy - 1] = '\0';
    die(process, &words.error);
  }
}

static void tell(struct process *process) {
  process_lost *lost = atomic_load(&process->lost);
  if (lost && !atomic_load(&process->ends)) {
    lost(process->context);
  }
}

/* What belongs to a worker that has ended is given back, whoever still holds the record. */
static void close_descriptors(struct process *process) {
  int *const descriptors[] = {&process->control, &process->pidfd};
  for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++) {
    if (*descriptors[i] >= 0) {
      close(*descriptors[i]);
    }
    *descriptors[i] = -1;
  }
}

/* A worker that says that it is at its end, or is no longer heard, is not waited for long. */
static void reap(struct process *process, siginfo_t *info) {
  struct pollfd end = {.fd = process->pidfd, .events = POLLIN};
  int ready;
  while ((ready = poll(&end, 1, process->pidfd < 0 ? 0 : END_MS)) < 0 && errno == EINTR) {
  }
  if (ready == 0 || process->pidfd < 0) {
    send_signal(process, SIGKILL);
  }
  while (waitid(P_PID, (id_t)process->pid, info, WEXITED) != 0 && errno == EINTR) {
  }
}

/* What it says last counts more than how it ended. */
static void *watch(void *context) {
  struct process *process = context;
  struct pollfd watched[] = {{.fd = process->control, .events = POLLIN}, {.fd = process->pidfd, .events = POLLIN}};
  siginfo_t info = {0};
  struct gpu_error error;
  pthread_setname_np(pthread_self(), "framed-watch");
  while (poll(watched, 2, -1) < 0 && errno == EINTR) {
  }
  hear_last_words(process);
  if (process_is_lost(process, NULL)) {
    tell(process);
  }
  reap(process, &info);
  describe_end(process->pid, &info, &error);
  die(process, &error);
  tell(process);
  pthread_mutex_lock(&process->lock);
  process->ended = true;
  close_descriptors(process);
  pthread_cond_broadcast(&process->gone);
  pthread_mutex_unlock(&process->lock); /* whoever waited may free the record now */
  return NULL;
}

/* Detached, since a daemon that ends at a fault leaves records of workers as they are. */
static int start_watching(struct process *process) {
  pthread_t watcher;
  pthread_attr_t detached;
  int code = pthread_attr_init(&detached);
  if (code == 0) {
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    code = pthread_create(&watcher, &detached, watch, process);
    pthread_attr_destroy(&detached);
  }
  return code;
}

/* -- its beginning -------------------------------------------------------------------------------------------------- */

/* The worker gets the control socket, and the standard files of this process. */
static int spawn(pid_t *pid, int control) {
  char version[] = FRAMED_VERSION, name[] = "framed-worker";
  char *const arguments[] = {name, version, NULL};
  const int descriptors[] = {CHILD_KEEPS, CHILD_KEEPS, CHILD_KEEPS, control};
  _Static_assert(sizeof descriptors / sizeof *descriptors == WORKER_CONTROL + 1, "the control socket is the last one");
  return program_spawn(&program, arguments, descriptors, WORKER_CONTROL + 1, pid);
}

static bool make_control(struct process *process, int *other, struct gpu_error *error) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return process_error(error, errno, "no socket for a worker");
  }
  process->control = pair[0];
  *other = program_descriptor(pair[1]);
  return *other >= 0 || process_error(error, errno, "no socket for a worker");
}

static bool make_counts(struct process *process, struct gpu_error *error) {
  void *counts = NULL;
  process->counts_memory = process_memory("framed-counts", sizeof *process->counts, &counts);
  process->counts = counts;
  return process->counts_memory >= 0 || process_error(error, errno, "no memory for what a worker counts");
}

static void free_process(struct process *process) {
  if (process->counts) {
    munmap(process->counts, sizeof *process->counts);
    close(process->counts_memory);
  }
  pthread_cond_destroy(&process->gone);
  pthread_mutex_destroy(&process->lock);
  free(process);
}

static bool start(struct process *process, const void *none, struct gpu_error *error) {
  int other = -1;
  (void)none;
  if (!make_counts(process, error) || !make_control(process, &other, error)) {
    return false;
  }
  int code = spawn(&process->pid, other);
  close(other);
  return code == 0 || process_error(error, code, "cannot execute framed-worker");
}

static bool begin_watch(struct process *process, struct gpu_error *error) {
  process->pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
  int code = process->pidfd < 0 && errno != ENOSYS ? errno : start_watching(process);
  if (code != 0) {
    child_end(process->pid);
    return process_error(error, code, "cannot watch a worker");
  }
  return true;
}

static bool note_program(struct process *process, struct gpu_error *error) {
  struct stat file;
  if (!open_program(error)) {
    return false;
  }
  if (fstat(program.fd, &file) != 0) {
    return process_error(error, errno, "cannot look at framed-worker");
  }
  process->program = (struct process_program){.device = file.st_dev, .inode = file.st_ino};
  return true;
}

struct process *process_new(process_begin *begin, const void *context, struct gpu_error *error) {
  sigset_t every, before;
  struct process *process = calloc(1, sizeof *process);
  if (!process) {
    process_error(error, ENOMEM, "no memory for a worker");
    return NULL;
  }
  *process = (struct process){.holders = 1, .pidfd = -1, .control = -1};
  pthread_mutex_init(&process->lock, NULL);
  pthread_cond_init(&process->gone, NULL);
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before); /* signals are for the daemon's own threads */
  pthread_mutex_lock(&lock);
  process->generation = ++generations;
  bool begun = note_program(process, error) && begin(process, context, error) && begin_watch(process, error);
  if (begun) {
    process->next = all;
    all = process;
  }
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!begun) {
    close_descriptors(process);
    free_process(process);
    return NULL;
  }
  return process;
}

struct process *process_start(struct gpu_error *error) {
  return process_new(start, NULL, error);
}

struct process *process_hold(struct process *process) {
  atomic_fetch_add(&process->holders, 1);
  return process;
}

struct process *process_release(struct process *process) {
  if (!process || atomic_fetch_sub(&process->holders, 1) > 1) {
    return NULL;
  }
  pthread_mutex_lock(&lock);
  for (struct process **at = &all; *at; at = &(*at)->next) {
    if (*at == process) {
      *at = process->next;
      break;
    }
  }
  pthread_mutex_unlock(&lock);
  atomic_store(&process->ends, true);
  pthread_mutex_lock(&process->lock);
  if (!process->ended) {
    shutdown(process->control, SHUT_RDWR); /* which ends the worker, and wakes who watches it */
  }
  pthread_mutex_unlock(&process->lock);
  (void)process_await(process, -1);
  free_process(process);
  return NULL;
}

void process_end_others(void) {
  const struct gpu_error error = {.stage = -1, .text = "the worker was ended for a program that then could not take over"};
  pthread_mutex_lock(&lock);
  for (struct process *process = all; process; process = process->next) {
    if (!process->is_left) {
      die(process, &error);
      send_signal(process, SIGKILL);
    }
  }
  for (struct process *process = all; process; process = process->next) {
    (void)(process->is_left || process_await(process, -1));
  }
  pthread_mutex_unlock(&lock);
}

void process_stay(void) {
  pthread_mutex_lock(&lock);
  for (struct process *process = all; process; process = process->next) {
    process->is_left = false;
  }
  pthread_mutex_unlock(&lock);
}

void process_await_end(struct process *process) {
  if (!process_await(process, END_MS)) {
    send_signal(process, SIGKILL);
    (void)process_await(process, -1);
  }
}

void process_on_lost(struct process *process, process_lost *lost, void *context) {
  process->context = context;
  atomic_store(&process->lost, lost);
}

pid_t process_id(const struct process *process) { return process->pid; }

unsigned process_generation(const struct process *process) { return process->generation; }

struct worker_counts *process_counts(struct process *process) {
  return process->counts;
}

int process_counts_memory(const struct process *process) { return process->counts_memory; }
