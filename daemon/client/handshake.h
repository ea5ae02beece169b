/*
 * The handshake with native clients, between accepting and seating them: waits for their HELLO and hands them on with it, told
 * apart from y4m producers by the first byte where both may come. The handshake reads the HELLO and not a byte more.
 *
 * Clients that say nothing, something else, or hang up are turned away here and never hold a seat. Control loop only.
 */
#ifndef FRAMED_CLIENT_HANDSHAKE_H
#define FRAMED_CLIENT_HANDSHAKE_H

#include <uv.h>

#include "config/config.h"
#include "daemon/base/failure.h"
#include "daemon/client/peer.h"
#include "daemon/client/refusals.h"
#include "daemon/device/device.h"
#include "daemon/wire/native.h"
#include "daemon/wire/native_wire.h"

struct handshakes;

struct client { /* a client that may be seated */
  int fd;
  pid_t pid;
  uid_t uid;
  char process[PEER_PROCESS]; /* see struct peer */
  int64_t since;              /* when it connected: CLOCK_MONOTONIC ns */
  bool native;                /* false: a y4m producer, whose bytes have not been touched */
  struct native_hello hello;
};

/* A client that has just connected. */
struct client client_of(int fd, const struct peer *peer);
/* Whether the client asked to be told which of its frames have their fate. */
static inline bool client_wants_acks(const struct client *client) {
  return client->native && (client->hello.flags & NATIVE_HELLO_ACKS) != 0;
}

/* Takes a client that a process before this one left, with its descriptor; -1: that did not come along. False: it makes no
 * sense. */
bool client_adopt(struct client *client, const struct client *left);
/* Has the next process get the descriptors of clients that are in their handshake (NULL: none). */
void handshakes_keep(const struct handshakes *handshakes);
/* Whether there were handshakes at this address in the process before; goes on with them. */
bool handshakes_left(const struct handshakes *address);
void handshakes_adopt(struct handshakes *handshakes, const struct handshakes *address);

struct handshakes_setup {
  uv_loop_t *loop;
  const char *pipeline; /* for the log, */
  const char *who;      /* "producer" or "reader" */
  bool y4m_too;
  int64_t timeout_ns; /* for the whole HELLO */
  /* The descriptor is now the receiver's. */
  void (*greeted)(void *context, const struct client *client);
  void *context;
  struct refusals *refusals; /* of the clients that fail their handshake */
};

/* NULL if there is no memory; what `setup` points to must stay. */
struct handshakes *handshakes_new(const struct handshakes_setup *setup, struct failure *failure);
/* Begins a handshake on a connection, which is taken over. */
void handshakes_receive(struct handshakes *handshakes, int fd, const struct peer *peer);
/* While suspended nobody is handed on, and nobody's time runs. */
void handshakes_suspend(struct handshakes *handshakes);
void handshakes_resume(struct handshakes *handshakes);
/* Turns away all clients that have not said HELLO. NULL is fine; returns NULL. */
struct handshakes *handshakes_close(struct handshakes *handshakes);

/* " as client 0123456789abcdef", or nothing: the name by which the client calls itself whenever it connects. */
enum { CLIENT_NAME = 32 };
const char *client_name(const struct client *client, char text[CLIENT_NAME]);

/* What a pipeline tells native clients of itself, for the stream transport; `session` is the caller's to count. */
struct native_welcome hello_reply_of(const struct config_pipeline *config, const struct frame_format *input,
                                     const struct frame_format *output, enum native_role role);
/* "producer", "consumer" or "both". */
const char *welcome_role_name(uint32_t role);

/* Tells the client in its own language why it is turned away, if it takes that at once. The descriptor stays open. */
__attribute__((format(printf, 3, 4))) void client_tell(const struct client *client, enum native_error_code code,
                                                       const char *format, ...);
/* Answers the HELLO, and passes descriptors along with the answer; they stay the caller's. Where that cannot be done, the
 * connection is at its end for both sides. */
enum { GUEST_DESCRIPTORS = 3 };
void client_welcome(const struct client *client, const struct native_welcome *reply, const int *descriptors, size_t count);

#endif
