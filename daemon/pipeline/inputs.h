/*
 * The source side of a pipeline: its sessions and their producers.
 *
 * A seat is a session with its current producer (client/producer.h). The inputs open and close every producer's descriptor;
 * between session_attach() and SESSION_DETACHED the session owns it. A producer that finds no free seat is refused. If enough
 * earlier producers have hung up and only their remaining bytes must be read, it waits instead.
 */
#ifndef FRAMED_PIPELINE_INPUTS_H
#define FRAMED_PIPELINE_INPUTS_H

#include "daemon/client/listener.h"
#include "daemon/client/quota.h"
#include "daemon/client/refusals.h"
#include "daemon/measure/trouble.h"
#include "daemon/pipeline/engine.h"
#include "daemon/session/session.h"

struct camera;
struct cameras;
struct inputs;

struct inputs_setup {
  uv_loop_t *loop;
  struct cameras *cameras;      /* of all pipelines */
  struct quota *quota;          /* of all users */
  struct session_setup session; /* for each session, without `index`, lanes and device */
  struct lane **lanes;          /* one for each seat */
  /* Lane of the seat's own sink, if it replies from another lane; else NULL. */
  struct lane **sink_lanes;
  const struct engine_placement *placements; /* devices of each seat; outlives the inputs */
  bool inherits;                             /* the listener comes later, from other inputs */
  const struct inputs *left;                 /* address in the previous process; NULL: new inputs */
};

/* Makes the sessions and opens the source. For a set-up thread; NULL on error. */
struct inputs *inputs_new(const struct inputs_setup *setup, struct failure *failure);
/* For a waiting pipeline: no seats, and nothing is open. NULL without memory. */
struct inputs *inputs_none(const struct config_pipeline *config);
/* Call after inputs_close(), and after every session stopped or before the start. Blocks: for a set-up thread. Returns NULL. */
struct inputs *inputs_free(struct inputs *inputs);

/* -- control loop ---------------------------------------------------------------------------------------------- */

/* Starts accepting producers. */
bool inputs_start(struct inputs *inputs, struct failure *failure);
/* Call before the start of inputs that were taken over: their sessions are held from the beginning. */
void inputs_start_held(struct inputs *inputs);
void inputs_suspend(struct inputs *inputs); /* new producers wait in the kernel's queue */
void inputs_unsuspend(struct inputs *inputs);
/* Accepts no more producers: closes the listener and waiting clients. Idempotent. */
void inputs_close(struct inputs *inputs);
/* Move the listener out and in, around a reload. */
struct listener *inputs_take_listener(struct inputs *inputs);
void inputs_set_listener(struct inputs *inputs, struct listener *listener);
struct listener *inputs_listener(struct inputs *inputs);

void inputs_hold(struct inputs *inputs, bool for_readers); /* see session_hold() */
void inputs_leave_partial(struct inputs *inputs);          /* see session_leave_partial() */
void inputs_resume(struct inputs *inputs);
void inputs_stop(struct inputs *inputs); /* permanently: sends the sessions no further orders */
/* Handles an event of one of its sessions. Closes the descriptor of a DETACHED event. */
void inputs_on_event(struct inputs *inputs, const struct session_event *event);

/* Passes their descriptors to the next process. `live`: in case this one is killed. `program`: to another image of this
 * process, which keeps its children. */
void inputs_keep(struct inputs *inputs, bool program, bool live);

/* Replacing the stages: see session_prepare_stages(). inputs_freeze() postpones renewals of sessions' memory until
 * inputs_thaw(). It returns true if no renewal is under way, which must be so before the stages are prepared. */
bool inputs_take_labels(struct inputs *inputs, const struct device_chain *chain); /* see session_take_labels() */
bool inputs_freeze(struct inputs *inputs);
void inputs_thaw(struct inputs *inputs);                                                                /* idempotent */
bool inputs_prepare_stages(struct inputs *inputs, struct device_chain *chain, struct failure *failure); /* set-up thread */
void inputs_change_stages(struct inputs *inputs);
bool inputs_changed(const struct inputs *inputs); /* all sessions have switched */
void inputs_drop_stages(struct inputs *inputs);   /* set-up thread */

bool inputs_held(const struct inputs *inputs);    /* all sessions know of inputs_hold(): see session_is_held() */
bool inputs_idle(const struct inputs *inputs);    /* all sessions have been idle since inputs_hold() */
bool inputs_stopped(const struct inputs *inputs); /* all sessions have stopped */
bool inputs_ended(const struct inputs *inputs);   /* a file or standard input has been read completely */

/* Opens the memory of the only session for a reader. Returns false while it is being renewed. */
bool inputs_share_outputs(const struct inputs *inputs, struct session_outputs *shared, struct failure *failure);

unsigned inputs_seats(const struct inputs *inputs);
/* The session of that seat. */
struct session *inputs_session(const struct inputs *inputs, unsigned producer);
unsigned inputs_producers(const struct inputs *inputs); /* connected producers */
/* Before the start: takes the camera from inputs that are about to stop, if it fits. */
void inputs_move_camera(struct inputs *inputs, struct inputs *from);
/* The camera of a URL; NULL if the source is none. */
const struct camera *inputs_camera(const struct inputs *inputs);
const struct refusals *inputs_refusals(const struct inputs *inputs);
/* Why no frame can come; a count of 0: frames can come. */
const struct trouble *inputs_trouble(const struct inputs *inputs);

#endif
