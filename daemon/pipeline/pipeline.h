/*
 * pipeline/: one entry of the configuration while it runs.
 *
 * A pipeline belongs to the control loop. It opens and closes every descriptor (listeners, connections, files). It hands them
 * to its sessions and its sink, which run on lanes and report by events. states.c has the table of its states.
 */
#ifndef FRAMED_PIPELINE_PIPELINE_H
#define FRAMED_PIPELINE_PIPELINE_H

#include "daemon/base/answer.h"
#include "daemon/camera/status.h"
#include "daemon/client/peer.h"
#include "daemon/client/quota.h"
#include "daemon/client/refusals.h"
#include "daemon/device/device.h"
#include "daemon/measure/diagnosis.h"
#include "daemon/measure/health.h"
#include "daemon/measure/links.h"
#include "daemon/measure/past.h"
#include "daemon/pipeline/engine.h"
#include "daemon/session/session.h"
#include "daemon/sink/sink.h"

enum pipeline_state {
  PIPELINE_STARTING,
  PIPELINE_RUNNING,
  PIPELINE_PAUSED,
  PIPELINE_DRAINING,
  PIPELINE_DRAINED,
  PIPELINE_FAILED,  /* its frames made workers fail too often; it accepts none until it is resumed */
  PIPELINE_WAITING, /* the machine lacks something, and the start is tried again: see waiting.c */
  PIPELINE_STOPPING,
  PIPELINE_STOPPED
};

extern const char *const pipeline_state_names[];

struct listener;
struct pipeline;

/* -- life ----------------------------------------------------------------------------------------------------- */

enum pipeline_event {
  PIPELINE_QUIET,   /* after pipeline_quiesce(): no frame is in flight */
  PIPELINE_GONE,    /* after pipeline_stop(): it may be released */
  PIPELINE_ENDED,   /* see pipeline_has_ended() */
  PIPELINE_RESTAGED /* after pipeline_restage(): frames run through the new stages */
};

typedef void pipeline_listener(void *context, struct pipeline *pipeline, enum pipeline_event event);

struct pipeline_setup {
  uv_loop_t *loop;
  struct mailbox *control;
  struct engine *engine;
  struct quota *quota;
  struct cameras *cameras;
  int64_t gpu_timeout_ns;
  pipeline_listener *listener;
  void *context;
};

/* Negotiates the formats and chooses the lanes. `config` outlives the pipeline, `setup` is copied. NULL on error. */
struct pipeline *pipeline_new(const struct pipeline_setup *setup, const struct config_pipeline *config,
                              struct failure *failure);

/* The parts that this pipeline takes over from others: see pipeline_inherit(). */
struct pipeline_inheritance {
  struct pipeline *source, *sink; /* current owner of the path of this end; NULL: none */
  struct pipeline *camera;        /* may have the camera of the same URL; NULL: none */
  const struct pipeline
      /* Address of this pipeline in the previous process; NULL: a new pipeline. For pipeline_prepare() only. */
      *left;
};

/* Takes memory and devices, and opens everything that is not inherited. For a set-up thread. */
bool pipeline_prepare(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance, struct failure *failure);
/* Opens the file that another pipeline wrote to until now, and sets the access rights of inherited sockets. For a set-up
 * thread, while the other pipelines are quiet. */
bool pipeline_prepare_inherited(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance,
                                struct failure *failure);
/* Restores the access rights of its sockets to its own configuration; logs failures. */
void pipeline_restore_access(struct pipeline *pipeline);
/* After a temporary failure of pipeline_prepare(): frees its resources, and moves the pipeline to WAITING, without sessions.
 * For a set-up thread. Returns false if it cannot wait. */
