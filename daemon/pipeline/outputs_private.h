/*
 * What an outlet is made of; private to outputs.c (its life, readers and files) and outputs_image.c (its way over a tape).
 */
#ifndef FRAMED_PIPELINE_OUTPUTS_PRIVATE_H
#define FRAMED_PIPELINE_OUTPUTS_PRIVATE_H

#include "daemon/base/loop.h"
#include "daemon/client/endpoint.h"
#include "daemon/client/handshake.h"
#include "daemon/frame/arena.h"
#include "daemon/pipeline/outputs.h"

struct reader_entry { /* one reader */
  struct reader_entry *next;
  struct reader *reader;
  pid_t pid;
  uid_t uid;
  struct arena control;       /* of one with shared memory */
  struct quota_charge charge; /* to its user */
  struct loop_timer *linger;  /* it was sent away, and may still look at its control memory for so long */
  struct outputs *outputs;    /* then */
};

struct outputs {
  uv_loop_t *loop;
  struct quota *quota;
  const struct config_pipeline *config;
  struct frame_format format;
  struct sink *sink;
  struct listener *listener;
  struct acceptor *acceptor;
  struct handshakes *handshakes; /* NULL: its readers say nothing */
  struct native_welcome welcome;
  outputs_lend *lend;
  void *context;            /* for lend() */
  struct endpoint endpoint; /* of a file; its descriptor until the sink gets it */
  struct loop_timer *retry; /* of a FIFO */
  struct reader_entry *places, *lingering;
  unsigned count;
  uint64_t missed; /* by readers that left */
  struct refusals refusals;
  uint64_t cut;    /* bytes of a torn result that a process before this one left in the file, */
  bool cut_unsure; /* if its results had the size of ours */
  bool awaits_end; /* a FIFO whose reader is to see the end of what came before: see outputs.c */
  bool closed, ended;
  unsigned cut_off; /* readers that could not go on, since the process before this one was killed; until the start */
  bool continues;   /* it was taken from a tape, */
  struct handshakes_visits *visits; /* with these on their way in; until the start */
};

/* Gives a new reader shared memory, if it asked for it and can have it, and welcomes it. False: it was not welcomed yet. */
bool outputs_share(struct outputs *outputs, struct reader_entry *place, const struct client *client);

/* outputs_image.c: says what a process that was killed has cost its file and its readers. */
void outputs_log_cuts(const struct outputs *outputs);

/* outputs_image.c: a file that somebody has moved or removed since is left for a new one, between two results. */
void outputs_follow_name(struct outputs *outputs);

/* Whether a new reader gets shared memory, if there is some. */
bool outputs_may_share(const struct outputs *outputs, const struct client *client);

/* outputs_share.c: frees the place of a reader that has left, at once or, if it has shared memory and was sent away, soon. */
void outputs_let_go(struct outputs *outputs, struct reader_entry *place, bool was_sent_away);
/* The pipeline ends: whoever has some of its memory keeps that. */
void outputs_leave_memory(struct outputs *outputs);

/* One reader more. */
void outputs_add(struct outputs *outputs, struct reader_entry *place);

#endif
