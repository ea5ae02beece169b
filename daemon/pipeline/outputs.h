/*
 * The sink side of a pipeline: its sink, and the readers or the file that get the results.
 *
 * The outputs open and close every descriptor; between sink_attach() and SINK_DETACHED the sink owns it. A FIFO without a
 * reader is tried again until there is one, so a reader always starts with a complete result. Pipelines that reply have no
 * outputs.
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
  bool continues;      /* all is taken over from the previous process: see outputs_adopt() */
  /* Other outputs still have the listener or the file: see outputs_set_listener(), outputs_open_file(). */
  bool inherits;
  bool may_be_late;              /* a file that cannot be opened now is opened later */
  void (*opened)(void *context); /* called then, with the context of the sink; or NULL */
};

/* Makes the sink and opens its destination. For a set-up thread; NULL on error. */
struct outputs *outputs_new(const struct outputs_setup *setup, struct failure *failure);
/* Opens a file that outputs_new() left out; `before` has it until then. For a set-up thread. */
bool outputs_open_file(struct outputs *outputs, const struct outputs *before, struct failure *failure);
/* Call after outputs_close(), and after the stop or before the start. For a set-up thread. Accepts NULL; returns NULL. */
struct outputs *outputs_free(struct outputs *outputs);

/* Passes their descriptors to the next process. `live`: in case this one is killed. */
void outputs_keep(const struct outputs *outputs, bool live);
/* Takes over the outputs of the previous process at that address, after the sessions. For a set-up thread. */
bool outputs_adopt(struct outputs *outputs, const struct outputs *address, sink_flow_lookup *flow, void *context,
                   struct failure *failure);
/* True if those have readers, or clients in their handshake; a file counts as a reader. */
bool outputs_left_readers(const struct outputs *address);

/* -- control loop ---------------------------------------------------------------------------------------------- */

struct sink *outputs_sink(const struct outputs *outputs);
bool outputs_start(struct outputs *outputs, struct failure *failure);
/* Accepts no more readers: closes the listener. Idempotent. */
void outputs_close(struct outputs *outputs);
/* Checks whether the path still names the open file; if not, changes to a new file. */
void outputs_check_file(struct outputs *outputs);
/* [any thread] CLOCK_MONOTONIC ns since when a pool thread works on the file; 0: none. */
int64_t outputs_asked(const struct outputs *outputs);
/* While no lane runs: returns a file that is between two segments to the sink, once the lane has its messages. */
void outputs_recall(struct outputs *outputs);
struct listener *outputs_take_listener(struct outputs *outputs);
void outputs_set_listener(struct outputs *outputs, struct listener *listener);
struct listener *outputs_listener(struct outputs *outputs);
/* Detaches all readers; SINK_STOPPED follows. */
void outputs_stop(struct outputs *outputs);
void outputs_on_event(struct outputs *outputs, const struct sink_event *event);

/* True if standard output, or another reader that cannot come back, was closed. */
bool outputs_ended(const struct outputs *outputs);
/* True if its file cannot be opened now; outputs_trouble() has the reason. */
bool outputs_is_late(const struct outputs *outputs);
unsigned outputs_readers(const struct outputs *outputs);
uint64_t outputs_missed(const struct outputs *outputs); /* whole results, with readers that left */
const struct refusals *outputs_refusals(const struct outputs *outputs);
/* Kinds of errors. Each is set and cleared independently of the others. The first one is shown. */
enum output_cause {
  OUTPUT_ENDS,   /* results cannot be written before a restart or a reload */
  OUTPUT_LATE,   /* its file cannot be opened yet */
  OUTPUT_WRITES, /* results are lost */
  OUTPUT_LAGS,   /* frames of a recording are lost, because its disk is too slow */
  OUTPUT_NEXT,   /* the next segment cannot begin */
  OUTPUT_MOVED,  /* the file was moved or removed, and no other one can be opened */
  OUTPUT_FINISH, /* a segment cannot be finished */
  OUTPUT_CAUSES
};
struct trouble *outputs_cause(struct outputs *outputs, enum output_cause cause);
/* The error that is shown; a count of 0: no error. */
const struct trouble *outputs_trouble(const struct outputs *outputs);
/* True if the sink's last report was that its file can be written. */
bool outputs_recovered(const struct outputs *outputs);

#endif
