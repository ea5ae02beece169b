#include "daemon/device/process_private.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct process *all; /* these four with `lock` */
static int program = -1;    /* framed-worker, opened once */
static char **environment;
static unsigned generations;

extern char **environ;

/* -- the program ---------------------------------------------------------------------------------------------------- */

/* Above the number that the control socket has in the worker. */
static int open_high(const char *path) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, WORKER_CONTROL + 1) : -1;
  if (fd >= 0) {
    close(fd);
  }
  return high;
}

/* Built, installed or unpacked, it lies beside this one or in libexec, unless FRAMED_WORKER names it. */
static int open_program(struct gpu_error *error) {
  static const char *const places[] = {"framed-worker", "../framed-worker", "../libexec/framed/framed-worker",
                                       "../../libexec/framed/framed-worker"};
  char own[PATH_MAX], path[2 * PATH_MAX];
  const char *named = getenv("FRAMED_WORKER");
  if (named && program < 0) {
    program = open_high(named);
  }
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  own[length > 0 ? length : 0] = '\0';
  const char *folder = dirname(own);
  for (size_t i = 0; i < sizeof places / sizeof places[0] && program < 0; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, places[i]);
    program = open_high(path);
  }
  if (program < 0) {
    *error = (struct gpu_error){.code = errno, .stage = -1};
    snprintf(error->text, sizeof error->text, "there is no framed-worker beside %.300s nor in libexec", folder);
    snprintf(error->remedy, sizeof error->remedy, "install it with framed: both are of one version");
  }
  return program;
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

static void send_signal(struct process *process, int number) {
  pthread_mutex_lock(&process->lock);
  if (!process->ended) {
    kill(process->pid, number); /* nobody else has the number before it was waited for */
  }
  pthread_mutex_unlock(&process->lock);
}

void process_kill(struct process *process, const char *reason) {
  struct gpu_error error = {.stage = -1};
  snprintf(error.text, sizeof error.text, "%s", reason);
  die(process, &error);
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

/* The worker gets the control socket and nothing else; where systemd is concerned it is nobody. Made once, since the daemon
 * changes its environment before it executes itself, when another thread may start a worker. */
static char **make_environment(void) {
  static const char *const hidden[] = {"NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_", "FRAMED_STATE"};
  size_t count = 0, kept = 0;
  while (environ[count]) {
    count++;
  }
  char **copy = calloc(count + 1, sizeof *copy);
  for (size_t i = 0; copy && i < count; i++) {
    bool hides = false;
    for (size_t k = 0; k < sizeof hidden / sizeof hidden[0]; k++) {
      hides = hides || strncmp(environ[i], hidden[k], strlen(hidden[k])) == 0;
    }
    if (!hides) {
      copy[kept++] = environ[i];
    }
  }
  return copy;
}

static int spawn(pid_t *pid, int control) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all_signals, none;
  char path[64], version[] = FRAMED_VERSION, name[] = "framed-worker";
  char *const arguments[] = {name, version, NULL};
  environment = environment ? environment : make_environment();
  snprintf(path, sizeof path, "/proc/self/fd/%d", program);
  sigfillset(&all_signals);
  sigemptyset(&none);
  int code = environment ? posix_spawn_file_actions_init(&actions) : ENOMEM;
  if (code == 0) {
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
      posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
      posix_spawnattr_setsigmask(&attributes, &none);
      posix_spawnattr_setsigdefault(&attributes, &all_signals);
      code = posix_spawn_file_actions_adddup2(&actions, control, WORKER_CONTROL);
      code = code == 0 ? posix_spawn(pid, path, &actions, &attributes, arguments, environment) : code;
      posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  return code;
}

/* Above what the worker's own end becomes, so that it is not overwritten before it is passed on. */
static bool make_control(struct process *process, int *other, struct gpu_error *error) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return process_error(error, errno, "no socket for a worker");
  }
  process->control = pair[0];
  *other = fcntl(pair[1], F_DUPFD_CLOEXEC, WORKER_CONTROL + 1);
  close(pair[1]);
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

static bool start(struct process *process, struct gpu_error *error) {
  int other = -1;
  if (open_program(error) < 0 || !make_counts(process, error) || !make_control(process, &other, error)) {
    return false;
  }
  int code = spawn(&process->pid, other);
  close(other);
  if (code != 0) {
    return process_error(error, code, "cannot execute framed-worker");
  }
  process->pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
  code = process->pidfd < 0 && errno != ENOSYS ? errno : start_watching(process);
  if (code != 0) {
    kill(process->pid, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return process_error(error, code, "cannot watch a worker");
  }
  return true;
}

struct process *process_start(struct gpu_error *error) {
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
  bool started = start(process, error);
  if (started) {
    process->next = all;
    all = process;
  }
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!started) {
    close_descriptors(process);
    free_process(process);
    return NULL;
  }
  return process;
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

void process_end_all(void) {
  const struct gpu_error error = {
      .is_ended = true, .stage = -1, .text = "the worker was ended for a program that then could not take over"};
  pthread_mutex_lock(&lock);
  for (struct process *process = all; process; process = process->next) {
    die(process, &error);
    send_signal(process, SIGKILL);
  }
  for (struct process *process = all; process; process = process->next) {
    (void)process_await(process, -1);
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
