/*
 * The bell of a lane: how worker processes wake it.
 *
 * A worker sets the bit of a program in a page shared with the lane. It writes to an eventfd only if the lane has set its
 * `sleeping` word. The lane reads the page in each iteration, so waking a busy lane needs no system call.
 */
#ifndef FRAMED_BASE_BELL_H
#define FRAMED_BASE_BELL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "gpu/record/pages.h"

struct runner;

struct bell {
  int memory, eventfd; /* -1: none */
  struct bell_page *page;
  uv_poll_t poll;
  pthread_mutex_t lock; /* held while runners join and leave */
  bool taken[PAGES_PROGRAMS];
  _Atomic(struct runner *) runners[PAGES_PROGRAMS];
  _Atomic unsigned most; /* one above the highest bit that was ever taken */
};

/* Returns a negative libuv error. Call before the loop runs. */
int bell_open(struct bell *bell, uv_loop_t *loop);
void bell_close(struct bell *bell); /* closes the handle; the loop must run until it is closed */
void bell_free(struct bell *bell);  /* after that */

/* [any thread] Assigns a bit to the runner. It gets a turn whenever the bit is set, until it leaves. -1: no bit is free. */
int bell_join(struct bell *bell, struct runner *runner);
void bell_leave(struct bell *bell, unsigned bit);

/* -- on the lane --- */

/* The runner leaves the lane and is no longer scheduled by its bits, which stay taken. */
void bell_forget(struct bell *bell, const struct runner *runner);

/* Sets the `sleeping` word, then checks the bits once more. Returns true if the lane may sleep. */
bool bell_may_sleep(struct bell *bell);
/* Call after sleeping and in each iteration. Calls `ring` for each runner whose bit is set. */
void bell_poll(struct bell *bell, void (*ring)(struct runner *runner));

#endif
