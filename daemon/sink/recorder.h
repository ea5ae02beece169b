/*
 * Records incoming frames: a ring in memory copies each frame, and the frames to be kept go to a file sink in segments. It
 * never delays a frame. If the ring is full of frames that are still to be written, the new frame is not recorded and counted
 * as missed.
 *
 * It runs on the lane of its session, whose flow it taps, and that is also the lane of its sink. The sink gets the recorded
 * frames from a flow of the recorder. It ends with its process; the next process begins a new segment.
 */
#ifndef FRAMED_SINK_RECORDER_H
#define FRAMED_SINK_RECORDER_H

#include "daemon/base/failure.h"
#include "daemon/frame/flow.h"
#include "daemon/sink/sink.h"

struct recorder;

struct recorder_setup {
  const struct config_pipeline *config;      /* outlives the recorder */
  const struct frame_format *input, *output; /* formats of the pipeline; `output` is copied */
  struct lane *lane;
  struct mailbox *control;
  void (*stopped)(void *context); /* runs on the control loop */
  void *context;
};

/* Bytes that the recorder of a pipeline takes for frames of that size. */
size_t recorder_bytes(const struct config_pipeline *config, size_t frame_bytes);
/* For a set-up thread; allocates all memory. NULL on error. */
struct recorder *recorder_new(const struct recorder_setup *setup, struct failure *failure);
struct recorder *
recorder_free(struct recorder *recorder); /* after `stopped`, or before the start; accepts NULL; returns NULL */
struct tap *recorder_tap(struct recorder *recorder);

/* -- control loop -------------------------------------------------------------------------------------------------- */

/* No other flow may use the sink. */
void recorder_start(struct recorder *recorder, struct sink *sink);
/* An event to record happens now. */
void recorder_note_event(struct recorder *recorder);
/* While no lane runs: writes the frames to be kept, within a time limit. Returns how many were not written. */
uint64_t recorder_flush(struct recorder *recorder);
/* Call after the flow's session has stopped. Writes the frames to be kept, then calls `stopped`. */
void recorder_stop(struct recorder *recorder);
struct recorder_view {
  uint64_t missed;        /* frames that found the ring full */
  uint64_t emitted, lost; /* frames that the sink wrote, and could not write */
};
/* [any thread] The counts so far. */
void recorder_read(const struct recorder *recorder, struct recorder_view *view);

#endif
