/* Decides which frames go together; see batcher.h. */
#include "gpu/model/batcher.h"

#include <stddef.h>

/* How much of an estimate one batch changes. */
enum { LEARN = 8 };

void batcher_add(struct batcher *batcher, struct batch_queue *queue, struct batch_frame *frame) {
  frame->next = NULL;
  batcher->waiting++;
  if (queue->first) {
    queue->last = queue->last->next = frame;
    return;
  }
  queue->first = queue->last = frame;
  queue->next = batcher->last ? batcher->last->next : queue;
  if (batcher->last) {
    batcher->last->next = queue;
  }
  batcher->last = queue;
}

/* A batch that goes then is done by the frame's deadline, as far as one can know. */
static int64_t due_of(const struct batcher *batcher, const struct batch_frame *frame) {
  int64_t due = frame->came + batcher->wait_ns;
  int64_t latest = frame->deadline != 0 ? frame->deadline - batcher->service_ns : BATCHER_NEVER;
  return frame->alone ? 0 : due < latest ? due : latest > 0 ? latest : 0;
}

int64_t batcher_due(const struct batcher *batcher) {
  if (batcher->waiting == 0) {
    return BATCHER_NEVER;
  }
  if (batcher->waiting >= batcher->most || batcher->wait_ns == 0) {
    return 0;
  }
  int64_t due = BATCHER_NEVER;
  const struct batch_queue *queue = batcher->last;
  do {
    for (const struct batch_frame *frame = queue->first; frame; frame = frame->next) {
      int64_t own = due_of(batcher, frame);
      due = own < due ? own : due;
    }
    queue = queue->next;
  } while (queue != batcher->last);
  return due;
}

/* Takes the first frame of the queue whose turn it is, and gives the turn on. */
static struct batch_frame *take_first(struct batcher *batcher) {
  struct batch_queue *before = batcher->last, *queue = before->next;
  struct batch_frame *frame = queue->first;
  queue->first = frame->next;
  batcher->waiting--;
  if (queue->first) {
    batcher->last = queue;
  } else if (queue == before) {
    batcher->last = NULL;
  } else {
    before->next = queue->next;
  }
  return frame;
}

unsigned batcher_take(struct batcher *batcher, int64_t now, struct batch_frame *frames[BATCHER_MOST]) {
  unsigned count = 0;
  if (batcher_due(batcher) > now) {
    return 0;
  }
  while (count < batcher->most && batcher->last && !(count > 0 && batcher->last->next->first->alone)) {
    frames[count++] = take_first(batcher);
    if (frames[0]->alone) {
      break;
    }
  }
  return count;
}

void batcher_learn(struct batcher *batcher, int64_t service_ns) {
  int64_t before = batcher->service_ns;
  batcher->service_ns = before == 0 ? service_ns : before + (service_ns - before) / LEARN;
}
