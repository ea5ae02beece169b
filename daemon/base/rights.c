/*
 * Invariant: a number in a bin is an open file that nobody else in the process closes. A lane adds one by setting a bit, so it
 * neither waits nor allocates. Connections have a separate thread, which reads out their passed descriptors and then closes
 * them. So a passed file that closes slowly delays no other client's end of connection.
 */
#include "daemon/base/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS /* Linux 6.16; missing in some libc headers */
#define SO_PASSRIGHTS 83
#endif

enum {
  NUMBERS = 1 << 20, /* highest descriptor number of a bin, plus 1 */
  WORD = 64,
  MOST_A_MESSAGE = 253, /* the kernel's limit of descriptors in a message */
  MOST_AT_A_TIME = 1024 /* descriptors that may wait to be closed */
};

struct bin {
  _Atomic uint64_t numbers[NUMBERS / WORD];
  atomic_uint count;
  sem_t filled;
  void (*empty)(int fd);
};

static void end_passed(int fd);
static void end_connection(int fd);

static struct bin passed = {.empty = end_passed}, connections = {.empty = end_connection};
static atomic_bool started;

/* -- bins ---------------------------------------------------------------------------------------------------------------- */

static void rights_put(struct bin *bin, int fd) {
  if (fd >= NUMBERS || !atomic_load(&started)) {
    close(fd);
    return;
  }
  atomic_fetch_add(&bin->count, 1);
  atomic_fetch_or(&bin->numbers[fd / WORD], UINT64_C(1) << (fd % WORD));
  sem_post(&bin->filled);
}

static void empty_word(struct bin *bin, int word) {
  uint64_t there = atomic_load_explicit(&bin->numbers[word], memory_order_relaxed);
  there = there != 0 ? atomic_exchange(&bin->numbers[word], 0) : 0;
  for (int bit = 0; bit < WORD; bit++) {
    if ((there >> bit & 1) != 0) {
      bin->empty(word * WORD + bit);
      atomic_fetch_sub(&bin->count, 1);
    }
  }
}

static void *run(void *context) {
  struct bin *bin = context;
  for (;;) {
    if (sem_wait(&bin->filled) == 0) {
      for (int word = 0; word < NUMBERS / WORD && atomic_load(&bin->count) > 0; word++) {
        empty_word(bin, word);
      }
    }
  }
  return NULL;
}

/* Blocks all signals in the thread, because the control loop handles them. */
static int rights_start_thread(struct bin *bin) {
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  sem_init(&bin->filled, 0, 0);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int code = pthread_create(&thread, NULL, run, bin);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (code == 0) {
    pthread_setname_np(thread, "framed-closes");
    pthread_detach(thread);
  }
  return code;
}

bool rights_start(struct failure *failure) {
  int code = rights_start_thread(&passed);
  code = code == 0 ? rights_start_thread(&connections) : code;
  atomic_store(&started, code == 0);
  return code == 0 || failure_set_system(failure, code, "raise the limit of threads (TasksMax)",
                                         "cannot start a thread that closes what clients pass");
}

/* -- reading ------------------------------------------------------------------------------------------------------------- */

static bool is_older_kernel(void) {
#ifdef FRAMED_FAULTS
  return getenv("FRAMED_FAULT_OLDER_KERNEL") != NULL;
#else
  return false;
#endif
}

/* If passing cannot be refused, urgent bytes are read inline. Otherwise a skipped urgent byte would keep its descriptors. */
void rights_refuse(int fd) {
  const int no = 0, yes = 1;
  if (is_older_kernel() || setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof no) != 0) {
    setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &yes, sizeof yes);
  }
}

static void put_passed(struct msghdr *message) {
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    size_t bytes = header->cmsg_len - CMSG_LEN(0);
    for (size_t at = 0; header->cmsg_type == SCM_RIGHTS && at < bytes; at += sizeof(int)) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      rights_put(&passed, fd);
    }
  }
}

static ssize_t rights_take(int fd, struct iovec *vector, int count) {
  _Alignas(struct cmsghdr) unsigned char control[CMSG_SPACE(MOST_A_MESSAGE * sizeof(int))];
  struct msghdr message = {
      .msg_iov = vector, .msg_iovlen = (size_t)count, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got >= 0 && message.msg_controllen > 0) {
    put_passed(&message);
  }
  return got;
}

/* Reads only bytes without descriptors: it peeks first, which takes none. */
static ssize_t take_none(int fd, struct iovec vector) {
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  ssize_t there = recvmsg(fd, &message, MSG_DONTWAIT | MSG_PEEK);
  if (there <= 0) {
    return there;
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    errno = EPERM;
    return -1;
  }
  vector.iov_len = (size_t)there;
  return rights_take(fd, &vector, 1);
}

ssize_t rights_read(int fd, struct iovec *vector, int count) {
  return atomic_load_explicit(&passed.count, memory_order_relaxed) < MOST_AT_A_TIME ? rights_take(fd, vector, count)
                                                                                    : take_none(fd, *vector);
}

/* Peeks one piece at a time, at most as much as a socket can hold. */
bool rights_wait_in(int fd) {
  enum { PIECE = 64 * 1024, MOST_PIECES = 1024 };
  const int begin = 0, as_usual = -1;
  char bytes[PIECE];
  struct iovec vector = {.iov_base = bytes, .iov_len = sizeof bytes};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  bool found = false;
  if (setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &begin, sizeof begin) != 0) {
    return false;
  }
  for (int i = 0; i < MOST_PIECES && !found && recvmsg(fd, &message, MSG_DONTWAIT | MSG_PEEK) > 0; i++) {
    found = (message.msg_flags & MSG_CTRUNC) != 0;
  }
  setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &as_usual, sizeof as_usual);
  return found;
}

/* -- closing ------------------------------------------------------------------------------------------------------------- */

static void end_passed(int fd) {
  const struct linger none = {0}; /* a process that shares it may set this again; then this thread waits */
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  close(fd);
}

/* Reads a connection that has been shut down until it is empty, then closes it. */
static void end_connection(int fd) {
  char bytes[64 * 1024];
  struct iovec vector = {.iov_base = bytes, .iov_len = sizeof bytes};
  while (rights_read(fd, &vector, 1) > 0) {
  }
  close(fd);
}

static bool rights_is_listener(int fd) {
  int answer = 0;
  socklen_t length = sizeof answer;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &answer, &length) == 0 && answer;
}

/* After the shutdown nothing more can arrive. */
static bool is_unread(int fd) {
  int unread = 0;
  return shutdown(fd, SHUT_RD) == 0 && ioctl(fd, FIONREAD, &unread) == 0 && unread > 0;
}

static void close_connection(int fd) {
  if (is_unread(fd)) {
    rights_put(&connections, fd);
  } else {
    close(fd);
  }
}

/* First closes the connections that wait in the listener, then the listener. It closes at once, since another one may take its
 * path. */
void rights_close(int fd) {
  while (rights_is_listener(fd)) {
    int waiting = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (waiting < 0) {
      close(fd);
      return;
    }
    close_connection(waiting);
  }
  close_connection(fd);
}

void rights_leave(int fd) {
  int copy = is_unread(fd) ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
  if (copy >= 0) {
    rights_put(&connections, copy);
  }
}
