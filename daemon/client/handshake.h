/*
 * The handshake with native clients, after accept and before they get a session. It waits for the HELLO, reads not a byte more,
 * and passes the client on. With protocol `auto` the first byte distinguishes y4m producers from native ones.
 *
 * Clients that send nothing or something else, or hang up, are refused here and never occupy a session. Control loop only.
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

struct client { /* an accepted client */
  int fd;
  pid_t pid;
  uid_t uid;
  char process[PEER_PROCESS]; /* see struct peer */
  int64_t since;              /* CLOCK_MONOTONIC ns of its connect */
  bool native;                /* false: a y4m producer, of whose bytes none was read */
  struct native_hello hello;
};

/* A client that has just connected. */
struct client client_of(int fd, const struct peer *peer);
/* True if the client asked for acknowledgements. */
static inline bool client_wants_acks(const struct client *client) {
  return client->native && (client->hello.flags & NATIVE_HELLO_ACKS) != 0;
}

/* Takes over a client of the previous process with its descriptor; -1: that was lost. Returns false if the record is not
 * valid. */
bool client_adopt(struct client *client, const struct client *left);
/* Passes the descriptors of clients in their handshake to the next process (NULL: none). */
void handshakes_keep(const struct handshakes *handshakes);
/* handshakes_left() is true if the previous process had handshakes at this address; handshakes_adopt() continues them. */
bool handshakes_left(const struct handshakes *address);
void handshakes_adopt(struct handshakes *handshakes, const struct handshakes *address);

struct handshakes_setup {
  uv_loop_t *loop;
  const char *pipeline; /* for the log */
  const char *who;      /* "producer" or "reader" */
  bool y4m_too;
  int64_t timeout_ns; /* for the complete HELLO */
  /* The receiver owns the descriptor. */
  void (*on_hello)(void *context, const struct client *client);
  void *context;
  struct refusals *refusals; /* counts the clients that fail their handshake */
};

/* NULL without memory. Objects that `setup` points to must stay. */
struct handshakes *handshakes_new(const struct handshakes_setup *setup, struct failure *failure);
/* Begins a handshake on a connection and takes it over. */
void handshakes_receive(struct handshakes *handshakes, int fd, const struct peer *peer);
/* Whether a client has not said HELLO yet. Accepts NULL. */
bool handshakes_any(const struct handshakes *handshakes);
/* While suspended, no client is passed on and no timeout runs. */
void handshakes_suspend(struct handshakes *handshakes);
void handshakes_resume(struct handshakes *handshakes);
/* Refuses all clients before their HELLO. Accepts NULL; returns NULL. */
struct handshakes *handshakes_close(struct handshakes *handshakes);

/* " as client 0123456789abcdef", or empty: the token that the client sends at each connect. */
enum { CLIENT_NAME = 32 };
const char *client_name(const struct client *client, char text[CLIENT_NAME]);

/* The WELCOME of a pipeline for the stream transport. The caller sets `session`. */
struct native_welcome hello_reply_of(const struct config_pipeline *config, const struct frame_format *input,
                                     const struct frame_format *output, enum native_role role);
/* "producer", "consumer" or "both". */
const char *welcome_role_name(uint32_t role);

/* Sends the client an error in its protocol, if it can be sent at once. The descriptor stays open. */
__attribute__((format(printf, 3, 4))) void client_send_error(const struct client *client, enum native_error_code code,
                                                             const char *format, ...);
/* Answers the HELLO and passes the descriptors; the caller keeps its own. If that fails, the connection ends for both sides. */
enum { WELCOME_DESCRIPTORS = 3 };
void client_welcome(const struct client *client, const struct native_welcome *reply, const int *descriptors, size_t count);

#endif
