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
  struct batch_queue **last = &batcher->last[priority_rank(queue->priority)];
  queue->first = queue->last = frame;
  queue->next = *last ? (*last)->next : queue;
  if (*last) {
    (*last)->next = queue;
  }
  *last = queue;
}

/* A batch that goes then is done by the frame's deadline, as far as one can know. */
static int64_t due_of(const struct batcher *batcher, const struct batch_frame *frame) {
  int64_t due = frame->came + batcher->wait_ns;
  int64_t latest = frame->deadline != 0 ? frame->deadline - batcher->service_ns : BATCHER_NEVER;
  return frame->alone ? 0 : due < latest ? due : latest > 0 ? latest : 0;
}

/* When the first of the frames in a ring is due. */
static int64_t due_in(const struct batcher *batcher, const struct batch_queue *last) {
  int64_t due = BATCHER_NEVER;
  const struct batch_queue *queue = last;
  do {
    for (const struct batch_frame *frame = queue->first; frame; frame = frame->next) {
      int64_t own = due_of(batcher, frame);
      due = own < due ? own : due;
    }
    queue = queue->next;
  } while (queue != last);
  return due;
}

int64_t batcher_due(const struct batcher *batcher) {
  if (batcher->waiting == 0) {
    return BATCHER_NEVER;
  }
  if (batcher->waiting >= batcher->most || batcher->wait_ns == 0) {
    return 0;
  }
  int64_t due = BATCHER_NEVER;
  for (unsigned rank = 0; rank < PRIORITIES; rank++) {
    int64_t own = batcher->last[rank] ? due_in(batcher, batcher->last[rank]) : BATCHER_NEVER;
    due = own < due ? own : due;
  }
  return due;
}

/* The ring whose turn it is, and the turns after it; some frame waits. */
static struct batch_queue **choose_ring(struct batcher *batcher, struct priority_turns *turns) {
  unsigned waiting = 0;
  for (unsigned rank = 0; rank < PRIORITIES; rank++) {
    waiting |= batcher->last[rank] ? 1U << rank : 0;
  }
  *turns = batcher->turns;
  return &batcher->last[priority_next(turns, waiting)];
}

/* Takes the first frame of the queue whose turn it is, and gives the turn on. */
static struct batch_frame *take_first(struct batcher *batcher, struct batch_queue **last) {
  struct batch_queue *before = *last, *queue = before->next;
  struct batch_frame *frame = queue->first;
  queue->first = frame->next;
  batcher->waiting--;
  if (queue->first) {
    *last = queue;
  } else if (queue == before) {
    *last = NULL;
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
  while (count < batcher->most && batcher->waiting > 0) {
    struct priority_turns turns;
    struct batch_queue **last = choose_ring(batcher, &turns);
    if (!*last || (count > 0 && (*last)->next->first->alone)) {
      break; /* whose turn it is goes next, in a batch of its own */
    }
    batcher->turns = turns;
    frames[count++] = take_first(batcher, last);
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