bool pipeline_wait(struct pipeline *pipeline, const struct failure *failure);
/* CLOCK_MONOTONIC ns of the next try, by another pipeline of the same configuration. INT64_MAX: it does not wait. */
int64_t pipeline_next_try(const struct pipeline *pipeline);
/* Call after a failed try: waits longer. */
void pipeline_wait_longer(struct pipeline *pipeline, const struct failure *failure);
/* Tries again at the next opportunity, whatever the pause. */
void pipeline_try_soon(struct pipeline *pipeline);
/* Call after a successful try, whose pipeline starts in place of the waiting one. */
void pipeline_replace_waiting(struct pipeline *pipeline, const struct pipeline *waiting);
/* True if it continues from the previous process. */
bool pipeline_continues(const struct pipeline *pipeline);
/* The reason why it waits; "" if it does not wait. */
const char *pipeline_waits_for(const struct pipeline *pipeline);
/* Frees the resources of pipeline_prepare(). For a set-up thread, before the start or after PIPELINE_GONE. */
void pipeline_release(struct pipeline *pipeline);
/* Call after pipeline_release(). Accepts NULL; returns NULL. */
struct pipeline *pipeline_free(struct pipeline *pipeline);

/* Takes over the listeners, before the start. */
void pipeline_inherit(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance);
/* A WAITING pipeline stays WAITING. */
bool pipeline_start(struct pipeline *pipeline, struct failure *failure);
/* True if a pipeline that could not start may be tried again, and stays as it is until then. */
bool pipeline_may_start_later(const struct pipeline *pipeline);
/* Accepts no more producers and frames. PIPELINE_QUIET follows once nothing is in flight, and pipeline_unquiesce() may undo it.
 * With `for_good` its source socket is closed at once, and PIPELINE_GONE follows instead. */
void pipeline_quiesce(struct pipeline *pipeline, bool for_good);
/* Like pipeline_quiesce(), before another process takes over: partly received frames stay. PIPELINE_QUIET follows. */
void pipeline_quiesce_to_leave(struct pipeline *pipeline);
/* True if PIPELINE_QUIET was reported. */
bool pipeline_is_quiet(const struct pipeline *pipeline);
void pipeline_unquiesce(struct pipeline *pipeline);
/* Ends it now. Frames in flight get the fate `shutdown`. PIPELINE_GONE follows. */
void pipeline_stop(struct pipeline *pipeline);
/* Closes its sockets and removes their files, if the device failed and nothing may wait. */
void pipeline_abandon(struct pipeline *pipeline);

/* -- replacing the stages ---------------------------------------------------------------------------------------------- */

/* Prepares to replace the stages by those of this configuration, which outlives the pipeline and differs in nothing else.
 * Returns false if input or output would change. After true, call pipeline_end_restage() at the end. */
bool pipeline_begin_restage(struct pipeline *pipeline, const struct config_pipeline *config);
/* True if the next step may be done; call again if not. */
bool pipeline_may_restage(struct pipeline *pipeline);
/* Makes the programs of the new stages next to the running ones. For a set-up thread. */
bool pipeline_prepare_restage(struct pipeline *pipeline, struct failure *failure);
/* Every session switches to the new stages once none of its frames is on the device. PIPELINE_RESTAGED follows. */
void pipeline_restage(struct pipeline *pipeline);
bool pipeline_is_restaged(const struct pipeline *pipeline);
/* Frees the stages that are not in force, after any step. For a set-up thread; then call pipeline_end_restage(). */
void pipeline_release_restage(struct pipeline *pipeline);
void pipeline_end_restage(struct pipeline *pipeline);

/* -- over the end of a process, while no lane runs ------------------------------------------------------------------- */

/* Marks its frames on the device and returns their number: see session_suspect(). */
unsigned pipeline_suspect(struct pipeline *pipeline, unsigned device, bool failed, bool alone);
/* The session that has the oldest frame on that device, if the frame was there before `since`, which is set to its time; NULL.
 */
const struct session *pipeline_oldest_on(const struct pipeline *pipeline, unsigned device, int64_t *since);
/* Calls session_rewind() for its sessions, while lanes are parked. */
bool pipeline_rewind(struct pipeline *pipeline, unsigned device, struct failure *failure);
/* After that, when lanes run: logs the dropped frames, and fails the pipeline if there were too many. */
void pipeline_finish_rewind(struct pipeline *pipeline);
/* True if the pipeline can be handed over: it was not ordered to stop, or the next process will stop it again
 * (`stops_again`). */
