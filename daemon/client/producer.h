/*
 * A seat: a session of a pipeline's source with the producer that has it, and the memory that the two may share.
 *
 * Memory that a client has seen is never another's: a seat whose client has left is closed until its session has other
 * memory, which a worker thread makes. Control loop only, but for that.
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
  /* Tells that the seat's session has other memory, or could not get any: then it is tried again until it has. */
  void (*renewed)(void *context, struct producer *producer);
  void *context;
  bool frozen; /* sessions keep the memory that they have for now: what is wanted anew is owed */
};

struct producer {
  const struct producer_setup *setup; /* stays */
  struct session *session;
  struct client client;       /* fd -1: nobody */
  uint64_t frames_before;     /* that the session had from others before it */
  struct quota_charge charge; /* to the user of the client, also while memory that the client has seen is given up */
  bool idle, stopped;
  bool cut;                 /* the session cannot go on with the producer, which still has the seat */
  bool shares;              /* the producer sees the session's memory */
  bool used;                /* the session's memory has frames of earlier producers */
  bool renewing;            /* the memory is made anew, since a client that left may still see it */
  bool owed;                /* that has not begun, as the seats are frozen */
  bool changing;            /* its session was told to go on with other stages, and does not yet */
  bool closed;              /* nothing is tried again */
  bool lost;                /* making new memory failed, and nobody can be seated here until it succeeds */
  bool renewed;             /* what the worker thread gave, */
  struct failure failure;   /* and why it failed */
  struct loop_timer *again; /* when it is tried again; NULL until it has failed once */
};

bool producer_is_free(const struct producer *producer);

/* Whether this producer wants memory that has others' frames in it: it needs producer_renew() before it sits down. */
bool producer_must_renew(const struct producer *producer, const struct client *client);

/* Lends the session's memory to the seat's producer, if the producer asked for it, and welcomes it with the descriptors. False:
 * the producer gets the stream transport instead, and was not welcomed yet. `reply` is as for that transport. */
bool producer_share(struct producer *producer, const struct native_welcome *reply);

/* Gets a seat other memory once its producer has left, unless nobody comes any more. Until that is done the session may be
 * held, resumed and stopped, but nothing else, and the producer's user is charged for the old one. */
void producer_renew(struct producer *producer);
/* Makes what was owed, once the seats are frozen no more. */
void producer_renew_owed(struct producer *producer);
/* Whether memory that still counts against this user is being given up. */
bool seat_owes_memory(const struct producer *producer, uid_t user);
/* Ends the tries to get other memory; one that is under way goes on. Idempotent. */
void producer_close(struct producer *producer);

#endif
