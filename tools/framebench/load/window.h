/*
 * Limits the frames in flight, and stores when they were sent. The writer and the reader share it without a lock while nobody
 * waits.
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
  bool spin;      /* the waiter polls */
  uint64_t floor; /* [writer] frames below it are considered lost */
  _Atomic uint64_t settled;
  atomic_bool waiting;
  pthread_mutex_t mutex;
  pthread_cond_t moved;
  _Atomic int64_t sent_at[LOAD_WINDOW_LIMIT]; /* by number, the last so many */
};

void load_window_init(struct load_window *window, uint64_t limit, bool spin);
void load_window_clear(struct load_window *window);

/*
 * [writer] Waits until a frame may be sent after `sent` frames. Returns how many may be sent. Frames without a result after
 * `patience_ns` count as lost.
 */
uint64_t load_window_wait(struct load_window *window, uint64_t sent, int64_t patience_ns);
/* [writer] Notes that frame `number` is sent now. */
void load_window_note(struct load_window *window, uint64_t number, int64_t now);
/* [reader] The time at which frame `number` was sent. */
int64_t load_window_time(const struct load_window *window, uint64_t number);
/* [reader] All frames before `settled` have a result, or will never have one. */
void load_window_settle(struct load_window *window, uint64_t settled);

#endif
