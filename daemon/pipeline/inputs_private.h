/*
 * What an intake is made of; private to inputs.c (its life and what it is told), inputs_file.c (producers that are files),
 * inputs_seating.c (how producers that connect get their seats) and inputs_image.c (how it is handed over).
 */
#ifndef FRAMED_PIPELINE_INPUTS_PRIVATE_H
#define FRAMED_PIPELINE_INPUTS_PRIVATE_H

#include "daemon/base/loop.h"
#include "daemon/client/acceptor.h"
#include "daemon/client/endpoint.h"
#include "daemon/client/producer.h"
#include "daemon/pipeline/inputs.h"

enum { MOST_WAITING = 64 };

struct intake {
  uv_loop_t *loop;
  struct quota *quota;
  const struct config_pipeline *config;
  struct seat_setup seat_setup;
  struct seat *seats;
  unsigned count;
  struct guest waiting[MOST_WAITING]; /* for seats of producers that have hung up; in order */
  unsigned waiting_count;
  struct listener *listener;
  struct acceptor *acceptor;
  struct greeter *greeter; /* NULL: its producers say nothing but frames */
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
  bool discards;                 /* the FIFO's writer is not to be understood any more: see inputs_file.c */
  struct greeter_visits *visits; /* with these on their way in; until the start */
};

/* -- inputs_image.c ------------------------------------------------------------------------------------------------ */

/* Takes what comes before the sessions, each seat before its session, and what comes after them. */
void intake_take(struct intake *intake, struct tape *tape);
void intake_take_seat(struct seat *seat, struct tape *tape);
bool intake_seat_is_sound(const struct seat *seat);
void intake_take_waiting(struct intake *intake, struct tape *tape);
/* What became of its producer when the process before this one was killed. */
void intake_revive_seat(struct seat *seat);
/* Lets go of producers that cannot go on. */
void intake_cut(struct intake *intake);
/* Everybody goes on where the process before this one stopped. */
void intake_continue(struct intake *intake);

/* -- inputs_file.c ------------------------------------------------------------------------------------------------- */

/* The file's descriptor becomes the producer. */
void intake_attach_file(struct intake *intake);
/* True: the FIFO was taken over without a writer, and somebody has put another one in its place, whose writer is awaited. */
bool intake_follow_name(struct intake *intake);
/* A FIFO: once it has a writer. */
bool intake_await_writer(struct intake *intake, struct failure *failure);
/* Another one, now or as soon as the FIFO can be opened; with no memory for that the source has ended. */
void intake_await_next_writer(struct intake *intake);

/* -- inputs_seating.c --------------------------------------------------------------------------------------------- */

void intake_seat_down(struct intake *intake, struct seat *seat, const struct guest *producer);
/* What this producer speaks. */
enum config_protocol intake_protocol(const struct intake *intake, const struct guest *producer);
/* A producer that waits takes the seat, if there is one. */
void intake_seat_next(struct intake *intake, struct seat *seat);
/* What the acceptor, the greeter and a seat's renewal tell. */
void intake_on_accepted(void *context, int fd, const struct peer *peer);
void intake_on_greeted(void *context, const struct guest *guest);
void intake_on_renewed(void *context, struct seat *seat);

#endif
