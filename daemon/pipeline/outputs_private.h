/*
 * What an outlet is made of; private to outputs.c (its life, readers and files) and outputs_image.c (its way over a tape).
 */
#ifndef FRAMED_PIPELINE_OUTPUTS_PRIVATE_H
#define FRAMED_PIPELINE_OUTPUTS_PRIVATE_H

#include "daemon/base/loop.h"
#include "daemon/client/endpoint.h"
#include "daemon/client/hello.h"
#include "daemon/frame/arena.h"
#include "daemon/pipeline/outputs.h"

struct place { /* one reader */
  struct place *next;
  struct reader *reader;
  pid_t pid;
  uid_t uid;
  struct arena control;       /* of one with shared memory */
  struct quota_charge charge; /* to its user */
  struct loop_timer *linger;  /* it was sent away, and may still look at its control memory for so long */
  struct outlet *outlet;      /* then */
};

struct outlet {
  uv_loop_t *loop;
  struct quota *quota;
  const struct config_pipeline *config;
  struct frame_format format;
  struct sink *sink;
  struct listener *listener;
  struct acceptor *acceptor;
  struct greeter *greeter; /* NULL: its readers say nothing */
  struct native_welcome welcome;
  outlet_lend *lend;
  void *context;            /* for lend() */
  struct endpoint endpoint; /* of a file; its descriptor until the sink gets it */
  struct loop_timer *retry; /* of a FIFO */
  struct place *places, *lingering;
  unsigned count;
  uint64_t missed; /* by readers that left */
  struct refusals refusals;
  uint64_t cut;    /* bytes of a torn result that a process before this one left in the file, */
  bool cut_unsure; /* if its results had the size of ours */
  bool awaits_end; /* a FIFO whose reader is to see the end of what came before: see outputs.c */
  bool closed, ended;
  unsigned cut_off; /* readers that could not go on, since the process before this one was killed; until the start */
  bool continues;   /* it was taken from a tape, */
  struct greeter_visits *visits; /* with these on their way in; until the start */
};

/* Gives a new reader shared memory, if it asked for it and can have it, and welcomes it. False: it was not welcomed yet. */
bool outlet_share(struct outlet *outlet, struct place *place, const struct guest *guest);

/* outputs_image.c: says what a process that was killed has cost its file and its readers. */
void outlet_log_cuts(const struct outlet *outlet);

/* outputs_image.c: a file that somebody has moved or removed since is left for a new one, between two results. */
void outlet_follow_name(struct outlet *outlet);

/* Whether a new reader gets shared memory, if there is some. */
bool outlet_may_share(const struct outlet *outlet, const struct guest *guest);

/* outputs_share.c: frees the place of a reader that has left, at once or, if it has shared memory and was sent away, soon. */
void outlet_let_go(struct outlet *outlet, struct place *place, bool was_sent_away);
/* The pipeline ends: whoever has some of its memory keeps that. */
void outlet_leave_memory(struct outlet *outlet);

/* One reader more. */
void outlet_add(struct outlet *outlet, struct place *place);

#endif
