/*
 * The far side of a pipeline: its sink, and the readers or the file that take the results.
 *
 * The outlet opens and closes every descriptor; between sink_attach() and SINK_DETACHED the sink has it. A FIFO without a
 * reader is tried again until there is one, so a reader always starts at a whole result. Pipelines that reply have none.
 */
#ifndef FRAMED_PIPELINE_OUTPUTS_H
#define FRAMED_PIPELINE_OUTPUTS_H

#include "daemon/client/listener.h"
#include "daemon/client/quota.h"
#include "daemon/client/refusals.h"
#include "daemon/session/session.h"
#include "daemon/sink/sink.h"
#include "daemon/state/codec.h"

struct outlet;

/* Opens the memory of the pipeline's results for a reader: see session_lend(). `context` is that of the sink's listener. */
typedef bool outlet_lend(void *context, struct session_lent *lent, struct failure *failure);

struct outlet_setup {
  uv_loop_t *loop;
  struct sink_setup sink;
  outlet_lend *lend;
  struct quota *quota; /* of all users */
  bool continues;      /* everything comes from a tape: see outlet_take() */
  bool inherits; /* the listener or the file is another outlet's for now: see outlet_give_listener(), outlet_open_file() */
};

/* Makes the sink and opens where it goes. Set-up thread; NULL on error. */
struct outlet *outlet_new(const struct outlet_setup *setup, struct failure *failure);
/* Opens a file that was left out in outlet_new(); `before` is whose it is until then. Set-up thread. */
bool outlet_open_file(struct outlet *outlet, const struct outlet *before, struct failure *failure);
/* After outlet_close(), and after it stopped or before the start. Set-up thread. NULL is fine; returns NULL. */
struct outlet *outlet_free(struct outlet *outlet);

/* Puts all of it on a tape, while no lane runs, and takes it from there, once the sessions are there. Set-up thread. */
void outlet_put(struct outlet *outlet, struct tape *tape);
bool outlet_take(struct outlet *outlet, struct tape *tape, sink_road *road, void *context, struct failure *failure);

/* -- control loop ---------------------------------------------------------------------------------------------- */

struct sink *outlet_sink(const struct outlet *outlet);
bool outlet_start(struct outlet *outlet, struct failure *failure);
/* No more readers: closes the listener. Idempotent. */
void outlet_close(struct outlet *outlet);
struct listener *outlet_take_listener(struct outlet *outlet);
void outlet_give_listener(struct outlet *outlet, struct listener *listener);
struct listener *outlet_listener(struct outlet *outlet);
/* Detaches all readers; SINK_STOPPED follows. */
void outlet_stop(struct outlet *outlet);
void outlet_on_event(struct outlet *outlet, const struct sink_event *event);

/* Standard output, or another reader that cannot come back, was closed by its reader. */
bool outlet_ended(const struct outlet *outlet);
unsigned outlet_readers(const struct outlet *outlet);
/* Those that have not been greeted yet. */
unsigned outlet_visitors(const struct outlet *outlet);
uint64_t outlet_missed(const struct outlet *outlet); /* whole results, readers that left included */
const struct refusals *outlet_refusals(const struct outlet *outlet);

#endif
