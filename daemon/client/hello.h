/*
 * Greets native clients between accepting and seating: waits for their HELLO and hands them on with it, told apart from
 * y4m producers by the first byte where both may come. It reads the HELLO and not a byte more.
 *
 * Clients that say nothing, something else, or hang up are turned away here and never hold a seat. Control loop only.
 */
#ifndef FRAMED_CLIENT_HELLO_H
#define FRAMED_CLIENT_HELLO_H

#include <uv.h>

#include "daemon/base/failure.h"
#include "daemon/client/peer.h"
#include "daemon/client/refusals.h"
#include "daemon/state/codec.h"
#include "daemon/wire/native.h"

struct greeter;

struct guest { /* a client that may be seated */
  int fd;
  pid_t pid;
  uid_t uid;
  bool native; /* false: a y4m producer, whose bytes have not been touched */
  struct native_hello hello;
};

/* Those that have not said their HELLO yet, on their way to the next process image. */
enum { GREETER_MOST = 64 };
struct greeter_visits {
  unsigned count;
  struct greeter_visit {
    struct guest guest;
    unsigned char bytes[NATIVE_HELLO_BYTES]; /* of the HELLO that have come, */
    unsigned length;                         /* so many */
  } visits[GREETER_MOST];
};

/* Whether it asked to be told which frames have their fate. */
static inline bool guest_wants_acks(const struct guest *guest) {
  return guest->native && (guest->hello.flags & NATIVE_HELLO_ACKS) != 0;
}

/* A guest over a tape, with its descriptor. */
void guest_pass(struct guest *guest, struct tape *tape);
/* Puts a greeter's visitors on a tape (NULL: none), or takes them from there; NULL: there is none, or the tape is broken. */
struct greeter_visits *greeter_pass(const struct greeter *greeter, struct tape *tape);
/* They are greeted on. Frees the list; NULL is fine. */
void greeter_receive_again(struct greeter *greeter, struct greeter_visits *visits);

struct greeter_setup {
  uv_loop_t *loop;
  const char *pipeline; /* for the log, */
  const char *who;      /* "producer" or "reader" */
  bool y4m_too;
  int64_t timeout_ns; /* for the whole HELLO */
  /* The descriptor is now the receiver's. */
  void (*greeted)(void *context, const struct guest *guest);
  void *context;
  struct refusals *refusals; /* of those that are turned away here */
};

/* NULL if there is no memory; what `setup` points to must stay. */
struct greeter *greeter_new(const struct greeter_setup *setup, struct failure *failure);
/* Takes a connection over. */
void greeter_receive(struct greeter *greeter, int fd, const struct peer *peer);
/* How many wait to be greeted. */
unsigned greeter_count(const struct greeter *greeter);
/* While suspended nobody is handed on, and nobody's time runs. */
void greeter_suspend(struct greeter *greeter);
void greeter_resume(struct greeter *greeter);
/* Turns away whoever waits. NULL is fine; returns NULL. */
struct greeter *greeter_close(struct greeter *greeter);

/* " as client 0123456789abcdef", or nothing: what it calls itself whenever it connects. */
enum { GUEST_NAME = 32 };
const char *guest_name(const struct guest *guest, char text[GUEST_NAME]);

/* Tells the client in its own language why it is turned away, if it takes that at once. The descriptor stays open. */
__attribute__((format(printf, 3, 4))) void guest_tell(const struct guest *guest, enum native_error_code code,
                                                      const char *format, ...);
/* Answers the HELLO, and passes descriptors along with the answer; they stay the caller's. Where that cannot be done, the
 * connection is at its end for both sides. */
enum { GUEST_DESCRIPTORS = 3 };
void guest_welcome(const struct guest *guest, const struct native_welcome *welcome, const int *descriptors, size_t count);

#endif
