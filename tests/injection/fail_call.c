/*
 * Preloaded into a daemon under test, this library makes one call of one kind fail, and records the callers of each call of
 * that kind.
 *
 *   FAIL_CALL    read, accept4, ... as below, or memory (malloc, calloc, realloc, aligned_alloc, strdup)
 *   FAIL_AT      the number of the call, from 1; 0: none, the calls are only counted
 *   FAIL_ERRNO   the value for errno; 0: the call does half of its work (read, write and similar calls);
 *                -1: the process is killed instead; -2: it is killed after bytes were moved; -3: the thread rests then; both
 *                act before a call that moves no bytes; -4: every thread rests from that call on
 *   FAIL_WAIT    ms that the other threads run before the process is killed, or that the thread rests; -1: it rests until
 *                the report has `goes_on`
 *   FAIL_WHOSE   program: the daemon's own calls; libraries: those of its libraries
 *   FAIL_REPORT  a file of the size of struct report in turn.c, which outlives the process
 *
 * Only some of libuv's calls count (as the program's): those for a file of the daemon, and those whose failure libuv reports to
 * its caller. If others fail, such as its allocations or wake-ups, libuv aborts.
 */
#include "tests/injection/turn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
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

#define CALLER  __builtin_return_address(0)
#define VISIBLE __attribute__((visibility("default")))

/* The next definition of a symbol. It is resolved at the first use, which may come before set_up(). */
#define NEXT(name, result, parameters)                                                                                         \
  static result(*next) parameters;                                                                                             \
  if (!next) {                                                                                                                 \
    *(void **)&next = dlsym(RTLD_NEXT, name);                                                                                  \
  }

/* A call that fails with `failed`, or runs unchanged. */
#define FAILING(result, failed, name, counted_as, libuv_too, parameters, arguments)                                            \
  VISIBLE result name parameters {                                                                                             \
    NEXT(#name, result, parameters)                                                                                            \
    if (turn_is(counted_as, CALLER, libuv_too)) {                                                                              \
      errno = turn_error();                                                                                                    \
      return failed;                                                                                                           \
    }                                                                                                                          \
    turn_act_if_due();                                                                                                         \
    return next arguments;                                                                                                     \
  }

/* A call that moves bytes between a descriptor and one range of memory. */
#define MOVING(name, parameters, arguments)                                                                                    \
  VISIBLE ssize_t name parameters {                                                                                            \
    NEXT(#name, ssize_t, parameters)                                                                                           \
    if (turn_fails(turn_is_on(#name, CALLER, fd), &size)) {                                                                    \
      return -1;                                                                                                               \
    }                                                                                                                          \
    ssize_t moved = next arguments;                                                                                            \
    turn_act_if_due();                                                                                                         \
    return moved;                                                                                                              \
  }

#define MOVING_VECTOR(name)                                                                                                    \
  VISIBLE ssize_t name(int fd, const struct iovec *vector, int count) {                                                        \
    NEXT(#name, ssize_t, (int, const struct iovec *, int))                                                                     \
    struct iovec half;                                                                                                         \
    if (turn_fails_vector(turn_is_on(#name, CALLER, fd), &vector, &count, &half)) {                                            \
      return -1;                                                                                                               \
    }                                                                                                                          \
    ssize_t moved = next(fd, vector, count);                                                                                   \
    turn_act_if_due();                                                                                                         \
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
  if (turn_fails_vector(turn_is_on("recvmsg", CALLER, fd), &vector, &count, &half)) {
    return -1;
  }
  message->msg_iov = (struct iovec *)vector;
  message->msg_iovlen = (size_t)count;
  ssize_t got = next(fd, message, flags);
  turn_act_if_due();
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
  if (turn_fails_vector(turn_is_on("sendmsg", CALLER, fd), &vector, &count, &half)) {
    return -1;
  }
  changed.msg_iov = (struct iovec *)vector;
  changed.msg_iovlen = (size_t)count;
  ssize_t sent = next(fd, &changed, flags);
  turn_act_if_due();
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
FAILING(int, -1, unlinkat, "unlink", false, (int folder, const char *path, int flags), (folder, path, flags))
FAILING(int, -1, fstatat, "lstat", false, (int folder, const char *path, struct stat *status, int flags),
        (folder, path, status, flags))
FAILING(int, -1, flock, "flock", false, (int fd, int operation), (fd, operation))
FAILING(int, -1, epoll_create1, "epoll_create1", true, (int flags), (flags))
FAILING(int, -1, eventfd, "eventfd", true, (unsigned value, int flags), (value, flags))
/*
 * Only additions can fail, for lack of memory. libuv tests each descriptor first, with no descriptor in the event, and aborts
 * if a later addition fails.
 */
FAILING(int, -1, epoll_ctl, operation == EPOLL_CTL_ADD ? "epoll_ctl" : "", event && event->data.fd == -1,
        (int epoll, int operation, int fd, struct epoll_event *event), (epoll, operation, fd, event))
/* libuv cannot work without its blocking pipe. */
FAILING(int, -1, pipe2, "pipe2", (flags & O_NONBLOCK) != 0, (int ends[2], int flags), (ends, flags))

VISIBLE int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context) {
  NEXT("pthread_create", int, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))
  /* libuv aborts without the threads of its pool, so only threads with a function of the program can fail */
  bool turn = turn_is("pthread_create", CALLER, turn_is_of_program(*(void **)&run));
  turn_act_if_due();
  return turn ? turn_error() : next(thread, attributes, run, context);
}

/* Calls that have an argument only sometimes. */
#define WITH_MODE(name, counted_as, first, parameters)                                                                         \
  VISIBLE int name parameters {                                                                                                \
    NEXT(#name, int, parameters)                                                                                               \
    va_list arguments;                                                                                                         \
    va_start(arguments, flags);                                                                                                \
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;                                        \
    va_end(arguments);                                                                                                         \
    if (turn_is(counted_as, CALLER, false)) {                                                                                  \
      errno = turn_error();                                                                                                    \
      return -1;                                                                                                               \
    }                                                                                                                          \
    turn_act_if_due();                                                                                                         \
    return next first;                                                                                                         \
  }

WITH_MODE(open, "open", (path, flags, mode), (const char *path, int flags, ...))
WITH_MODE(open64, "open", (path, flags, mode), (const char *path, int flags, ...))
WITH_MODE(openat, "open", (folder, path, flags, mode), (int folder, const char *path, int flags, ...))

/* Hardened programs call these when there is no mode. */
int __open_2(const char *path, int flags);
FAILING(int, -1, __open_2, "open", false, (const char *path, int flags), (path, flags))

VISIBLE int fcntl(int fd, int operation, ...) {
  NEXT("fcntl", int, (int, int, ...))
  va_list arguments;
  va_start(arguments, operation);
  void *argument = va_arg(arguments, void *); /* a number, a pointer or nothing, always in the same register */
  va_end(arguments);
  if (turn_is("fcntl", CALLER, false)) {
    errno = turn_error();
    return -1;
  }
  turn_act_if_due();
  return next(fd, operation, argument);
}
