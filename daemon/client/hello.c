#include "daemon/client/hello.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/rights.h"
#include "daemon/measure/clock.h"

struct visitor { /* somebody who has not said HELLO yet */
  struct greeter *greeter;
  struct guest guest;
  struct loop_watch *watch;
  struct loop_timer *patience;
  unsigned char bytes[NATIVE_HELLO_BYTES];
  size_t count;
  struct visitor *next;
};

struct greeter {
  struct greeter_setup setup;
  struct visitor *visitors;
  unsigned count;
  bool suspended;
};

struct greeter *greeter_new(const struct greeter_setup *setup, struct failure *failure) {
  struct greeter *greeter = calloc(1, sizeof *greeter);
  if (!greeter) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "not enough memory to greet clients of pipeline '%s'", setup->pipeline);
    return NULL;
  }
  greeter->setup = *setup;
  return greeter;
}

/* -- saying ------------------------------------------------------------------------------------------------------ */

void guest_tell(const struct guest *guest, enum native_error_code code, const char *format, ...) {
  char text[NATIVE_ERROR];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!guest->native) {
    peer_tell(guest->fd, "%s", text);
    return;
  }
  unsigned char bytes[NATIVE_ERROR_BYTES];
  size_t length = native_write_error(code, text, bytes);
  (void)!send(guest->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL); /* best effort: it may have gone, or never read */
}

void guest_welcome(const struct guest *guest, const struct native_welcome *welcome, const int *descriptors, size_t count) {
  unsigned char bytes[NATIVE_WELCOME_BYTES];
  _Alignas(struct cmsghdr) unsigned char control[CMSG_SPACE(GUEST_DESCRIPTORS * sizeof(int))] = {0};
  struct iovec vector = {.iov_base = bytes, .iov_len = sizeof bytes};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  native_write_welcome(welcome, bytes);
  assert(count <= GUEST_DESCRIPTORS);
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof *descriptors);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof *descriptors);
    memcpy(CMSG_DATA(header), descriptors, count * sizeof *descriptors);
  }
  /* It fits, since nothing was sent on this connection before; but the kernel may refuse to pass descriptors. A client that
   * cannot be answered sees the end instead of waiting, and so does whoever reads from it. */
  if (sendmsg(guest->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof bytes) {
    shutdown(guest->fd, SHUT_RDWR);
  }
}

const char *guest_name(const struct guest *guest, char text[GUEST_NAME]) {
  text[0] = '\0';
  if (guest->native && guest->hello.token != 0) {
    snprintf(text, GUEST_NAME, " as client %016llx", (unsigned long long)guest->hello.token);
  }
  return text;
}

/* -- visitors ---------------------------------------------------------------------------------------------------- */

/* The descriptor is the caller's from here on. */
static void forget(struct visitor *visitor) {
  struct visitor **link = &visitor->greeter->visitors;
  while (*link != visitor) {
    link = &(*link)->next;
  }
  *link = visitor->next;
  visitor->greeter->count--;
  visitor->watch = loop_watch_close(visitor->watch);
  visitor->patience = loop_timer_close(visitor->patience);
  free(visitor);
}

static void turn_away(struct visitor *visitor, enum native_error_code code, const char *problem) {
  struct greeter *greeter = visitor->greeter;
  struct guest guest = visitor->guest;
  guest.native = true; /* whatever it is, it came to a native socket */
  forget(visitor);
  guest_tell(&guest, code, "%s", problem);
  refusals_add(greeter->setup.refusals, LOG_REFUSED, greeter->setup.pipeline, refusals_remedy(code),
               "%s pid %d (user %u) was refused: %s", greeter->setup.who, (int)guest.pid, (unsigned)guest.uid, problem);
  rights_close(guest.fd);
}

/* It only looked whether somebody is there, as monitors do: nobody was turned away. */
static void let_go(struct visitor *visitor) {
  int fd = visitor->guest.fd;
  forget(visitor);
  rights_close(fd);
}

