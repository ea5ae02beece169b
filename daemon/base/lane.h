/*
 * The room base/: failures, log, systemd, loops, lanes and mailboxes, on which all rooms above stand.
 *
 * A lane: a thread with an event loop of its own, which owns the sessions and sinks placed on it.
 *
 * Nobody else touches those; what another thread wants done comes as a message. Each iteration of the loop runs one turn of
 * every session that has something to do; where sessions of several priorities live there, one of each of the highest and one
 * of a single other, so that a turn of the highest waits for one of those at most. Nothing on a lane blocks and nothing
 * allocates for a frame.
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

/* What lives on a lane: it gets a turn when it asked for one, and a tick ten times a second. */
struct runner {
  bool (*turn)(struct runner *runner);              /* true: another turn at once */
  void (*tick)(struct runner *runner, int64_t now); /* CLOCK_MONOTONIC ns */
  enum gpu_priority priority;                       /* stays while it is on a lane */
  struct lane *lane;                                /* NULL: not on a lane */
  struct lane_queue *queue;                         /* of its priority there */
  bool scheduled;
  _Atomic bool woken;    /* by lane_wake() */
  _Atomic int64_t asked; /* CLOCK_MONOTONIC ns: since when a request of it to a file is under way; 0: none is */
  struct runner *next_scheduled;
  struct runner *next, **link; /* all runners of the lane */
};

/* Starts the thread. NULL on error. */
struct lane *lane_new(unsigned index, struct failure *failure);
/* Ends and joins the thread; its sessions and sinks must be gone. */
void lane_stop(struct lane *lane);
/* The same, if that was not done, and frees it. Lanes that may still be about to tell it something must be stopped before any
 * of them is freed. NULL is fine; returns NULL. */
struct lane *lane_free(struct lane *lane);

unsigned lane_index(const struct lane *lane);
uv_thread_t lane_thread(const struct lane *lane);
/* From any thread: runs the message on the lane. */
void lane_post(struct lane *lane, struct message *message);
/* From any thread: CLOCK_MONOTONIC ns of the last finished turn; a lane beats at least ten times a second. */
int64_t lane_heartbeat(const struct lane *lane);
/* From any thread: the processor time that its thread has used, in ns; 0 where the system does not say. */
int64_t lane_processor_time(const struct lane *lane);
/* From any thread: for how many ns its sessions have moved frames. */
int64_t lane_work(const struct lane *lane);

/* What workers ring when they have results for a runner of the lane. It must have left before the lane is freed. Any thread. */
struct bell *lane_bell(struct lane *lane);

/* -- parking, by one other thread ------------------------------------------------------------------------------- */

/* Asks the lane to take no more turns, and to stand still once no request to a file is under way. */
void lane_park(struct lane *lane);
/* For how long, by CLOCK_MONOTONIC, somebody waits for a lane to stand still. */
struct lane_patience {
  int64_t file;      /* from then on a request to a file is not waited for: the lane cannot stand, */
  bool leaves_files; /* or stands without it */
  int64_t limit;     /* for whatever else there is */
};
/* Waits until it does. True: what is the lane's belongs to the caller. False: that cannot be waited for, and the lane still
 * runs. */
bool lane_is_parked(struct lane *lane, const struct lane_patience *patience);
/* While it stands: runs the messages that wait for it; true if there were any. */
bool lane_run_messages(struct lane *lane);
/* The lane goes on as if nothing had been; also before it stands. */
void lane_unpark(struct lane *lane);

/* -- on the lane ---------------------------------------------------------------------------------------------- */

uv_loop_t *lane_loop(struct lane *lane);
void lane_join(struct lane *lane, struct runner *runner);
/* Takes it off; neither turn nor tick follows. Does nothing if it is on no lane. */
void lane_leave(struct runner *runner);
/* Asks for a turn in this iteration of the loop, or in the next if its turns are over. */
void lane_schedule(struct runner *runner);
/* One of its sessions has moved frames for so many ns. */
void lane_count_work(struct lane *lane, int64_t ns);
/* Nobody else lives on its lane. */
bool lane_is_own(const struct runner *runner);
/* [lane] Others on its lane wait for their turn. */
bool lane_is_wanted(const struct runner *runner);
/* Whether the lane is about to stand still, so that nothing new may be begun outside turns. */
bool lane_is_parking(const struct lane *lane);

/* -- from any thread: a turn soon. Only marks and wakes, so that a stream callback may call it. ------------------ */
void lane_wake(struct lane *lane, struct runner *runner);
/* The same for all that live there now. */
void lane_wake_all(struct lane *lane);

#endif
