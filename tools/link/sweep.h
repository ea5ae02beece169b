/*
 * Repairs a work queue after its server was killed.
 *
 * A server writes an acknowledgement and the removal of a frame to disk at different times. A server that is killed between
 * them may be wrong in two ways:
 *
 * - It waits for the acknowledgement of a frame that is gone. It tries to deliver that frame for ever, and stops the delivery
 *   of others with each attempt.
 * - It has frames again that are done, delivers them to nobody and never removes them.
 *
 * The sweep does three things. After each connection it repeats the last acknowledgements. It acknowledges a missing frame that
 * blocks the consumer's floor. When no frame waits for an acknowledgement, it removes the frames that were delivered; it
 * repeats this later, since one of several servers may be killed while the connection stays. Frames are removed one by one,
 * since a purge makes servers forget what their consumers wait for.
 *
 * If the frame above the floor exists and a later one is missing, frames always wait for an acknowledgement. So when the floor
 * has not moved for a while, the sweep walks from the floor to the last delivered frame and acknowledges missing numbers.
 * Finished frames are missing, too; acknowledging them twice does no harm.
 *
 * Requests and answers use the inbox.
 */
#ifndef FRAMED_TOOLS_LINK_SWEEP_H
#define FRAMED_TOOLS_LINK_SWEEP_H

#include "tools/link/link.h"

enum { SWEEP_ACKS = 1024 }; /* acknowledgements within the 0.1 s that may pass until servers write them to disk */

/* The server's account of a consumer. */
struct account {
  uint64_t waiting, under_way;    /* frames never delivered; frames that wait for an acknowledgement */
  uint64_t delivered, deliveries; /* the last delivered number in the stream; the number of deliveries */
  uint64_t floor;                 /* all numbers up to this one are acknowledged */
};

struct sweep {
  uint64_t acks[SWEEP_ACKS]; /* numbers of acknowledged frames, a ring */
  unsigned ack_count, next_ack;
  int64_t made;   /* creation time of their consumer; 0: it has no work queue */
  uint64_t until; /* the last frame that may be done and still exist; 0: nothing to do */
  uint64_t next;  /* the first unchecked number; 0: no check is running */
  uint64_t removed;
  int64_t due; /* when the next check begins, or a request is repeated */
  /* The walk: */
  uint64_t floor;     /* in the last account */
  uint64_t walk, end; /* the next and the last number; 0: no walk is running */
  bool first;         /* it ends at the first existing frame */
  int64_t walk_due;   /* when it begins if the floor has not moved */
  int64_t pause;      /* until the next walk, doubled each time, since slow frames hold the floor, too */
};

/* Notes an acknowledgement that was sent. */
void sweep_note_ack(struct sweep *sweep, uint64_t number);
/* Call this after each new connection. */
void sweep_begin(struct link *link, struct sweep *sweep);
/* Continues the sweep with a new account of the consumer. */
void sweep_account(struct link *link, struct sweep *sweep, const struct account *account, int64_t now);
/* Whether the message is an answer to a request of this module. */
bool sweep_take(struct link *link, struct sweep *sweep, const natsMsg *message);

#endif
