/*
 * What an intake is made of; private to inputs.c (its life and what it is told), inputs_file.c (producers that are files),
 * inputs_admit.c (how producers that connect get their seats) and inputs_image.c (how it is handed over).
 */
#ifndef FRAMED_PIPELINE_INPUTS_PRIVATE_H
#define FRAMED_PIPELINE_INPUTS_PRIVATE_H

#include "daemon/base/loop.h"
#include "daemon/client/acceptor.h"
#include "daemon/client/endpoint.h"
#include "daemon/client/producer.h"
#include "daemon/pipeline/inputs.h"

enum { MOST_WAITING = 64 };

struct inputs {
  uv_loop_t *loop;
  struct quota *quota;
  const struct config_pipeline *config;
  struct producer_setup producer_setup;
  struct producer *seats;
  unsigned count;
  struct client waiting[MOST_WAITING]; /* for seats of producers that have hung up; in order */
  unsigned waiting_count;
  struct listener *listener;
  struct acceptor *acceptor;
  struct handshakes *handshakes; /* NULL: its producers say nothing but frames */
  struct native_welcome welcome;
  struct endpoint endpoint; /* of a file; its descriptor until the session gets it */
  struct loop_watch *fifo;  /* until a writer comes */
  struct loop_timer *retry; /* while a FIFO cannot be opened for the next one */
  session_listener *listen; /* hears of sessions; */
  void *context;            /* what it is told with it */
  struct refusals refusals;
  bool for_readers;    /* of the hold in force, */
  bool leaves_partial; /* and frames that have begun may stay */
  bool closed, ended;
  bool stops;     /* its sessions were told to */
  bool continues; /* it was taken from a tape, */
  bool starts_held;
  bool discards;                    /* the FIFO's writer is not to be understood any more: see inputs_file.c */
  struct handshakes_visits *visits; /* with these on their way in; until the start */
};

/* -- inputs_image.c ------------------------------------------------------------------------------------------------ */

/* Takes what comes before the sessions, each seat before its session, and what comes after them. */
void inputs_take(struct inputs *inputs, struct codec *codec);
void inputs_take_seat(struct producer *producer, struct codec *codec);
bool inputs_seat_is_sound(const struct producer *producer);
void inputs_take_waiting(struct inputs *inputs, struct codec *codec);
/* What became of its producer when the process before this one was killed. */
void inputs_revive_seat(struct producer *producer);
/* Lets go of producers that cannot go on. */
void inputs_cut(struct inputs *inputs);
/* Everybody goes on where the process before this one stopped. */
void inputs_continue(struct inputs *inputs);

/* -- inputs_file.c ------------------------------------------------------------------------------------------------- */

/* The file's descriptor becomes the producer. */
void inputs_attach_file(struct inputs *inputs);
/* True: the FIFO was taken over without a writer, and somebody has put another one in its place, whose writer is awaited. */
bool inputs_follow_name(struct inputs *inputs);
/* A FIFO: once it has a writer. */
bool inputs_await_writer(struct inputs *inputs, struct failure *failure);
/* Another one, now or as soon as the FIFO can be opened; with no memory for that the source has ended. */
void inputs_await_next_writer(struct inputs *inputs);

/* -- inputs_admit.c --------------------------------------------------------------------------------------------- */

void inputs_seat_down(struct inputs *inputs, struct producer *producer, const struct client *client);
/* What this producer speaks. */
enum config_protocol inputs_protocol(const struct inputs *inputs, const struct client *client);
/* A producer that waits takes the seat, if there is one. */
void inputs_seat_next(struct inputs *inputs, struct producer *producer);
/* What the acceptor, the greeter and a seat's renewal tell. */
void inputs_on_accepted(void *context, int fd, const struct peer *peer);
void inputs_on_greeted(void *context, const struct client *client);
void inputs_on_renewed(void *context, struct producer *producer);

#endif