static void turn_away_foreign(struct visitor *visitor) {
  enum stranger other = protocol_recognise(visitor->bytes, visitor->count);
  char problem[PROTOCOL_PROBLEM];
  if (other) {
    snprintf(problem, sizeof problem, "framed's native protocol is expected here, and this is %s", stranger_names[other]);
  } else {
    snprintf(problem, sizeof problem, "a native client begins with FRMD: does it send raw frames?");
  }
  turn_away(visitor, NATIVE_E_PROTOCOL, problem);
}

static void hand_on(struct visitor *visitor) {
  struct greeter *greeter = visitor->greeter;
  struct guest guest = visitor->guest;
  forget(visitor);
  greeter->setup.greeted(greeter->setup.context, &guest);
}

static void finish_hello(struct visitor *visitor) {
  enum native_error_code code;
  char problem[PROTOCOL_PROBLEM];
  if (native_read_hello(visitor->bytes, &visitor->guest.hello, &code, problem)) {
    visitor->guest.native = true;
    hand_on(visitor);
  } else {
    turn_away(visitor, code, problem);
  }
}

/* The first byte tells a y4m producer, and stays its session's to read. True: the visitor was handed on. */
static bool is_y4m(struct visitor *visitor) {
  unsigned char first;
  if (!visitor->greeter->setup.y4m_too || visitor->count > 0 ||
      recv(visitor->guest.fd, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT) != sizeof first || native_may_begin(&first, 1)) {
    return false;
  }
  hand_on(visitor);
  return true;
}

static void read_hello(struct visitor *visitor) {
  size_t wanted = native_hello_bytes(visitor->bytes, visitor->count) - visitor->count;
  struct iovec rest = {.iov_base = visitor->bytes + visitor->count, .iov_len = wanted};
  ssize_t got = rights_read(visitor->guest.fd, &rest, 1);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (got <= 0 && visitor->count == 0) {
    let_go(visitor);
    return;
  }
  if (got <= 0) {
    turn_away(visitor, NATIVE_E_PROTOCOL, "it left within its HELLO");
    return;
  }
  visitor->count += (size_t)got;
  if (!native_may_begin(visitor->bytes, visitor->count)) {
    turn_away_foreign(visitor);
  } else if (visitor->count == native_hello_bytes(visitor->bytes, visitor->count)) {
    finish_hello(visitor);
  }
}

static void on_readable(void *context) {
  struct visitor *visitor = context;
  if (!is_y4m(visitor)) {
    read_hello(visitor);
  }
}

static void on_impatient(void *context) { turn_away(context, NATIVE_E_TIMEOUT, "it did not say HELLO in time"); }

static void start(struct visitor *visitor) {
  uint64_t patience_ms = (uint64_t)(visitor->greeter->setup.timeout_ns / NS_PER_MS);
  loop_watch_start(visitor->watch);
  loop_timer_start(visitor->patience, patience_ms > 0 ? patience_ms : 1, 0);
}

static struct visitor *receive(struct greeter *greeter, struct guest guest) {
  int fd = guest.fd;
  struct visitor *visitor = greeter->count < GREETER_MOST ? calloc(1, sizeof *visitor) : NULL;
  if (visitor) {
    visitor->watch = loop_watch_new(greeter->setup.loop, fd, on_readable, visitor);
    visitor->patience = loop_timer_new(greeter->setup.loop, on_impatient, visitor);
  }
  if (!visitor || !visitor->watch || !visitor->patience) {
    if (visitor) {
      loop_watch_close(visitor->watch);
      loop_timer_close(visitor->patience);
      free(visitor);
    }
    guest.native = true;
    guest_tell(&guest, NATIVE_E_BUSY, "too many clients are waiting to be greeted; try again later");
    refusals_add(greeter->setup.refusals, LOG_REFUSED, greeter->setup.pipeline,
                 "end clients that connect and say nothing, or try again later",
                 "%s pid %d (user %u) was refused: %u clients wait to be greeted", greeter->setup.who, (int)guest.pid,
                 (unsigned)guest.uid, greeter->count);
    rights_close(fd);
    return NULL;
  }
  visitor->greeter = greeter;
  visitor->guest = guest;
  visitor->next = greeter->visitors;
  greeter->visitors = visitor;
  greeter->count++;
  if (!greeter->suspended) {
    start(visitor);
  }
  return visitor;
}

