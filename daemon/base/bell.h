/*
 * The bell of a lane: how workers, which are other processes, wake it.
 *
 * A worker sets the bit of a program in a page that it shares with the lane, and writes to an eventfd only if the lane has said
 * that it sleeps. The lane looks at the page in each iteration, so that a lane that is busy is told without any system call.
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
  pthread_mutex_t lock; /* of who joins and leaves */
  bool taken[PAGES_PROGRAMS];
  _Atomic(struct runner *) runners[PAGES_PROGRAMS];
  _Atomic unsigned most; /* above the highest bit that was ever taken */
};

/* A negative number of libuv's on error. Before the loop runs. */
int bell_open(struct bell *bell, uv_loop_t *loop);
void bell_close(struct bell *bell); /* of the handle: the loop runs on until it is closed */
void bell_free(struct bell *bell);  /* after that */

/* The runner is asked to take a turn whenever the bit is set, until it leaves. -1: there is no bit left. Any thread. */
int bell_join(struct bell *bell, struct runner *runner);
void bell_leave(struct bell *bell, unsigned bit);

/* -- on the lane -- */

/* The runner leaves the lane, and is rung for no more; its bits stay taken. */
void bell_forget(struct bell *bell, const struct runner *runner);

/* Before it sleeps: it says so, and looks once more. True: it may. */
bool bell_may_sleep(struct bell *bell);
/* Afterwards, and in each iteration: calls `ring` for those whose bits are set. */
void bell_poll(struct bell *bell, void (*ring)(struct runner *runner));

#endif
