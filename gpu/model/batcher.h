/*
 * Which frames go through a model together, and when: frames of several sessions wait in queues, one of each session, until a
 * batch of them goes.
 *
 * This decides and nothing else: it knows no device, no thread and no clock. Whoever asks for a batch has an instance that is
 * free. What always holds:
 *   - frames of one queue go in the order in which they came;
 *   - queues of one priority take turns, each with one frame, so that a session with many frames delays no other by more than
 *     its turn; those of higher ones go before them, as priority.h says;
 *   - no frame stays longer than the wait once an instance asks, and none longer than its deadline allows.
 */
#ifndef FRAMED_GPU_MODEL_BATCHER_H
#define FRAMED_GPU_MODEL_BATCHER_H

#include "gpu/priority.h"

#include <stdbool.h>
#include <stdint.h>

enum { BATCHER_MOST = 64 };
#define BATCHER_NEVER INT64_MAX

/* A frame that waits, in what it belongs to. Times are ns of one clock. */
struct batch_frame {
  struct batch_frame *next;
  int64_t came;
  int64_t deadline; /* when its result should be there; 0: it has none */
  bool alone;       /* it goes at once, and in a batch of its own */
};

/* The frames of one session. All zero: none. */
struct batch_queue {
  enum gpu_priority priority; /* stays while it has frames */
  struct batch_queue *next;   /* of those that have frames */
  struct batch_frame *first, *last;
};

struct batcher {
  unsigned most;   /* frames of a batch, 1 to BATCHER_MOST */
  int64_t wait_ns; /* how long a frame may be held back for others; 0: not at all */
  unsigned waiting;
  int64_t service_ns; /* about what a batch takes */
  /* By rank the last of a ring, whose next one has its turn; NULL: no frame waits there. */
  struct batch_queue *last[PRIORITIES];
  struct priority_turns turns;
};

void batcher_add(struct batcher *batcher, struct batch_queue *queue, struct batch_frame *frame);
/* When a batch is to go, if an instance is free: BATCHER_NEVER where no frame waits, 0 for at once. */
int64_t batcher_due(const struct batcher *batcher);
/* Takes the frames of a batch that is to go now, in the order of their turns; returns how many, or 0. */
unsigned batcher_take(struct batcher *batcher, int64_t now, struct batch_frame *frames[BATCHER_MOST]);
/* A batch has taken so long. */
void batcher_learn(struct batcher *batcher, int64_t service_ns);

#endif
