/*
 * A server and pipelines that only pretend: they stand in for daemon/server/server.c and daemon/pipeline/pipeline.c where
 * status, metrics and HTTP are tested or fuzzed. A test sets what is to be read and sees what was asked.
 */
#ifndef FRAMED_TESTS_FAKE_SERVER_H
#define FRAMED_TESTS_FAKE_SERVER_H

#include "daemon/frame/trace_ring.h"
#include "daemon/status/status_ops.h"

enum { FAKE_PIPELINES = 2, FAKE_PENDING = 64 };

struct pipeline {
  struct pipeline_snapshot snapshot;
  const struct config_pipeline *config;
  struct past past;
  struct trace_ring *ring; /* of its one session, from the first pipeline_trace() on */
  bool traced;             /* between pipeline_trace() and pipeline_trace_end() */
};

struct fake_pending {
  server_answer *answer;
  void *context;
};

struct server {
  struct status_ops ops;
  uv_loop_t loop;
  struct config config;
  struct config_pipeline entries[FAKE_PIPELINES];
  struct server_view view;
  struct pipeline pipelines[FAKE_PIPELINES];

  bool answer_later; /* keep a command's answer until fake_server_answer() */
  struct fake_pending pending[FAKE_PENDING];
  unsigned pending_count;
  struct trace_order traces[FAKE_PENDING]; /* likewise */
  unsigned traces_pending;
  int64_t trace_ns;      /* of the last one */
  unsigned trace_frames; /* that each trace holds */
  bool silent;           /* a pipeline does not do its job */
  bool ill;              /* what health says */
  unsigned live_viewers, live_pictures;
  unsigned reloads, upgrades, commands, traced; /* asked so far */
  char command_pipeline[80];                    /* of the last one */
  enum pipeline_command command;
};

/* Two pipelines: cam0, which moves frames, from a socket to a socket; idle, a reply pipeline that never saw one. */
struct server *fake_server_new(void);
/* Closes the loop, which must be empty; gives false if a handle was left. */
bool fake_server_free(struct server *server);
/* Adds so many values of this length to a view. */
void fake_record(struct histogram_view *view, int64_t ns, unsigned times);
/* Answers everything that waits: commands with {"ok": true}, traces with one of `trace_frames` frames. */
void fake_server_answer(struct server *server);

#endif
