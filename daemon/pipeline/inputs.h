/*
 * The source side of a pipeline: its sessions, and the producers that come to them.
 *
 * A seat is a session with the producer that has it. The intake opens and closes every producer's descriptor; between
 * session_attach() and SESSION_DETACHED the session has it. A producer that finds no free seat is turned away, unless
 * enough earlier ones have hung up and only need to be read to their ends: then it waits for its turn.
 */
#ifndef FRAMED_PIPELINE_INPUTS_H
#define FRAMED_PIPELINE_INPUTS_H

#include "daemon/client/listener.h"
#include "daemon/client/quota.h"
#include "daemon/client/refusals.h"
#include "daemon/session/session.h"

struct intake;

struct intake_setup {
  uv_loop_t *loop;
  struct quota *quota;          /* of all users */
  struct session_setup session; /* of each session, but for `index` and the lanes */
  struct lane **lanes;          /* one for each seat, */
  struct lane **sink_lanes;     /* and for its own sink, if it replies and that is on another one: else NULL */
  bool inherits;                /* the listener comes later, from another intake */
  struct tape *tape;            /* what a process before this one left of it; NULL: nothing */
};

/* Makes the sessions and opens the source. Set-up thread; NULL on error. */
struct intake *intake_new(const struct intake_setup *setup, struct failure *failure);
/* After intake_close(), and after every session stopped or before the start. Blocks: set-up thread. Returns NULL. */
struct intake *intake_free(struct intake *intake);

/* -- control loop ---------------------------------------------------------------------------------------------- */

/* Lets producers in. */
bool intake_start(struct intake *intake, struct failure *failure);
/* Before the start of one that was taken from a tape: its sessions are held from the beginning. */
void intake_start_held(struct intake *intake);
void intake_suspend(struct intake *intake); /* new producers wait in the kernel's queue */
void intake_unsuspend(struct intake *intake);
/* No more producers: closes the listener and whoever waits. Idempotent. */
void intake_close(struct intake *intake);
/* Moves the listener out and in, around a reload. */
struct listener *intake_take_listener(struct intake *intake);
void intake_give_listener(struct intake *intake, struct listener *listener);
struct listener *intake_listener(struct intake *intake);

void intake_hold(struct intake *intake, bool for_readers); /* see session_hold() */
void intake_leave_partial(struct intake *intake);          /* see session_leave_partial() */
void intake_resume(struct intake *intake);
void intake_stop(struct intake *intake); /* for good: nothing else is posted to its sessions after it */
/* Takes note of an event of one of its sessions; the descriptor of a DETACHED one is closed. */
void intake_on_event(struct intake *intake, const struct session_event *event);

/* Puts all of it on a tape, while no lane runs. */
void intake_put(struct intake *intake, struct tape *tape);
/* Whether all its sessions note where they are. */
bool intake_is_noted(const struct intake *intake);
/* Frames of its sessions that are on the device, and what is said of them: see session_suspect(). */
unsigned intake_running(const struct intake *intake);
void intake_suspect(struct intake *intake, bool failed, bool alone);
/* After the sink was taken, too: see session_taken(). */
bool intake_taken(const struct intake *intake, struct failure *failure);
/* See session_condemned(). */
unsigned intake_condemned(const struct intake *intake, uint64_t *last);

bool intake_held(const struct intake *intake);    /* all sessions know of intake_hold(): see session_is_held() */
bool intake_idle(const struct intake *intake);    /* all sessions were idle since intake_hold() */
bool intake_stopped(const struct intake *intake); /* all sessions have stopped */
bool intake_ended(const struct intake *intake);   /* a file or standard input that has been read to its end */

/* Opens the memory of its session for a reader, where it has just one; false if that is being made anew. */
bool intake_lend(const struct intake *intake, struct session_lent *lent, struct failure *failure);

unsigned intake_seats(const struct intake *intake);
struct session *intake_session(const struct intake *intake, unsigned seat);
unsigned intake_producers(const struct intake *intake); /* connected */
const struct refusals *intake_refusals(const struct intake *intake);

#endif
