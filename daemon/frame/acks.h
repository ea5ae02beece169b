/*
 * Up to which frame all of a producer's have their fate, told as one number: how many these are, from its first. For a producer
 * that keeps its frames until it knows that they need not be sent again.
 *
 * Frames that were cut off by an end of the client or of the pipeline never count: they are to be sent again. Frames of earlier
 * producers are forgotten when a new one begins.
 */
#ifndef FRAMED_FRAME_ACKS_H
#define FRAMED_FRAME_ACKS_H

#include "daemon/frame/slot.h"

/* More than a session has slots: readers under `drop` may keep frames whose slots are used again. */
enum { ACKS_OPEN = 64 };

struct acks {
  unsigned producer;        /* whose frames */
  unsigned count;           /* of those without a fate, */
  uint64_t open[ACKS_OPEN]; /* oldest first */
  uint64_t next;            /* behind the newest that came */
};

void acks_open(struct acks *acks, const struct frame *frame);
void acks_close(struct acks *acks, const struct frame *frame, enum fate fate);
/* So many frames of this producer, from its first, have their fate. */
uint64_t acks_count(const struct acks *acks, unsigned producer);
/* Over a tape. */
void acks_pass(struct acks *acks, struct codec *codec);

#endif
