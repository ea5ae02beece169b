/*
 * The far side of a pipeline: its sink, and the readers or the file that take the results.
 *
 * The outputs open and close every descriptor; between sink_attach() and SINK_DETACHED the sink has it. A FIFO without a
 * reader is tried again until there is one, so a reader always starts at a whole result. Pipelines that reply have none.
 */
#ifndef FRAMED_PIPELINE_OUTPUTS_H
#define FRAMED_PIPELINE_OUTPUTS_H

#include "daemon/client/listener.h"
#include "daemon/client/quota.h"
#include "daemon/client/refusals.h"
#include "daemon/measure/trouble.h"
#include "daemon/session/session.h"
#include "daemon/sink/sink.h"

struct outputs;

/* Opens the memory of the pipeline's results for a reader: see session_share_outputs(). `context` is that of the sink's
 * listener. */
typedef bool outputs_share(void *context, struct session_outputs *shared, struct failure *failure);

struct outputs_setup {
  uv_loop_t *loop;
  struct sink_setup sink;
  outputs_share *share;
  struct quota *quota; /* of all users */
  bool continues;      /* everything comes from the process before: see outputs_adopt() */
  bool inherits;    /* the listener or the file is other outputs' for now: see outputs_give_listener(), outputs_open_file() */
  bool may_be_late; /* a file that cannot be opened for now is opened later, */
  void (*opened)(void *context); /* which is told with the context of the sink; or NULL */
};

/* Makes the sink and opens where it goes. Set-up thread; NULL on error. */
struct outputs *outputs_new(const struct outputs_setup *setup, struct failure *failure);
/* Opens a file that was left out in outputs_new(); `before` is whose it is until then. Set-up thread. */
bool outputs_open_file(struct outputs *outputs, const struct outputs *before, struct failure *failure);
/* After outputs_close(), and after it stopped or before the start. Set-up thread. NULL is fine; returns NULL. */
struct outputs *outputs_free(struct outputs *outputs);

/* Has the next process get their descriptors; `live`: should this one be killed. */
void outputs_keep(const struct outputs *outputs, bool live);
/* Takes the outputs that lay at that address in the process before, once the sessions are there. Set-up thread. */
bool outputs_adopt(struct outputs *outputs, const struct outputs *address, sink_flow_lookup *flow, void *context,
                   struct failure *failure);
/* Whether those have readers, or clients that are about to be some; a file counts as one. */
bool outputs_left_readers(const struct outputs *address);

/* -- control loop ---------------------------------------------------------------------------------------------- */

struct sink *outputs_sink(const struct outputs *outputs);
bool outputs_start(struct outputs *outputs, struct failure *failure);
/* No more readers: closes the listener. Idempotent. */
void outputs_close(struct outputs *outputs);
/* Looks whether the file is still the one of its name, and leaves it for a new one if not. */
void outputs_look(struct outputs *outputs);
/* Since when a worker has to do with the file: CLOCK_MONOTONIC ns; 0: none has. Any thread. */
int64_t outputs_asked(const struct outputs *outputs);
/* While no lane runs: a file that is between two segments goes back to the sink, once the lane has its messages. */
void outputs_recall(struct outputs *outputs);
struct listener *outputs_take_listener(struct outputs *outputs);
void outputs_give_listener(struct outputs *outputs, struct listener *listener);
struct listener *outputs_listener(struct outputs *outputs);
/* Detaches all readers; SINK_STOPPED follows. */
void outputs_stop(struct outputs *outputs);
void outputs_on_event(struct outputs *outputs, const struct sink_event *event);

/* Standard output, or another reader that cannot come back, was closed by its reader. */
bool outputs_ended(const struct outputs *outputs);
/* Its file cannot be opened for now; outputs_trouble() says why. */
bool outputs_is_late(const struct outputs *outputs);
unsigned outputs_readers(const struct outputs *outputs);
uint64_t outputs_missed(const struct outputs *outputs); /* whole results, readers that left included */
const struct refusals *outputs_refusals(const struct outputs *outputs);
/* What can be wrong. Whoever finds a cause also says when it is over: none wipes another. The first one is shown. */
enum output_cause {
  OUTPUT_ENDS,   /* nothing can go there before a restart or a reload */
  OUTPUT_LATE,   /* its file cannot be opened yet */
  OUTPUT_WRITES, /* results are lost */
  OUTPUT_LAGS,   /* frames of a recording are, since its disk is too slow */
  OUTPUT_NEXT,   /* the next segment cannot begin */
  OUTPUT_MOVED,  /* somebody has taken the file away, and no other one can be opened */
  OUTPUT_FINISH, /* a segment cannot be finished */
  OUTPUT_CAUSES
};
struct trouble *outputs_cause(struct outputs *outputs, enum output_cause cause);
/* The one that is shown; with a count of 0 nothing is wrong. */
const struct trouble *outputs_trouble(const struct outputs *outputs);
/* The sink said last that its file can be written. */
bool outputs_recovered(const struct outputs *outputs);

#endif
