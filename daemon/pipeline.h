/*
 * A pipeline: what one entry of the configuration describes, while it runs. It belongs to the control loop.
 *
 * It opens and closes every descriptor (listeners, connections, files) and hands them to its sessions and sink,
 * which live on lanes; it learns by their events. States: starting (set-up thread), running, paused, draining,
 * drained, stopping, stopped.
 */
#ifndef FRAMED_DAEMON_PIPELINE_H
#define FRAMED_DAEMON_PIPELINE_H

#include "daemon/session.h"
#include "daemon/sink.h"

enum pipeline_state {
  PIPELINE_STARTING,
  PIPELINE_RUNNING,
  PIPELINE_PAUSED,
  PIPELINE_DRAINING,
  PIPELINE_DRAINED,
  PIPELINE_STOPPING,
  PIPELINE_STOPPED
};

extern const char *const pipeline_state_names[];

struct pipeline;

/* What status and metrics say of a pipeline: taken at one moment, balanced, plain data. */
struct pipeline_snapshot {
  const char *name;
  enum pipeline_state state;
  unsigned sessions; /* producers connected */
  unsigned clients;  /* producers allowed */
  unsigned readers;
  uint64_t missed;              /* whole results that readers missed, ended readers included */
  enum session_waiting waiting; /* of the session that waits longest in the road: reader before gpu before source */
  uint64_t refused;             /* clients turned away */
  struct ledger ledger;
  double seconds; /* length of the window behind the next lines, up to 10 s */
  double fps, in_bytes_per_s, out_bytes_per_s;
  struct histogram_summary latency[STEP_COUNT]; /* over the window */
  struct histogram_view cumulative[STEP_COUNT]; /* since the start */
  char input[FORMAT_TEXT], output[FORMAT_TEXT]; /* formats */
  size_t input_bytes, output_bytes;             /* of one frame, of one result */
};

/* Fills `snapshot` (large: allocate it). Control loop only. */
void pipeline_snapshot(struct pipeline *pipeline, struct pipeline_snapshot *snapshot);

#endif
