/*
 * Counts calls and finds the call that the variables of fail_call.c select.
 *
 * Counting begins at main(). Earlier calls belong to libraries that are linked into the program. CUDA's runtime, for example,
 * ends the process if an allocation fails.
 */
#include "tests/injection/turn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_SITES = 1 << 16, LOOK_MS = 2 };
enum { KILL = -1, KILL_AFTER = -2, REST = -3, REST_EACH = -4 }; /* in place of an errno */

struct report {
  _Atomic uint64_t count;
  _Atomic uint64_t goes_on;   /* set from outside: ends a rest without a time */
  uint32_t sites[MOST_SITES]; /* the place of each call: an offset in the program, or a mark for one in a library */
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
  struct range program, loop, sanitizer; /* address ranges of their code */
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
  const char *call = strcmp(program_invocation_short_name, "framed-worker") == 0 ? NULL : getenv("FAIL_CALL");
  const char *whose = getenv("FAIL_WHOSE");
  const char *path = getenv("FAIL_REPORT");
  if (!call || !path) {
    return;
  }
  int fd = open(path, O_RDWR | O_CLOEXEC);
  void *report = mmap(NULL, sizeof(struct report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (report == MAP_FAILED) {
    abort(); /* a test without any injection would pass */
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

static _Thread_local bool is_marked; /* the plan acts after the current call */

static void die(void) {
  poll(NULL, 0, plan.wait_ms);
  kill(getpid(), SIGKILL);
  pause();
}

static void rest(void) {
  if (plan.wait_ms >= 0) {
    poll(NULL, 0, plan.wait_ms);
    return;
  }
  while (!atomic_load(&plan.report->goes_on)) {
    poll(NULL, 0, LOOK_MS);
  }
}

void turn_act_if_due(void) {
  if (!has_begun || !is_marked) { /* in this order: a sanitizer's own start has no thread-local memory yet */
    return;
  }
  is_marked = false;
  if (plan.error == KILL_AFTER) {
    die();
  }
  rest();
}

bool turn_is(const char *call, const void *caller, bool libuv_too) {
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
  bool each = plan.error == REST_EACH && plan.at > 0 && number >= plan.at;
  is_marked = each || (number == plan.at && (plan.error == KILL_AFTER || plan.error == REST));
  return number == plan.at && !is_marked;
}

static bool is_file(int fd) {
  int saved = errno;
  struct stat status;
  bool file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  errno = saved;
  return file;
}

/* One end of a socket pair, to a worker: neither end has a name. */
static bool is_pair(int fd) {
  struct sockaddr_un own, other;
  socklen_t own_length = sizeof own, other_length = sizeof other;
  int saved = errno;
  bool is = getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 && own.sun_family == AF_UNIX &&
            own_length == sizeof own.sun_family && getpeername(fd, (struct sockaddr *)&other, &other_length) == 0 &&
            other_length == sizeof other.sun_family;
  errno = saved;
  return is;
}

bool turn_is_on(const char *call, const void *caller, int fd) {
  return is_chosen(call) && !is_pair(fd) && turn_is(call, caller, lies_in(caller, plan.loop) && is_file(fd));
}

bool turn_fails(bool turn, size_t *size) {
  if (!turn) {
    return false;
  }
  errno = plan.error;
  *size = plan.error ? *size : (*size + 1) / 2;
  return plan.error != 0;
}

bool turn_fails_vector(bool turn, const struct iovec **vector, int *count, struct iovec *half) {
  size_t size = *count > 0 ? (*vector)[0].iov_len : 0;
  if (turn_fails(turn, &size)) {
    return true;
  }
  if (turn && *count > 0) {
    *half = (struct iovec){.iov_base = (*vector)[0].iov_base, .iov_len = size};
    *vector = half;
    *count = 1;
  }
  return false;
}

int turn_error(void) { return plan.error; }

bool turn_is_of_program(const void *address) { return lies_in(address, plan.program); }
