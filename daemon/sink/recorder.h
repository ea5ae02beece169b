/*
 * Records what comes in: a ring of frames in memory, copied as they come, from which those that are wanted go to a file sink in
 * segments. It holds nobody up: a frame that finds the ring full of frames that are still to be written is missing there.
 *
 * It lives on its session's lane, next to the flow whose frames it taps, and on the sink's, which is the same lane. The sink
 * takes frames from it as from any flow, whose account says which were written. It ends with its process: the next one begins a
 * segment.
 */
#ifndef FRAMED_SINK_RECORDER_H
#define FRAMED_SINK_RECORDER_H

#include "daemon/base/failure.h"
#include "daemon/frame/flow.h"
#include "daemon/sink/sink.h"

struct recorder;

struct recorder_setup {
  const struct config_pipeline *config;      /* outlives it */
  const struct frame_format *input, *output; /* of the pipeline; `output` is copied */
  struct lane *lane;
  struct mailbox *control;
  void (*stopped)(void *context); /* runs on the control loop */
  void *context;
};

/* The memory that the recorder of a pipeline takes for frames of that size. */
size_t recorder_bytes(const struct config_pipeline *config, size_t frame_bytes);
/* Set-up thread; takes all memory. NULL on error. */
struct recorder *recorder_new(const struct recorder_setup *setup, struct failure *failure);
struct recorder *
recorder_free(struct recorder *recorder); /* after `stopped`, or before the start; NULL is fine; returns NULL */
struct tap *recorder_tap(struct recorder *recorder);

/* -- control loop -------------------------------------------------------------------------------------------------- */

/* The sink is its alone. */
void recorder_start(struct recorder *recorder, struct sink *sink);
/* Something was seen now. */
void recorder_note_event(struct recorder *recorder);
/* While no lane runs: what is wanted is written at once, as far as there is time for it. Returns how many frames were not. */
uint64_t recorder_flush(struct recorder *recorder);
/* After the flow's session has stopped: what is wanted is still written; then `stopped`. */
void recorder_stop(struct recorder *recorder);
struct recorder_view {
  uint64_t missed;        /* frames that found the memory full, */
  uint64_t emitted, lost; /* and those that the sink wrote and could not write */
};
/* So far. Any thread. */
void recorder_read(const struct recorder *recorder, struct recorder_view *view);

#endif
