#include "daemon/client/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/rights.h"
#include "daemon/client/handshake.h"

enum { BATCH = 64, REST_MS = 100 }; /* BATCH limits the connections of a wake-up, so that signals and status get their turn */

enum accept_outcome { TOOK_ONE, NOTHING_LEFT, MUST_REST };

struct acceptor {
  struct acceptor_setup setup;
  struct loop_watch *watch;
  struct loop_timer *rest;
  int spare; /* a descriptor to close when no other is left */
  int error; /* errno of the last connection that could not be accepted */
  bool suspended;
};

static int open_spare(void) { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

static int acceptor_take(const struct acceptor *acceptor) {
  int fd = accept4(acceptor->setup.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    rights_refuse(fd); /* the connection may have been queued before its listener refused descriptors */
  }
  return fd;
}

static void deny(struct acceptor *acceptor, int fd, const struct peer *peer) {
  client_send_error(&(struct client){.fd = fd, .native = acceptor->setup.native}, NATIVE_E_DENIED,
                    "user %u may not connect to pipeline %s", (unsigned)peer->uid, acceptor->setup.pipeline);
  refusals_add(acceptor->setup.refusals, LOG_REFUSED, acceptor->setup.pipeline, refusals_remedy(NATIVE_E_DENIED),
               "%s pid %d was refused: 'allow' does not name user %u", acceptor->setup.role, (int)peer->pid,
               (unsigned)peer->uid);
  rights_close(fd);
}

static void admit(struct acceptor *acceptor, int fd) {
  struct peer peer;
  if (!peer_read(fd, &peer)) {
    refusals_add(acceptor->setup.refusals, LOG_REFUSED, acceptor->setup.pipeline, NULL,
                 "a %s was refused: the kernel does not say who it is (%s)", acceptor->setup.role, strerror(errno));
    rights_close(fd);
    return;
  }
  if (peer_allowed(&peer, acceptor->setup.allow)) {
    acceptor->setup.accepted(acceptor->setup.context, fd, &peer);
  } else {
    deny(acceptor, fd, &peer);
  }
  peer_clear(&peer);
}

/* Accepts one connection with the spare descriptor, and refuses it. */
static enum accept_outcome shed_one(struct acceptor *acceptor) {
  if (acceptor->spare < 0) {
    return MUST_REST;
  }
  close(acceptor->spare);
  int fd = acceptor_take(acceptor);
  enum accept_outcome outcome = fd >= 0 ? TOOK_ONE : errno == EAGAIN ? NOTHING_LEFT : MUST_REST;
  if (fd >= 0) {
    client_send_error(&(struct client){.fd = fd, .native = acceptor->setup.native}, NATIVE_E_BUSY,
                      "no free descriptor; try again later");
    refusals_add(acceptor->setup.refusals, LOG_NO_DESCRIPTORS, acceptor->setup.pipeline,
                 "raise LimitNOFILE=", "a %s was refused: no free descriptor; raise LimitNOFILE=", acceptor->setup.role);
    rights_close(fd);
  }
  acceptor->spare = open_spare();
  return outcome;
}

static void on_rested(void *context) {
  struct acceptor *acceptor = context;
  if (acceptor->spare < 0) {
    acceptor->spare = open_spare();
  }
  if (!acceptor->suspended) {
    loop_watch_start(acceptor->watch);
  }
}

static enum accept_outcome accept_one(struct acceptor *acceptor) {
  int fd = acceptor_take(acceptor);
  if (fd >= 0) {
    admit(acceptor, fd);
    return TOOK_ONE;
  }
  acceptor->error = errno;
  switch (errno) {
  case EINTR:
  case ECONNABORTED: /* the client hung up while it was queued */
    return TOOK_ONE;
  case EAGAIN:
    return NOTHING_LEFT;
  case EMFILE:
  case ENFILE:
    return shed_one(acceptor);
  default:
    return MUST_REST;
  }
}

static void on_connections(void *context) {
  struct acceptor *acceptor = context;
  enum accept_outcome outcome = TOOK_ONE;
  for (unsigned i = 0; i < BATCH && outcome == TOOK_ONE && !acceptor->suspended; i++) {
    outcome = accept_one(acceptor);
  }
  if (outcome == MUST_REST) {
    bool at_limit = acceptor->error == EMFILE || acceptor->error == ENFILE;
    log_event(at_limit ? LOG_NO_DESCRIPTORS : LOG_CLIENT_ERROR, acceptor->setup.pipeline,
              "cannot take connections for a moment: %s%s", strerror(acceptor->error), at_limit ? "; raise LimitNOFILE=" : "");
    loop_watch_stop(acceptor->watch);
    loop_timer_start(acceptor->rest, REST_MS, 0);
  }
}

struct acceptor *acceptor_new(const struct acceptor_setup *setup, struct failure *failure) {
  struct acceptor *acceptor = calloc(1, sizeof *acceptor);
  if (acceptor) {
    acceptor->setup = *setup;
    acceptor->spare = open_spare();
    acceptor->watch = loop_watch_new(setup->loop, setup->fd, on_connections, acceptor);
    acceptor->rest = loop_timer_new(setup->loop, on_rested, acceptor);
  }
  if (!acceptor || !acceptor->watch || !acceptor->rest) {
    failure_set(failure, EXIT_STATUS_INTERNAL, NULL, "cannot watch the %s socket of pipeline '%s'", setup->role,
                setup->pipeline);
    return acceptor_close(acceptor);
  }
  loop_watch_start(acceptor->watch);
  return acceptor;
}

void acceptor_suspend(struct acceptor *acceptor) {
  acceptor->suspended = true;
  loop_timer_stop(acceptor->rest);
  loop_watch_stop(acceptor->watch);
}

void acceptor_resume(struct acceptor *acceptor) {
  acceptor->suspended = false;
  loop_watch_start(acceptor->watch);
}

struct acceptor *acceptor_close(struct acceptor *acceptor) {
  if (!acceptor) {
    return NULL;
  }
  loop_watch_close(acceptor->watch);
  loop_timer_close(acceptor->rest);
  if (acceptor->spare >= 0) {
    close(acceptor->spare);
  }
  free(acceptor);
  return NULL;
}