void greeter_receive(struct greeter *greeter, int fd, const struct peer *peer) {
  (void)receive(greeter, (struct guest){.fd = fd, .pid = peer->pid, .uid = peer->uid});
}

/* -- over a tape --------------------------------------------------------------------------------------------------- */

void guest_pass(struct guest *guest, struct tape *tape) {
  tape_pass_descriptor(tape, &guest->fd);
  TAPE_PASS(tape, guest->pid);
  TAPE_PASS(tape, guest->uid);
  TAPE_PASS(tape, guest->native);
  TAPE_PASS(tape, guest->hello);
}

static void pass_visit(struct greeter_visit *visit, struct tape *tape) {
  guest_pass(&visit->guest, tape);
  tape_pass_below(tape, &visit->length, NATIVE_HELLO_BYTES);
  TAPE_PASS(tape, visit->bytes);
}

static void put_visitors(const struct greeter *greeter, struct tape *tape) {
  unsigned count = greeter ? greeter->count : 0;
  TAPE_PASS(tape, count);
  for (const struct visitor *visitor = greeter ? greeter->visitors : NULL; visitor; visitor = visitor->next) {
    struct greeter_visit visit = {.guest = visitor->guest, .length = (unsigned)visitor->count};
    memcpy(visit.bytes, visitor->bytes, sizeof visit.bytes);
    pass_visit(&visit, tape);
  }
}

struct greeter_visits *greeter_pass(const struct greeter *greeter, struct tape *tape) {
  unsigned count = 0;
  if (tape->writing) {
    put_visitors(greeter, tape);
    return NULL;
  }
  tape_pass_below(tape, &count, GREETER_MOST + 1);
  struct greeter_visits *visits = count > 0 ? calloc(1, sizeof *visits) : NULL;
  if (!visits) {
    tape->broken |= count > 0;
    return NULL;
  }
  visits->count = count;
  for (unsigned i = 0; i < count; i++) {
    pass_visit(&visits->visits[i], tape);
  }
  return visits;
}

void greeter_receive_again(struct greeter *greeter, struct greeter_visits *visits) {
  for (unsigned i = 0; visits && i < visits->count; i++) {
    struct visitor *visitor = receive(greeter, visits->visits[i].guest);
    if (visitor) {
      memcpy(visitor->bytes, visits->visits[i].bytes, sizeof visitor->bytes);
      visitor->count = visits->visits[i].length;
    }
  }
  free(visits);
}

/* -- control ----------------------------------------------------------------------------------------------------- */

unsigned greeter_count(const struct greeter *greeter) { return greeter->count; }

void greeter_suspend(struct greeter *greeter) {
  greeter->suspended = true;
  for (struct visitor *visitor = greeter->visitors; visitor; visitor = visitor->next) {
    loop_watch_stop(visitor->watch);
    loop_timer_stop(visitor->patience);
  }
}

void greeter_resume(struct greeter *greeter) {
  greeter->suspended = false;
  for (struct visitor *visitor = greeter->visitors; visitor; visitor = visitor->next) {
    start(visitor);
  }
}

struct greeter *greeter_close(struct greeter *greeter) {
  struct visitor *next;
  for (struct visitor *visitor = greeter ? greeter->visitors : NULL; visitor; visitor = next) {
    struct guest guest = visitor->guest;
    guest.native = true;
    next = visitor->next;
    forget(visitor);
    guest_tell(&guest, NATIVE_E_STOPPING, "pipeline %s is stopping", greeter->setup.pipeline);
    rights_close(guest.fd);
  }
  free(greeter);
  return NULL;
}
