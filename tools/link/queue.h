/*
 * What a source knows of its work queue. The server is asked each second:
 *
 *   CONSUMER.INFO   what waits, what is under way, how far the consumer is; and whether it is still there
 *   STREAM.INFO     how many frames the stream has, and how old the first one is
 *
 * A consumer or stream that is gone is made again with a new connection. The sweep (sweep.h) works on the same answers.
 */
#ifndef FRAMED_TOOLS_LINK_QUEUE_H
#define FRAMED_TOOLS_LINK_QUEUE_H

#include "tools/link/sweep.h"

struct queue {
  struct sweep sweep;
  struct account account; /* the last one */
  bool accounted;         /* there is one of this connection */
  int64_t due;            /* when it is asked again */
  char subject[256];      /* frames that the consumer takes; "": all of the stream */
  uint64_t last;          /* number of the stream's last message, as of the answer before */
  int64_t held_since;     /* since when frames are in the stream that the consumer does not know; 0: there are none */
  uint64_t held;          /* so many at least in all answers since */
  uint64_t deliveries;    /* of the consumer, */
  int64_t moved;          /* which rose then last */
  bool warned;
};

/* The link has a new connection. */
void queue_begin(struct link *link, struct queue *queue);
/* Asks when it is time; returns when it is to be called again. */
int64_t queue_turn(struct link *link, struct queue *queue, int64_t now);
/* Whether the message is an answer to it. `asked`: frames that this box asked for and has not got. */
bool queue_take(struct link *link, struct queue *queue, const natsMsg *message, unsigned asked);

#endif
