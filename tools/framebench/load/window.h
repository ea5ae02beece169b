/*
 * How many frames may be under way, and when those that are were sent: between the thread that writes and the one that
 * reads, without a lock as long as nobody waits.
 */
#ifndef FRAMED_FRAMEBENCH_LOAD_WINDOW_H
#define FRAMED_FRAMEBENCH_LOAD_WINDOW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LOAD_WINDOW_LIMIT = 1 << 14 };

struct load_window {
  uint64_t limit; /* 1 to LOAD_WINDOW_LIMIT frames */
  bool spin;      /* who waits asks again and again */
  uint64_t floor; /* [writer] frames below it are given up */
  _Atomic uint64_t settled;
  atomic_bool waiting;
  pthread_mutex_t mutex;
  pthread_cond_t moved;
  _Atomic int64_t sent_at[LOAD_WINDOW_LIMIT]; /* by number, the last so many */
};

void load_window_init(struct load_window *window, uint64_t limit, bool spin);
void load_window_clear(struct load_window *window);

/* [writer] Waits until at least one more frame may be sent after `sent` of them, and says how many may. What has not come
 * back after `patience_ns` is given up as lost. */
uint64_t load_window_wait(struct load_window *window, uint64_t sent, int64_t patience_ns);
/* [writer] Frame `number` is sent now. */
void load_window_note(struct load_window *window, uint64_t number, int64_t now);
/* [reader] When frame `number` was sent. */
int64_t load_window_time(const struct load_window *window, uint64_t number);
/* [reader] Frames up to and without `settled` have come, or never will. */
void load_window_settle(struct load_window *window, uint64_t settled);

#endif
