/*
 * Who goes first where several wait for the same thing: a worker, a turn on a lane, an instance of a model.
 *
 * The highest goes first. Who was passed over PRIORITY_PATIENCE times in a row goes next all the same, so that nothing waits
 * for ever, and no frame so long that its device is taken for one that hangs.
 */
#ifndef FRAMED_GPU_PRIORITY_H
#define FRAMED_GPU_PRIORITY_H

enum gpu_priority { GPU_PRIORITY_LOW = -1, GPU_PRIORITY_NORMAL, GPU_PRIORITY_HIGH };

enum { PRIORITIES = 3, PRIORITY_PATIENCE = 16 };

/* How often each rank was passed over since it went last. Zero at first. */
struct priority_turns {
  unsigned passed[PRIORITIES];
};

/* 0 is the highest. */
static inline unsigned priority_rank(enum gpu_priority priority) { return (unsigned)(GPU_PRIORITY_HIGH - priority); }

/* The rank whose turn it is, of those that wait: a bit each, and at least one. */
static inline unsigned priority_next(struct priority_turns *turns, unsigned waiting) {
  const unsigned highest = (unsigned)__builtin_ctz(waiting);
  unsigned next = highest;
  for (unsigned rank = highest + 1; rank < PRIORITIES; rank++) {
    next = (waiting & 1U << rank) != 0 && turns->passed[rank] >= PRIORITY_PATIENCE ? rank : next;
  }
  for (unsigned rank = highest + 1; rank < PRIORITIES; rank++) {
    turns->passed[rank] += (waiting & 1U << rank) != 0;
  }
  turns->passed[next] = 0;
  return next;
}

#endif
