/*
 * What a work queue forgets when its server is killed.
 *
 * Servers write down at different times that a frame was acknowledged and that it was removed. One that is killed between may
 * wait for the acknowledgement of a frame that is gone: it tries to deliver it for ever, and with each try stops to deliver
 * others. Or it has back frames that are done, which are delivered to nobody and never go. So after each connection what was
 * told last is told again; a frame that holds down the consumer's floor and is gone is acknowledged; and at a moment when no
 * frame waits for an acknowledgement, those are removed that had been delivered; later on, too, since one of several servers
 * may be killed while others keep the connection. One by one, since servers that purge a part of a stream forget what its
 * consumers wait for. What the queue is asked, and answers, goes through the inbox.
 */
#ifndef FRAMED_TOOLS_LINK_SWEEP_H
#define FRAMED_TOOLS_LINK_SWEEP_H

#include "tools/link/link.h"

enum { SWEEP_TOLD = 1024 }; /* ends of frames within the tenth of a second that may pass until they are written down */

struct sweep {
  uint64_t told[SWEEP_TOLD]; /* numbers of frames that were ended, a ring */
  unsigned told_count, told_next;
  int64_t made;   /* the consumer that was told; 0: it is none of a work queue */
  uint64_t until; /* the number of the last frame that may be done and there; 0: nothing to do */
  uint64_t next;  /* the first that is not looked at; 0: some wait for an acknowledgement */
  uint64_t floor; /* what was found below the first that waits */
  uint64_t removed;
  int64_t due; /* when the queue is asked, or asked again */
};

/* The queue was told the end of a frame. */
void sweep_told(struct sweep *sweep, uint64_t number);
/* The link has a new connection. */
void sweep_begin(struct link *link, struct sweep *sweep);
/* Asks when it is time; returns when it is to be called again. */
int64_t sweep_turn(struct link *link, struct sweep *sweep, int64_t now);
/* Whether the message is an answer to it. */
bool sweep_take(struct link *link, struct sweep *sweep, const natsMsg *message);

#endif