bool pipeline_may_be_handed_over(const struct pipeline *pipeline, bool stops_again);
/* Before a handover, while no lane runs: the recording gets its file back, so that it can write the remaining frames. */
void pipeline_recall_recording(struct pipeline *pipeline);
/* Passes its descriptors to the next process. `live`: in case this one is killed. `program`: to another image of this process.
 */
void pipeline_keep(struct pipeline *pipeline, bool program, bool live);
/* Appends the files of its stages to a list, like kept_list(). */
unsigned pipeline_files(const struct pipeline *pipeline, struct kept_file *list, unsigned count, unsigned most);

/* -- commands ------------------------------------------------------------------------------------------------- */

enum pipeline_command { PIPELINE_COMMAND_PAUSE, PIPELINE_COMMAND_RESUME, PIPELINE_COMMAND_DRAIN, PIPELINE_COMMAND_RECORD };
extern const char *const pipeline_command_names[];
/* `limit_ns` is for DRAIN. */
void pipeline_command(struct pipeline *pipeline, enum pipeline_command command, int64_t limit_ns, server_answer *answer,
                      void *context);

/* Stores a link's status report. */
void pipeline_report_link(struct pipeline *pipeline, enum link_role role, const struct link_state *state);

/* The listeners of its ends that are sockets; else NULL. */
struct listener *pipeline_source_listener(const struct pipeline *pipeline);
struct listener *pipeline_sink_listener(const struct pipeline *pipeline);

/* -- queries -------------------------------------------------------------------------------------------------- */

const struct config_pipeline *pipeline_config(const struct pipeline *pipeline);
/* The configuration of its stages, which is newer than pipeline_config() once they were replaced. */
const struct config_pipeline *pipeline_stages_config(const struct pipeline *pipeline);
enum pipeline_state pipeline_state(const struct pipeline *pipeline);
/* The state that status shows: WAITING also while its file or that of its recording cannot be opened. */
enum pipeline_state pipeline_shown_state(const struct pipeline *pipeline);
uint64_t pipeline_result_bytes_in_file(const struct pipeline *pipeline);
/* True if no frame can ever pass again: its input file has ended, or nobody reads standard output. */
bool pipeline_has_ended(const struct pipeline *pipeline);
/* Path of a file of which a request has been under way since before that time (CLOCK_MONOTONIC ns); NULL: none. Not while
 * another thread prepares the pipeline. */
const char *pipeline_awaited_file(const struct pipeline *pipeline, int64_t before);
/* The pipeline's frames on that device (NO_DEVICE: on all). */
void pipeline_work(const struct pipeline *pipeline, unsigned device, struct health_work *work);
/* The devices of this producer's session. */
const struct engine_placement *pipeline_placement_of(const struct pipeline *pipeline, unsigned producer);
/* The current troubles of the pipeline with their reasons. Returns their number. */
enum { PIPELINE_TROUBLES = 6 + LINK_ROLES };
struct pipeline_trouble {
  enum health_reason reason;
  const struct trouble *trouble; /* owned by the pipeline */
};
unsigned pipeline_troubles(struct pipeline *pipeline, struct pipeline_trouble troubles[PIPELINE_TROUBLES]);
/* For example "in 10 = emitted 9 + in flight 0 + dropped 1 (late 1)", sums since its start. */
enum { PIPELINE_ACCOUNT = 512 };
const char *pipeline_account(const struct pipeline *pipeline, char text[PIPELINE_ACCOUNT]);
/* Logs the account, once. A pipeline that stops calls this itself. */
void pipeline_log_account(struct pipeline *pipeline);
/* Takes a reading for rates and latencies. Call every METER_INTERVAL_MS. */
void pipeline_tick(struct pipeline *pipeline);
/* Checks whether its sink's path still names the open file. */
void pipeline_check_file(struct pipeline *pipeline);

unsigned pipeline_clients(const struct pipeline *pipeline); /* connected producers and readers */
unsigned pipeline_seats(const struct pipeline *pipeline);   /* number of its sessions */
/* The past ten minutes. */
const struct past *pipeline_past(const struct pipeline *pipeline);
/* Requests a copy of the next result of that producer's session; the caller holds it. NULL with a reason: frames of that format
 * cannot be shown. NULL without one: no memory. pipeline_end_picture() withdraws a pending request. */
