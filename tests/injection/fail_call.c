/*
 * Preloaded into a daemon under test, this makes one call of one kind fail, and notes who made each call of that kind.
 *
 *   FAIL_CALL    read, accept4, ... as below, or memory (malloc, calloc, realloc, aligned_alloc, strdup)
 *   FAIL_AT      which one, from 1; 0: none, they are only counted
 *   FAIL_ERRNO   the number that errno gets; 0: half of what was asked for is done instead (read and write and their kin);
 *                -1: the process is killed instead; -2: it is once bytes were moved, -3: the thread rests then, both of them
 *                before a call that moves none
 *   FAIL_WAIT    ms that the rest of the process goes on before it is killed, or that the thread rests
 *   FAIL_WHOSE   program: the daemon's own calls; libraries: those of the libraries below it
 *   FAIL_REPORT  a file as large as struct report, which outlives whatever happens to the process
 *
 * Nothing counts before main(): what runs there belongs to libraries that are linked into the program, CUDA's runtime for one,
 * which ends the process where it cannot have memory.
 *
 * What always holds: of libuv's calls, only those count (as the program's) that it makes for a file of the daemon's or whose
 * failure it hands to its caller. Where others fail, its memory or its wake-ups for instance, it aborts by itself.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST_SITES = 1 << 16 };
enum { KILL = -1, KILL_AFTER = -2, REST = -3 }; /* instead of an errno */

struct report {
  _Atomic uint64_t count;
  uint32_t sites[MOST_SITES]; /* of each call, where it was made: an offset in the program, or a mark for one in a library */
};

struct range {
  uintptr_t begin, end;
};

static struct {
  const char *call; /* NULL: not set up, or nothing to do */
  uint64_t at;
  int error, wait_ms;
  bool libraries;
  struct report *report;
  struct range program, loop, sanitizer; /* where their code lies */
} plan;

/* -- set-up ------------------------------------------------------------------------------------------------------ */

static struct range range_of(const struct dl_phdr_info *object) {
  struct range range = {.begin = UINTPTR_MAX};
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &object->dlpi_phdr[i];
    uintptr_t begin = object->dlpi_addr + header->p_vaddr;
    if (header->p_type == PT_LOAD) {
      range.begin = begin < range.begin ? begin : range.begin;
      range.end = begin + header->p_memsz > range.end ? begin + header->p_memsz : range.end;
    }
  }
  return range;
}

static int look_at(struct dl_phdr_info *object, size_t size, void *context) {
  (void)size;
  bool *first = context;
  if (*first) {
    plan.program = range_of(object);
  } else if (strstr(object->dlpi_name, "/libuv.so")) {
    plan.loop = range_of(object);
  } else if (strstr(object->dlpi_name, "/libasan.so")) {
    plan.sanitizer = range_of(object);
  }
  *first = false;
  return 0;
}

