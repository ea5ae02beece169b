/*
 * The state of a source's work queue. The server is asked each second:
 *
 *   CONSUMER.INFO   waiting frames, frames in flight, the consumer's position; and whether it exists
 *   STREAM.INFO     the number of frames in the stream, and the age of the first
 *
 * A missing consumer or stream is created again with a new connection. The sweep (sweep.h) uses the same answers.
 */
#ifndef FRAMED_TOOLS_LINK_QUEUE_H
#define FRAMED_TOOLS_LINK_QUEUE_H

#include "tools/link/sweep.h"

struct queue {
  struct sweep sweep;
  struct account account; /* the last answer */
  bool accounted;         /* it is of this connection */
  int64_t due;            /* time of the next request */
  char subject[256];      /* the consumer's subject; "": the whole stream */
  uint64_t last;          /* number of the stream's last message in the previous answer */
  int64_t held_since;     /* since when the stream has frames that the consumer does not know; 0: it has no such frames */
  uint64_t held;          /* at least that many in all answers since */
  uint64_t deliveries;    /* the consumer's number of deliveries */
  int64_t moved;          /* when it last increased */
  bool warned;
};

/* Call this after each new connection. */
void queue_begin(struct link *link, struct queue *queue);
/* Sends due requests. Returns the time of the next call. */
int64_t queue_turn(struct link *link, struct queue *queue, int64_t now);
/*
 * Whether the message is an answer to a request of this module. `asked`: frames that this box requested and has not received.
 */
bool queue_take(struct link *link, struct queue *queue, const natsMsg *message, unsigned asked);

#endif
