/*
 * What a work queue has left behind: frames that are done and in the stream all the same.
 *
 * A server that is killed finds its consumer's account again, and not always that it had removed what was acknowledged: such
 * frames are delivered to nobody, and never go. So after each connection, at a moment when no frame waits for an
 * acknowledgement, those are removed that had been delivered before it. One by one, since servers that purge a part of a stream
 * forget what its consumers wait for. What the queue is asked, and answers, goes through the inbox.
 */
#ifndef FRAMED_TOOLS_LINK_SWEEP_H
#define FRAMED_TOOLS_LINK_SWEEP_H

#include "tools/link/link.h"

struct sweep {
  uint64_t until; /* the number of the last frame that may be one; 0: nothing to do */
  uint64_t next;  /* the first that is not looked at; 0: some wait for an acknowledgement */
  uint64_t removed;
  int64_t due; /* when the queue is asked, or asked again */
};

/* There is a new connection. */
void sweep_begin(struct sweep *sweep, const struct broker *broker);
/* Asks when it is time; returns when it is to be called again. */
int64_t sweep_turn(struct link *link, struct sweep *sweep, int64_t now);
/* Whether the message is an answer to it. */
bool sweep_take(struct link *link, struct sweep *sweep, const natsMsg *message);

#endif