struct picture *pipeline_request_picture(struct pipeline *pipeline, unsigned producer, enum picture_side side,
                                         const char **reason);
void pipeline_end_picture(struct pipeline *pipeline, unsigned producer, enum picture_side side);
/* See session_trace(). */
struct trace_ring *pipeline_trace(struct pipeline *pipeline, unsigned producer, unsigned frames);
/* frames are copied by kernels and not by the device's copy engines */
bool pipeline_copies_by_kernel(const struct pipeline *pipeline);
void pipeline_trace_end(struct pipeline *pipeline, unsigned producer);

/* A connected client. */
enum { PIPELINE_LISTED = 64 };
struct pipeline_client {
  bool reads; /* a reader; else a producer, also if it gets replies */
  pid_t pid;
  uid_t uid;
  char process[PEER_PROCESS];
  int64_t since;           /* CLOCK_MONOTONIC ns */
  uint64_t frames, missed; /* frames it sent or results it took, and whole results it missed */
  const char *waiting;     /* what it waits for, or "nothing" */
  uint64_t devices;        /* producers: a bit for each device of its session */
};

/* Values for status and metrics: from one moment, balanced, plain data. */
struct pipeline_snapshot {
  const char *name;
  enum pipeline_state state;
  const char *waits_for; /* WAITING: what the machine lacks; else "" */
  unsigned sessions;     /* connected producers */
  unsigned clients;      /* allowed producers */
  uint64_t devices;      /* a bit for each device of its sessions */
  unsigned listed;       /* entries of `list` */
  struct pipeline_client list[PIPELINE_LISTED];
  unsigned readers;
  uint64_t missed; /* whole results that readers missed, with readers that left */
  bool not_read;   /* a client does not read its results: see struct session_view */
  /* For the session that waits furthest downstream: reader before gpu before source. */
  enum session_waiting waiting;
  int64_t last_in, last_out;                                     /* CLOCK_MONOTONIC ns of the last frame in and out; 0: never */
  const struct trouble *silence;                                 /* no frame comes although one is expected */
  const struct trouble *trouble, *source_trouble, *sink_trouble; /* its last errors; NULL, or a count of 0: none */
  struct links links;
  bool has_camera; /* its source is a URL, whose process was started */
  struct camera_view camera;
  pid_t camera_pid;       /* 0: no process at the moment */
  uint64_t refused;       /* clients refused */
  struct refusal refusal; /* the last refusal */
  struct ledger ledger;
  uint64_t lately[FATE_COUNT]; /* frames by fate within the last minute */
  double seconds;              /* length of the window of the following values, up to 10 s */
  double in_fps, out_fps, in_bytes_per_s, out_bytes_per_s;
  unsigned slots;                               /* of each session */
  bool graph;                                   /* frames are replayed from CUDA graphs */
  bool copies, copies_by_kernel;                /* frames are copied to a device and back; by kernels and not by copy engines */
  unsigned timed_one_in;                        /* one frame in this many has device times */
  struct diagnosis diagnosis;                   /* of the window */
  double busy_s;                                /* seconds with frames on the device since the start, summed over sessions */
  struct histogram_summary latency[STEP_COUNT]; /* in the window */
  struct histogram_view cumulative[STEP_COUNT]; /* since the start */
  char input[FORMAT_TEXT], output[FORMAT_TEXT]; /* formats */
  size_t input_bytes, output_bytes;             /* of one frame, of one result */
  const char *model;                            /* file of its model; NULL: none */
  unsigned instances;                           /* instances of the model */
  uint64_t served[MODEL_MOST_INSTANCES];        /* frames of each instance, for all pipelines that use it */
  unsigned most_batched;                        /* frames of one batch; 0: no batches */
  uint64_t batches[MODEL_MOST_BATCH]; /* batches with one frame, two frames and so on, for all pipelines that use it */
};

/* Fills `snapshot`, which is large, so allocate it. Control loop only. */
void pipeline_snapshot(struct pipeline *pipeline, struct pipeline_snapshot *snapshot);

#endif
