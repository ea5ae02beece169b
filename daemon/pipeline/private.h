/*
 * A pipeline's own state, for the three files that make it up: pipeline.c takes and gives back what it needs,
 * run.c owns its state while it runs, snapshot.c reads it.
 */
#ifndef FRAMED_PIPELINE_PRIVATE_H
#define FRAMED_PIPELINE_PRIVATE_H

#include "daemon/measure/meter.h"
#include "daemon/pipeline/inputs.h"
#include "daemon/pipeline/outputs.h"
#include "daemon/pipeline/pending.h"
#include "daemon/pipeline/pipeline.h"

enum { PIPELINE_TOO_MANY = 3 }; /* frames condemned within a minute */

struct pipeline {
  struct pipeline_setup setup;
  const struct config_pipeline *config;
  enum pipeline_state state;
  enum pipeline_state before; /* STOPPING: where pipeline_unquiesce() goes back to */
  struct gpu_chain *chain;
  struct frame_format input;
  size_t result_bytes, frame_bytes; /* of one result; what each seat's lane is loaded with for a frame */
  struct lane **lanes;              /* one for each seat */
  struct lane **sink_lanes;         /* the same for what a seat's results go to; NULL: its own lane */
  struct inputs *inputs;
  struct outputs *outputs;       /* NULL: it replies */
  struct pending pauses, drains; /* requests that wait for it to be held; drained */
  struct meter *meter;
  struct reading now;   /* for pipeline_snapshot(), too large for a stack */
  bool for_good;        /* STOPPING: stops as soon as it is quiet */
  bool cut;             /* sessions were told to stop */
  bool accounted;       /* the log has its account, maybe from an image before this one */
  bool outputs_started; /* while the intake may not be yet */
  bool was_late;        /* the process before could not start it yet */
  bool continues;       /* it was taken from a tape, */
  enum pipeline_state continues_as;
  unsigned now_condemned;                 /* by the hand-over, one at most as a rule, */
  uint64_t last_condemned;                /* and its sequence number */
  int64_t quarantined[PIPELINE_TOO_MANY]; /* when its last frames were condemned: CLOCK_MONOTONIC ns; the latest first */
};

/* image.c */
void pipeline_take(struct pipeline *pipeline, struct codec *codec);
/* Takes the outlet, after the sessions, and counts the frames that they condemned. */
bool pipeline_take_outlet(struct pipeline *pipeline, struct codec *codec, struct failure *failure);

/* run.c: what the sessions, the sink and waiting requests call. */
void pipeline_on_session_event(void *context, const struct session_event *event);
void pipeline_on_sink_event(void *context, const struct sink_event *event);
void pipeline_on_pause_expired(void *owner, server_answer *answer, void *context);
void pipeline_on_drain_expired(void *owner, server_answer *answer, void *context);

/* snapshot.c: sums over all sessions, and what the session that is furthest down the road waits for. */
void pipeline_ledger(const struct pipeline *pipeline, struct ledger *ledger);
enum session_waiting pipeline_waiting(const struct pipeline *pipeline);

#endif
