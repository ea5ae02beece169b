/*
 * client/: who may connect: sockets, handshake, rights, quotas, refusals.
 *
 * Accepts connections on a listening socket and passes on those that the access list allows.
 *
 * The acceptor never spins. Without a free descriptor it closes a spare one, accepts the connection and refuses it. If even
 * that fails it pauses for a moment. Control loop only.
 */
#ifndef FRAMED_CLIENT_ACCEPTOR_H
#define FRAMED_CLIENT_ACCEPTOR_H

#include <uv.h>

#include "config/config.h"
#include "daemon/base/failure.h"
#include "daemon/client/peer.h"
#include "daemon/client/refusals.h"

struct acceptor;

struct acceptor_setup {
  uv_loop_t *loop;
  int fd; /* listening and non-blocking; the caller keeps it, and closes it after the acceptor */
  const struct config_allow *allow;
  const char *pipeline; /* for the log */
  const char *role;     /* "producer" or "reader" */
  bool native;          /* refused clients get an ERROR of the native protocol */
  /* Called for each allowed client; the receiver owns its descriptor. */
  void (*accepted)(void *context, int fd, const struct peer *peer);
  void *context;
  struct refusals *refusals; /* counts the clients that the acceptor refuses */
};

/* Starts at once. NULL on error. Copies `setup`; what it points to must stay. */
struct acceptor *acceptor_new(const struct acceptor_setup *setup, struct failure *failure);
/* While suspended, connections wait in the kernel's queue. */
void acceptor_suspend(struct acceptor *acceptor);
void acceptor_resume(struct acceptor *acceptor);
struct acceptor *acceptor_close(struct acceptor *acceptor); /* accepts NULL; returns NULL */

#endif
