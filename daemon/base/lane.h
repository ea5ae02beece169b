/*
 * The room base/: failures, log, systemd, loops, lanes and mailboxes; all rooms above use it.
 *
 * A lane: a thread with its own event loop, which owns its sessions and sinks.
 *
 * No other thread touches these. Other threads send messages. Each iteration of the loop runs one turn of every runner with
 * work. If runners have several priorities, an iteration runs all of the highest priority and a single one of the others. So a
 * turn of the highest priority waits for at most one other turn. Nothing on a lane blocks, and nothing allocates for a frame.
 */
#ifndef FRAMED_BASE_LANE_H
#define FRAMED_BASE_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/bell.h"
#include "daemon/base/failure.h"
#include "daemon/base/mailbox.h"
#include "gpu/priority.h"

struct lane;
struct lane_queue;

/* A session or sink on a lane. It gets a turn after it asked for one, and a tick ten times a second. */
struct runner {
  bool (*turn)(struct runner *runner);              /* returns true for another turn at once */
  void (*tick)(struct runner *runner, int64_t now); /* CLOCK_MONOTONIC ns */
  enum gpu_priority priority;                       /* constant while it is on a lane */
  struct lane *lane;                                /* NULL: not on a lane */
  struct lane_queue *queue;                         /* queue of its priority */
  bool scheduled;
  _Atomic bool woken;    /* set by lane_wake() */
  _Atomic int64_t asked; /* CLOCK_MONOTONIC ns since when a file request is under way; 0: none */
  struct runner *next_scheduled;
  struct runner *next, **link; /* all runners of the lane */
};

/* Starts the thread. NULL on error. */
struct lane *lane_new(unsigned index, struct failure *failure);
/* Ends and joins the thread. Its sessions and sinks must be gone. */
void lane_stop(struct lane *lane);
/* Stops the lane if necessary, and frees it. Before any lane is freed, stop all lanes that may still send it messages. Accepts
 * NULL; returns NULL. */
struct lane *lane_free(struct lane *lane);

unsigned lane_index(const struct lane *lane);
uv_thread_t lane_thread(const struct lane *lane);
/* [any thread] Runs the message on the lane. */
void lane_post(struct lane *lane, struct message *message);
/* [any thread] CLOCK_MONOTONIC ns of the last finished turn, at least ten times a second. */
int64_t lane_heartbeat(const struct lane *lane);
/* [any thread] ns of processor time of its thread; 0 if the system does not report it. */
int64_t lane_processor_time(const struct lane *lane);
/* [any thread] ns in which its sessions moved frames. */
int64_t lane_work(const struct lane *lane);

/* [any thread] The bell that workers ring for runners of the lane. Users must leave it before the lane is freed. */
struct bell *lane_bell(struct lane *lane);

/* -- parking, by one other thread ------------------------------------------------------------------------------- */

/* Asks the lane to take no more turns, and to stop once no file request is under way. */
void lane_park(struct lane *lane);
/* How long to wait for a lane to stop, as CLOCK_MONOTONIC times. */
struct lane_patience {
  int64_t file;      /* after this time a file request is no longer waited for */
  bool leaves_files; /* then the lane parks without it; otherwise parking fails */
  int64_t limit;     /* for everything else */
};
/* Waits until the lane is parked. Then the caller owns all that the lane owned. Returns false if the time is over; the lane
 * still runs. */
bool lane_is_parked(struct lane *lane, const struct lane_patience *patience);
/* While the lane is parked: runs its messages. Returns true if there were any. */
bool lane_run_messages(struct lane *lane);
/* The lane continues; also allowed before it is parked. */
void lane_unpark(struct lane *lane);

/* -- on the lane ---------------------------------------------------------------------------------------------- */

uv_loop_t *lane_loop(struct lane *lane);
void lane_join(struct lane *lane, struct runner *runner);
/* Removes the runner; no turn or tick follows. Does nothing if it is on no lane. */
void lane_leave(struct runner *runner);
/* Requests a turn in this iteration, or in the next one if turns have already run. */
void lane_schedule(struct runner *runner);
/* Adds ns in which a session moved frames. */
void lane_count_work(struct lane *lane, int64_t ns);
/* True if no other runner is on its lane. */
bool lane_is_own(const struct runner *runner);
/* [lane] True if other runners on its lane wait for a turn. */
bool lane_is_wanted(const struct runner *runner);
/* True if the lane is about to park. Then nothing new may be started outside turns. */
bool lane_is_parking(const struct lane *lane);

/* -- from any thread: a turn soon; only marks and wakes, so that a stream callback may call it ------------------- */
void lane_wake(struct lane *lane, struct runner *runner);
/* Wakes all runners of the lane. */
void lane_wake_all(struct lane *lane);

#endif