static uint64_t number_from(const char *name) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void set_up(void) {
  const char *call = getenv("FAIL_CALL");
  const char *whose = getenv("FAIL_WHOSE");
  const char *path = getenv("FAIL_REPORT");
  if (!call || !path) {
    return;
  }
  int fd = open(path, O_RDWR | O_CLOEXEC);
  void *report = mmap(NULL, sizeof(struct report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (report == MAP_FAILED) {
    abort(); /* a test that nothing happens to would pass */
  }
  bool first = true;
  dl_iterate_phdr(look_at, &first);
  plan.at = number_from("FAIL_AT");
  plan.error = (int)number_from("FAIL_ERRNO");
  plan.wait_ms = (int)number_from("FAIL_WAIT");
  plan.libraries = whose && strcmp(whose, "libraries") == 0;
  plan.report = report;
  plan.call = call;
}

/* -- the beginning ------------------------------------------------------------------------------------------------- */

typedef int main_function(int, char **, char **);
static main_function *program_main;
static bool has_begun;

static int begin(int count, char **arguments, char **environment) {
  has_begun = true;
  return program_main(count, arguments, environment);
}

int __libc_start_main(main_function *main, int count, char **arguments, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack);
int __libc_start_main(main_function *main, int count, char **arguments, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack) {
  int (*next)(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
  *(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
  program_main = main;
  return next(begin, count, arguments, init, fini, loader_fini, stack);
}

/* -- whether it is this call's turn --------------------------------------------------------------------------------- */

static bool lies_in(const void *address, struct range range) {
  return (uintptr_t)address >= range.begin && (uintptr_t)address < range.end;
}

static bool is_chosen(const char *call) { return has_begun && plan.call && strcmp(call, plan.call) == 0; }

static uint32_t site_of(const void *caller, bool own) {
  return own ? (uint32_t)((uintptr_t)caller - plan.program.begin)
             : UINT32_C(1) << 31 | (uint32_t)((uintptr_t)caller & INT32_MAX);
}

static _Thread_local bool is_marked; /* something happens after the call that it is in */

static void die(void) {
  poll(NULL, 0, plan.wait_ms);
  kill(getpid(), SIGKILL);
  pause();
}

/* In a call that is marked: after it, if it is one that moves bytes, and before it otherwise. */
static void act_if_due(void) {
  if (!has_begun || !is_marked) { /* in this order: a sanitizer's own beginning has no memory for threads yet */
    return;
  }
  is_marked = false;
  if (plan.error == KILL_AFTER) {
    die();
  }
  poll(NULL, 0, plan.wait_ms);
}

static bool is_turn(const char *call, const void *caller, bool libuv_too) {
  if (!is_chosen(call) || lies_in(caller, plan.sanitizer)) {
    return false;
  }
  bool libuv = lies_in(caller, plan.loop);
  bool own = lies_in(caller, plan.program);
  if ((libuv && !libuv_too) || (own || libuv) == plan.libraries) {
    return false;
  }
  uint64_t number = atomic_fetch_add(&plan.report->count, 1) + 1;
  if (number <= MOST_SITES) {
    plan.report->sites[number - 1] = site_of(caller, own);
  }
  if (number == plan.at && plan.error == KILL) {
    die();
  }
  is_marked = number == plan.at && (plan.error == KILL_AFTER || plan.error == REST);
  return number == plan.at && !is_marked;
}

static bool is_file(int fd) {
  int saved = errno;
  struct stat status;
  bool file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  errno = saved;
  return file;
}

static bool is_turn_on(const char *call, const void *caller, int fd) {
  return is_chosen(call) && is_turn(call, caller, lies_in(caller, plan.loop) && is_file(fd));
}

/* What a turn means for a call that moves `*size` bytes: true, it fails; false, it goes ahead, maybe with half of them. */
static bool fails(bool turn, size_t *size) {
  if (!turn) {
    return false;
  }
  errno = plan.error;
  *size = plan.error ? *size : (*size + 1) / 2;
  return plan.error != 0;
}

static bool fails_vector(bool turn, const struct iovec **vector, int *count, struct iovec *half) {
  size_t size = *count > 0 ? (*vector)[0].iov_len : 0;
  if (fails(turn, &size)) {
    return true;
  }
  if (turn && *count > 0) {
    *half = (struct iovec){.iov_base = (*vector)[0].iov_base, .iov_len = size};
    *vector = half;
    *count = 1;
  }
  return false;
}

#define CALLER  __builtin_return_address(0)
#define VISIBLE __attribute__((visibility("default")))

/* The next definition of a symbol. Found at first use, which may come before set_up(). */
#define NEXT(name, result, parameters)                                                                                         \
  static result(*next) parameters;                                                                                             \
  if (!next) {                                                                                                                 \
    *(void **)&next = dlsym(RTLD_NEXT, name);                                                                                  \
  }

/* A call that fails with `failed`, or is made as asked. */
#define FAILING(result, failed, name, counted_as, libuv_too, parameters, arguments)                                            \
  VISIBLE result name parameters {                                                                                             \
    NEXT(#name, result, parameters)                                                                                            \
    if (is_turn(counted_as, CALLER, libuv_too)) {                                                                              \
      errno = plan.error;                                                                                                      \
      return failed;                                                                                                           \
    }                                                                                                                          \
    act_if_due();                                                                                                              \
    return next arguments;                                                                                                     \
  }

/* A call that moves bytes between a descriptor and one range of memory. */
#define MOVING(name, parameters, arguments)                                                                                    \
  VISIBLE ssize_t name parameters {                                                                                            \
    NEXT(#name, ssize_t, parameters)                                                                                           \
    if (fails(is_turn_on(#name, CALLER, fd), &size)) {                                                                         \
      return -1;                                                                                                               \
    }                                                                                                                          \
    ssize_t moved = next arguments;                                                                                            \
    act_if_due();                                                                                                              \
    return moved;                                                                                                              \
  }

#define MOVING_VECTOR(name)                                                                                                    \
  VISIBLE ssize_t name(int fd, const struct iovec *vector, int count) {                                                        \
    NEXT(#name, ssize_t, (int, const struct iovec *, int))                                                                     \
    struct iovec half;                                                                                                         \
    if (fails_vector(is_turn_on(#name, CALLER, fd), &vector, &count, &half)) {                                                 \
      return -1;                                                                                                               \
    }                                                                                                                          \
    ssize_t moved = next(fd, vector, count);                                                                                   \
    act_if_due();                                                                                                              \
    return moved;                                                                                                              \
  }

/* -- memory ---------------------------------------------------------------------------------------------------------- */

FAILING(void *, NULL, malloc, "memory", false, (size_t size), (size))
FAILING(void *, NULL, calloc, "memory", false, (size_t count, size_t size), (count, size))
FAILING(void *, NULL, realloc, "memory", false, (void *old, size_t size), (old, size))
FAILING(void *, NULL, aligned_alloc, "memory", false, (size_t alignment, size_t size), (alignment, size))
FAILING(char *, NULL, strdup, "memory", false, (const char *text), (text))
FAILING(int, -1, setenv, "setenv", false, (const char *name, const char *value, int replaces), (name, value, replaces))
FAILING(void *, MAP_FAILED, mmap, "mmap", false, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
        (at, size, protection, flags, fd, offset))
FAILING(int, -1, memfd_create, "memfd_create", false, (const char *name, unsigned flags), (name, flags))
FAILING(int, -1, ftruncate, "ftruncate", true, (int fd, off_t size), (fd, size))
FAILING(int, -1, ftruncate64, "ftruncate", true, (int fd, off64_t size), (fd, size))

/* -- moving bytes ------------------------------------------------------------------------------------------------------ */

MOVING(read, (int fd, void *bytes, size_t size), (fd, bytes, size))
MOVING(write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
MOVING(recv, (int fd, void *bytes, size_t size, int flags), (fd, bytes, size, flags))
MOVING(send, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags))
MOVING(pread, (int fd, void *bytes, size_t size, off_t offset), (fd, bytes, size, offset))
MOVING(pread64, (int fd, void *bytes, size_t size, off64_t offset), (fd, bytes, size, offset))
MOVING(pwrite64, (int fd, const void *bytes, size_t size, off64_t offset), (fd, bytes, size, offset))
MOVING_VECTOR(readv)
MOVING_VECTOR(writev)

VISIBLE ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  NEXT("recvmsg", ssize_t, (int, struct msghdr *, int))
  struct msghdr asked = *message;
  struct iovec half;
  const struct iovec *vector = message->msg_iov;
  int count = (int)message->msg_iovlen;
  if (fails_vector(is_turn_on("recvmsg", CALLER, fd), &vector, &count, &half)) {
    return -1;
  }
  message->msg_iov = (struct iovec *)vector;
  message->msg_iovlen = (size_t)count;
  ssize_t got = next(fd, message, flags);
  act_if_due();
  message->msg_iov = asked.msg_iov;
  message->msg_iovlen = asked.msg_iovlen;
  return got;
}

VISIBLE ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  NEXT("sendmsg", ssize_t, (int, const struct msghdr *, int))
  struct msghdr changed = *message;
  struct iovec half;
  const struct iovec *vector = message->msg_iov;
  int count = (int)message->msg_iovlen;
  if (fails_vector(is_turn_on("sendmsg", CALLER, fd), &vector, &count, &half)) {
    return -1;
  }
  changed.msg_iov = (struct iovec *)vector;
  changed.msg_iovlen = (size_t)count;
  ssize_t sent = next(fd, &changed, flags);
  act_if_due();
  return sent;
}

/* -- descriptors ------------------------------------------------------------------------------------------------------- */

FAILING(int, -1, accept4, "accept4", false, (int fd, __SOCKADDR_ARG address, socklen_t *size, int flags),
        (fd, address, size, flags))
FAILING(int, -1, socket, "socket", false, (int domain, int type, int protocol), (domain, type, protocol))
FAILING(int, -1, bind, "bind", false, (int fd, __CONST_SOCKADDR_ARG address, socklen_t size), (fd, address, size))
FAILING(int, -1, listen, "listen", false, (int fd, int backlog), (fd, backlog))
FAILING(int, -1, connect, "connect", false, (int fd, __CONST_SOCKADDR_ARG address, socklen_t size), (fd, address, size))
FAILING(int, -1, getsockopt, "getsockopt", false, (int fd, int level, int name, void *value, socklen_t *size),
        (fd, level, name, value, size))
FAILING(int, -1, setsockopt, "setsockopt", false, (int fd, int level, int name, const void *value, socklen_t size),
        (fd, level, name, value, size))
FAILING(int, -1, fstat, "fstat", false, (int fd, struct stat *status), (fd, status))
FAILING(int, -1, lstat, "lstat", false, (const char *path, struct stat *status), (path, status))
FAILING(int, -1, stat, "stat", false, (const char *path, struct stat *status), (path, status))
FAILING(int, -1, chmod, "chmod", false, (const char *path, mode_t mode), (path, mode))
FAILING(int, -1, fchmod, "fchmod", false, (int fd, mode_t mode), (fd, mode))
FAILING(int, -1, execv, "execv", false, (const char *path, char *const arguments[]), (path, arguments))
FAILING(int, -1, unlink, "unlink", false, (const char *path), (path))
FAILING(int, -1, flock, "flock", false, (int fd, int operation), (fd, operation))
FAILING(int, -1, epoll_create1, "epoll_create1", true, (int flags), (flags))
FAILING(int, -1, eventfd, "eventfd", true, (unsigned value, int flags), (value, flags))
/* Only what is added can fail, for want of memory. libuv tries each descriptor before it takes it, with no descriptor in the
 * event, and aborts where it fails after that. */
FAILING(int, -1, epoll_ctl, operation == EPOLL_CTL_ADD ? "epoll_ctl" : "", event && event->data.fd == -1,
        (int epoll, int operation, int fd, struct epoll_event *event), (epoll, operation, fd, event))
/* A pipe that blocks is the one of libuv's that it cannot do without. */
FAILING(int, -1, pipe2, "pipe2", (flags & O_NONBLOCK) != 0, (int ends[2], int flags), (ends, flags))

VISIBLE int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context) {
  NEXT("pthread_create", int, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))
  /* The threads of libuv's pool are libuv's, and it aborts without them; one with a function of ours is ours. */
  bool turn = is_turn("pthread_create", CALLER, lies_in(*(void **)&run, plan.program));
  act_if_due();
  return turn ? plan.error : next(thread, attributes, run, context);
}

/* Those with an argument only sometimes. */
#define WITH_MODE(name, counted_as, first, parameters)                                                                         \
  VISIBLE int name parameters {                                                                                                \
    NEXT(#name, int, parameters)                                                                                               \
    va_list arguments;                                                                                                         \
    va_start(arguments, flags);                                                                                                \
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;                                        \
    va_end(arguments);                                                                                                         \
    if (is_turn(counted_as, CALLER, false)) {                                                                                  \
      errno = plan.error;                                                                                                      \
      return -1;                                                                                                               \
    }                                                                                                                          \
    act_if_due();                                                                                                              \
    return next first;                                                                                                         \
  }

WITH_MODE(open, "open", (path, flags, mode), (const char *path, int flags, ...))
WITH_MODE(open64, "open", (path, flags, mode), (const char *path, int flags, ...))
WITH_MODE(openat, "open", (folder, path, flags, mode), (int folder, const char *path, int flags, ...))

/* What hardened programs call instead, where there is no mode to be given. */
int __open_2(const char *path, int flags);
FAILING(int, -1, __open_2, "open", false, (const char *path, int flags), (path, flags))

VISIBLE int fcntl(int fd, int operation, ...) {
  NEXT("fcntl", int, (int, int, ...))
  va_list arguments;
  va_start(arguments, operation);
  void *argument = va_arg(arguments, void *); /* a number or a pointer, in the same register, if there is one */
  va_end(arguments);
  if (is_turn("fcntl", CALLER, false)) {
    errno = plan.error;
    return -1;
  }
  act_if_due();
  return next(fd, operation, argument);
}
