/*
 * The source side of a pipeline: its sessions, and the producers that come to them.
 *
 * A seat is a session with the producer that has it. The inputs open and closes every producer's descriptor; between
 * session_attach() and SESSION_DETACHED the session has it. A producer that finds no free seat is turned away, unless
 * enough earlier ones have hung up and only need to be read to their ends: then it waits for its turn.
 */
#ifndef FRAMED_PIPELINE_INPUTS_H
#define FRAMED_PIPELINE_INPUTS_H

#include "daemon/client/listener.h"
#include "daemon/client/quota.h"
#include "daemon/client/refusals.h"
#include "daemon/measure/trouble.h"
#include "daemon/pipeline/engine.h"
#include "daemon/session/session.h"

struct inputs;

struct inputs_setup {
  uv_loop_t *loop;
  struct quota *quota;               /* of all users */
  struct session_setup session;      /* of each session, but for `index`, the lanes and the device */
  struct lane **lanes;               /* one for each seat, */
  struct lane **sink_lanes;          /* and for its own sink, if it replies and that is on another one: else NULL */
  const struct engine_place *places; /* a device for each seat; outlives the inputs */
  bool inherits;                     /* the listener comes later, from other inputs */
  const struct inputs *left;         /* where they lay in the process before, which left them; NULL: nowhere */
};

/* Makes the sessions and opens the source. Set-up thread; NULL on error. */
struct inputs *inputs_new(const struct inputs_setup *setup, struct failure *failure);
/* Of a pipeline that waits: no seats, and nothing is open. NULL: no memory. */
struct inputs *inputs_none(const struct config_pipeline *config);
/* After inputs_close(), and after every session stopped or before the start. Blocks: set-up thread. Returns NULL. */
struct inputs *inputs_free(struct inputs *inputs);

/* -- control loop ---------------------------------------------------------------------------------------------- */

/* Lets producers in. */
bool inputs_start(struct inputs *inputs, struct failure *failure);
/* Before the start of inputs that were handed over: their sessions are held from the beginning. */
void inputs_start_held(struct inputs *inputs);
void inputs_suspend(struct inputs *inputs); /* new producers wait in the kernel's queue */
void inputs_unsuspend(struct inputs *inputs);
/* No more producers: closes the listener and whoever waits. Idempotent. */
void inputs_close(struct inputs *inputs);
/* Moves the listener out and in, around a reload. */
struct listener *inputs_take_listener(struct inputs *inputs);
void inputs_give_listener(struct inputs *inputs, struct listener *listener);
struct listener *inputs_listener(struct inputs *inputs);

void inputs_hold(struct inputs *inputs, bool for_readers); /* see session_hold() */
void inputs_leave_partial(struct inputs *inputs);          /* see session_leave_partial() */
void inputs_resume(struct inputs *inputs);
void inputs_stop(struct inputs *inputs); /* for good: nothing else is posted to its sessions after it */
/* Takes note of an event of one of its sessions; the descriptor of a DETACHED one is closed. */
void inputs_on_event(struct inputs *inputs, const struct session_event *event);

/* Has the next process get their descriptors; `live`: should this one be killed. */
void inputs_keep(const struct inputs *inputs, bool live);

/* Other stages in place of those in force: see session_prepare_stages(). The seats are frozen for as long: memory that their
 * sessions need anew is made afterwards. Gives whether none is being made, as must be before the stages are prepared. */
bool inputs_take_labels(struct inputs *inputs, const struct device_chain *chain); /* see session_take_labels() */
bool inputs_freeze(struct inputs *inputs);
void inputs_thaw(struct inputs *inputs);                                                                /* idempotent */
bool inputs_prepare_stages(struct inputs *inputs, struct device_chain *chain, struct failure *failure); /* set-up thread */
void inputs_change_stages(struct inputs *inputs);
bool inputs_changed(const struct inputs *inputs); /* all sessions have told it */
void inputs_drop_stages(struct inputs *inputs);   /* set-up thread */

bool inputs_held(const struct inputs *inputs);    /* all sessions know of inputs_hold(): see session_is_held() */
bool inputs_idle(const struct inputs *inputs);    /* all sessions were idle since inputs_hold() */
bool inputs_stopped(const struct inputs *inputs); /* all sessions have stopped */
bool inputs_ended(const struct inputs *inputs);   /* a file or standard input that has been read to its end */

/* Opens the memory of its session for a reader, where it has just one; false if that is being made anew. */
bool inputs_share_outputs(const struct inputs *inputs, struct session_outputs *shared, struct failure *failure);

unsigned inputs_seats(const struct inputs *inputs);
/* The number of the device that the seat's session is on. */
struct session *inputs_session(const struct inputs *inputs, unsigned producer);
unsigned inputs_producers(const struct inputs *inputs); /* connected */
const struct refusals *inputs_refusals(const struct inputs *inputs);
/* Why no frame can come, until one can. */
const struct trouble *inputs_trouble(const struct inputs *inputs);

#endif
