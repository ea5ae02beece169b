/*
 * A seat: a session of a pipeline's source with its current producer, and the memory that the two may share.
 *
 * Memory that a client has seen is never used for another. After such a client leaves, the session accepts nobody until a
 * set-up thread has made new memory. Everything else here is for the control loop only.
 */
#ifndef FRAMED_CLIENT_PRODUCER_H
#define FRAMED_CLIENT_PRODUCER_H

#include "daemon/base/loop.h"
#include "daemon/client/handshake.h"
#include "daemon/client/quota.h"
#include "daemon/session/session.h"

struct producer;

struct producer_setup {
  uv_loop_t *loop;
  const char *pipeline; /* for the log */
  /* Called when the session has new memory, or could not get any. In that case it is tried again. */
  void (*renewed)(void *context, struct producer *producer);
  void *context;
  bool frozen; /* no renewal may begin; it is postponed */
};

struct producer {
  const struct producer_setup *setup; /* outlives the producer */
  struct session *session;
  struct client client;       /* fd -1: no client */
  uint64_t frames_before;     /* frames that the session had from earlier producers */
  struct quota_charge charge; /* charged to the client's user until the memory that the client has seen is released */
  bool idle, stopped;
  bool cut;                 /* the session cannot continue with the producer, which is still attached */
  bool shares;              /* the producer maps the session's memory */
  bool used;                /* the session's memory holds frames of earlier producers */
  bool renewing;            /* new memory is being made, because the last client may still see the old one */
  bool postponed;           /* the renewal has not begun, because renewals are frozen */
  bool changing;            /* the session was ordered to change its stages, and has not yet */
  bool closed;              /* nothing is tried again */
  bool lost;                /* making new memory failed; no client is accepted until it succeeds */
  bool renewed;             /* result of the set-up thread */
  struct failure failure;   /* reason if it failed */
  struct loop_timer *again; /* timer of the next try; NULL until it has failed once */
};

bool producer_is_free(const struct producer *producer);

/* True if this client asks for memory that has others' frames in it, so that producer_renew() must come first. */
bool producer_must_renew(const struct producer *producer, const struct client *client);

/* Shares the session's memory with its producer, if that asked for it, and sends the WELCOME with the descriptors. Returns
 * false if the producer must use the stream transport; then no WELCOME was sent. `reply` is the WELCOME for that transport. */
bool producer_share(struct producer *producer, const struct native_welcome *reply);

/* Gets new memory after the producer left, unless no client follows. Until that is done the session may only be held, resumed
 * and stopped, and the producer's user is charged for the old memory. */
void producer_renew(struct producer *producer);
/* Starts the postponed renewal, once renewals are no longer frozen. */
void producer_renew_postponed(struct producer *producer);
/* True if memory that this user is charged for is being released. */
bool producer_releases_memory(const struct producer *producer, uid_t user);
/* Ends the tries to get new memory; a try under way continues. Idempotent. */
void producer_close(struct producer *producer);

#endif
