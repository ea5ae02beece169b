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
 *
 * The frame above the floor may be there, and one behind it gone: then that moment never comes. So when the floor has not moved
 * for a while, the stream is walked from the floor to the last delivered frame, and numbers that are missing in it are
 * acknowledged. Those that were done are missing, too: to acknowledge them twice does no harm.
 */
#ifndef FRAMED_TOOLS_LINK_SWEEP_H
#define FRAMED_TOOLS_LINK_SWEEP_H

#include "tools/link/link.h"

enum { SWEEP_TOLD = 1024 }; /* ends of frames within the tenth of a second that may pass until they are written down */

/* What a server says of a consumer. */
struct account {
  uint64_t waiting, under_way;    /* frames that were never delivered; that are, and wait for an acknowledgement */
  uint64_t delivered, deliveries; /* the number of the last one in the stream; how many deliveries there were */
  uint64_t floor;                 /* all up to this number are acknowledged */
};

struct sweep {
  uint64_t told[SWEEP_TOLD]; /* numbers of frames that were ended, a ring */
  unsigned told_count, told_next;
  int64_t made;   /* the consumer that was told; 0: it is none of a work queue */
  uint64_t until; /* the number of the last frame that may be done and there; 0: nothing to do */
  uint64_t next;  /* the first that is not looked at; 0: some wait for an acknowledgement */
  uint64_t removed;
  int64_t due; /* when frames are looked for, or asked for again */
  /* The walk: */
  uint64_t floor;     /* as of the last account */
  uint64_t walk, end; /* from the next number to the last; 0: there is no walk */
  bool first;         /* it ends at the first frame that is there */
  int64_t walk_due;   /* when it begins if the floor has not moved */
  int64_t pause;      /* until the next one, doubled each time: frames that take long hold the floor, too */
};

/* The queue was told the end of a frame. */
void sweep_told(struct sweep *sweep, uint64_t number);
/* The link has a new connection. */
void sweep_begin(struct link *link, struct sweep *sweep);
/* Does what follows from the consumer's account. */
void sweep_account(struct link *link, struct sweep *sweep, const struct account *account, int64_t now);
/* Whether the message is an answer to it. */
bool sweep_take(struct link *link, struct sweep *sweep, const natsMsg *message);

#endif
