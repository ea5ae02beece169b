/*
 * client/: who may connect: sockets, handshake, rights, quotas, refusals.
 *
 * Takes connections from a listening socket and hands over those that the access list lets in.
 *
 * The acceptor never spins: where no descriptor is left, it gives up a spare one to take the connection and turn it away, and
 * where even that fails it rests for a moment. Control loop only.
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
  int fd; /* listening, not blocking; the caller's, to be closed after the acceptor */
  const struct config_allow *allow;
  const char *pipeline; /* for the log */
  const char *role;     /* "producer" or "reader" */
  bool native;          /* clients that are turned away are told so by an ERROR of the native protocol */
  /* Tells of a client that is let in; its descriptor is now the receiver's. */
  void (*accepted)(void *context, int fd, const struct peer *peer);
  void *context;
  struct refusals *refusals; /* of the clients that the acceptor turns away */
};

/* Starts at once. NULL on error; `setup` is copied, what it points to must stay. */
struct acceptor *acceptor_new(const struct acceptor_setup *setup, struct failure *failure);
/* While suspended, connections wait in the kernel's queue. */
void acceptor_suspend(struct acceptor *acceptor);
void acceptor_resume(struct acceptor *acceptor);
struct acceptor *acceptor_close(struct acceptor *acceptor); /* NULL is fine; returns NULL */

#endif
