/*
 * pipeline/: one entry of the configuration while it runs.
 *
 * A pipeline: what one entry of the configuration describes, while it runs. It belongs to the control loop.
 *
 * It opens and closes every descriptor (listeners, connections, files) and hands them to its sessions and sink,
 * which live on lanes; the pipeline learns by their events. The table of its states is in states.c.
 */
#ifndef FRAMED_PIPELINE_PIPELINE_H
#define FRAMED_PIPELINE_PIPELINE_H

#include "daemon/base/answer.h"
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
  PIPELINE_FAILED,  /* its frames made workers fail too often: it takes none until it is resumed */
  PIPELINE_WAITING, /* the machine lacks something that it needs, which is tried again and again: see waiting.c */
  PIPELINE_STOPPING,
  PIPELINE_STOPPED
};

extern const char *const pipeline_state_names[];

struct listener;
struct pipeline;

/* -- life ----------------------------------------------------------------------------------------------------- */

enum pipeline_event {
  PIPELINE_QUIET,    /* after pipeline_quiesce(): nothing is in flight */
  PIPELINE_GONE,     /* after pipeline_stop(): it may be released */
  PIPELINE_ENDED,    /* see pipeline_has_ended() */
  PIPELINE_RESTAGED, /* after pipeline_restage(): its frames go through the other stages */
  PIPELINE_GPU_FAULT /* its device is dead; `fault` says how, and is NULL for others */
};

typedef void pipeline_listener(void *context, struct pipeline *pipeline, enum pipeline_event event, const struct fault *fault);

struct pipeline_setup {
  uv_loop_t *loop;
  struct mailbox *control;
  struct engine *engine;
  struct quota *quota;
  int64_t gpu_timeout_ns;
  pipeline_listener *listener;
  void *context;
};

/* Negotiates the formats and chooses the lanes. `config` outlives the pipeline, `setup` is copied. NULL on error. */
struct pipeline *pipeline_new(const struct pipeline_setup *setup, const struct config_pipeline *config,
                              struct failure *failure);

/* What another pipeline still has and hands over later: see pipeline_inherit(). */
struct pipeline_inheritance {
  struct pipeline *source, *sink; /* who has the path of this end; NULL: nobody */
  const struct pipeline
      *left; /* where it lay in the process before, which left it; NULL: nowhere. Only for pipeline_prepare() */
};

/* Takes memory and device and opens everything that is not inherited. Set-up thread. */
bool pipeline_prepare(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance, struct failure *failure);
/* Opens the file that another one wrote to until now, and gives inherited sockets their new access rights. Set-up thread,
 * while the others are quiet. */
bool pipeline_prepare_inherited(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance,
                                struct failure *failure);
/* Gives its sockets back the access rights of its own configuration; the log says where that fails. */
void pipeline_restore_access(struct pipeline *pipeline);
/* After a pipeline_prepare() that failed with what the machine may cure: gives back what that took. The pipeline is WAITING,
 * and has no sessions. Set-up thread. False: it cannot wait. */
bool pipeline_wait(struct pipeline *pipeline, const struct failure *failure);
/* When the machine should be tried again, by another pipeline of the same configuration: CLOCK_MONOTONIC ns. INT64_MAX: it does
 * not wait. */
int64_t pipeline_next_try(const struct pipeline *pipeline);
/* That has failed. */
void pipeline_wait_on(struct pipeline *pipeline, const struct failure *failure);
/* At the next moment, whatever the pause. */
void pipeline_try_soon(struct pipeline *pipeline);
/* That is prepared, and starts in the place of the one that waited. */
void pipeline_replace_waiting(struct pipeline *pipeline, const struct pipeline *waiting);
/* Whether it goes on from where the process before left it. */
bool pipeline_continues(const struct pipeline *pipeline);
/* What it waits for; "" if it does not. */
const char *pipeline_waits_for(const struct pipeline *pipeline);
/* Gives back what pipeline_prepare() took. Set-up thread, before the start or after PIPELINE_GONE. */
void pipeline_release(struct pipeline *pipeline);
/* After pipeline_release(). NULL is fine; returns NULL. */
struct pipeline *pipeline_free(struct pipeline *pipeline);

/* Takes over the listeners, before the start. */
void pipeline_inherit(struct pipeline *pipeline, const struct pipeline_inheritance *inheritance);
/* One that waits goes on waiting. */
bool pipeline_start(struct pipeline *pipeline, struct failure *failure);
/* Whether a pipeline that could not start may be tried again, and stays as it is until then. */
bool pipeline_may_start_later(const struct pipeline *pipeline);
/* Takes no more producers and frames; PIPELINE_QUIET follows once nothing is in flight. With `for_good` its source socket
 * goes at once, and PIPELINE_GONE follows instead; otherwise pipeline_unquiesce() may take it all back. */
void pipeline_quiesce(struct pipeline *pipeline, bool for_good);
/* The same for an end that another process follows: frames of which only a part has come stay. PIPELINE_QUIET follows. */
void pipeline_quiesce_to_leave(struct pipeline *pipeline);
/* Whether PIPELINE_QUIET was told. */
bool pipeline_is_quiet(const struct pipeline *pipeline);
void pipeline_unquiesce(struct pipeline *pipeline);
/* Ends it now; what is in flight gets the fate `shutdown`. PIPELINE_GONE follows. */
void pipeline_stop(struct pipeline *pipeline);
/* Closes its sockets and removes their files, where the device is dead and nobody may wait for it. */
void pipeline_abandon(struct pipeline *pipeline);

/* -- other stages in place --------------------------------------------------------------------------------------------- */

/* Whether the pipeline can go on with the stages of this configuration, which outlives it and differs in nothing else: what
 * comes in and goes out is the same. If so, pipeline_end_restage() ends what this began. */
bool pipeline_begin_restage(struct pipeline *pipeline, const struct config_pipeline *config);
/* Whether the next can be done; it may be asked again. */
bool pipeline_may_restage(struct pipeline *pipeline);
/* Makes the programs of the other stages beside those that run. Set-up thread. */
bool pipeline_prepare_restage(struct pipeline *pipeline, struct failure *failure);
/* Has every session go on with them as soon as no frame of its is on the device. PIPELINE_RESTAGED follows. */
void pipeline_restage(struct pipeline *pipeline);
bool pipeline_is_restaged(const struct pipeline *pipeline);
/* Gives back what the stages took that are not in force, from whichever step. Set-up thread; then pipeline_end_restage(). */
void pipeline_release_restage(struct pipeline *pipeline);
void pipeline_end_restage(struct pipeline *pipeline);

/* -- over the end of a process, while no lane runs ------------------------------------------------------------------- */

/* What is said of its frames that are on devices, and how many these are: see session_suspect(). */
unsigned pipeline_suspect(struct pipeline *pipeline, unsigned device, bool failed, bool alone);
/* The same for session_rewind(), while lanes stand still. */
bool pipeline_rewind(struct pipeline *pipeline, unsigned device, struct failure *failure);
/* Afterwards, when lanes run: says what that has cost, and takes no more frames if it was too much. */
void pipeline_judge_rewind(struct pipeline *pipeline);
/* Whether the pipeline may be handed over: it was not told to stop, or whoever takes it will tell it again. */
bool pipeline_may_be_put(const struct pipeline *pipeline, bool stops_again);
/* Before a hand-over, while no lane runs: the recording gets back its file, so that it takes what is still to be written. */
void pipeline_recall_recording(struct pipeline *pipeline);
/* Has the next process get its descriptors; `live`: should this one be killed. */
void pipeline_keep(struct pipeline *pipeline, bool live);
/* Adds the files that its stages were prepared from to a list as kept_list() does. */
unsigned pipeline_files(const struct pipeline *pipeline, struct kept_file *list, unsigned count, unsigned most);

/* -- commands ------------------------------------------------------------------------------------------------- */

enum pipeline_command { PIPELINE_COMMAND_PAUSE, PIPELINE_COMMAND_RESUME, PIPELINE_COMMAND_DRAIN, PIPELINE_COMMAND_RECORD };
extern const char *const pipeline_command_names[];
/* `limit_ns` is for DRAIN. */
void pipeline_command(struct pipeline *pipeline, enum pipeline_command command, int64_t limit_ns, server_answer *answer,
                      void *context);

/* What a link says of itself. */
void pipeline_hear_link(struct pipeline *pipeline, enum link_role role, const struct link_state *state);

/* Of its ends that are sockets; else NULL. */
struct listener *pipeline_source_listener(const struct pipeline *pipeline);
struct listener *pipeline_sink_listener(const struct pipeline *pipeline);

/* -- questions ------------------------------------------------------------------------------------------------ */

const struct config_pipeline *pipeline_config(const struct pipeline *pipeline);
/* The one that its stages are of, which is a newer one once they took the place of others. */
const struct config_pipeline *pipeline_stages_config(const struct pipeline *pipeline);
enum pipeline_state pipeline_state(const struct pipeline *pipeline);
/* What is said of it outside: it also waits while its file, or that of its recording, cannot be opened. */
enum pipeline_state pipeline_shown_state(const struct pipeline *pipeline);
uint64_t pipeline_result_bytes_in_file(const struct pipeline *pipeline);
/* No frame will ever come through again: its file or standard input is at its end, or nobody reads standard output. */
bool pipeline_has_ended(const struct pipeline *pipeline);
/* The path of a file of its that was asked for something before that time (CLOCK_MONOTONIC ns) and has not answered; or NULL.
 * Not while it is prepared by another thread. */
const char *pipeline_awaited_file(const struct pipeline *pipeline, int64_t before);
/* What the pipeline has on that device (NO_DEVICE: on all of them). */
void pipeline_work(const struct pipeline *pipeline, unsigned device, struct health_work *work);
/* The devices that the producer's session is on. */
const struct engine_place *pipeline_place_of(const struct pipeline *pipeline, unsigned producer);
/* What keeps it from its job, each with its reason. Returns how many there are. */
enum { PIPELINE_TROUBLES = 5 + LINK_ROLES };
struct pipeline_trouble {
  enum health_reason reason;
  const struct trouble *trouble; /* the pipeline's */
};
unsigned pipeline_troubles(struct pipeline *pipeline, struct pipeline_trouble troubles[PIPELINE_TROUBLES]);
/* Text of the form "in 10 = emitted 9 + in flight 0 + dropped 1 (late 1)", sums since its start. */
enum { PIPELINE_ACCOUNT = 512 };
const char *pipeline_account(const struct pipeline *pipeline, char text[PIPELINE_ACCOUNT]);
/* Writes it to the log, once. A pipeline that stops does so by itself. */
void pipeline_log_account(struct pipeline *pipeline);
/* Keeps a reading for the rates of the next ten seconds; called every METER_INTERVAL_MS. */
void pipeline_tick(struct pipeline *pipeline);
/* Looks whether the file of its sink is still the one of that name. */
void pipeline_look_at_file(struct pipeline *pipeline);

unsigned pipeline_clients(const struct pipeline *pipeline); /* producers and readers that are connected */
unsigned pipeline_seats(const struct pipeline *pipeline);   /* sessions */
/* The past ten minutes of the pipeline. */
const struct past *pipeline_past(const struct pipeline *pipeline);
/* Asks for a picture of the next result of that producer's session, which the caller holds. NULL with a reason: its frames are
 * no pictures; without one: no memory. pipeline_end_picture() takes it down if it still waits. */
struct picture *pipeline_ask_picture(struct pipeline *pipeline, unsigned producer, enum picture_side side, const char **reason);
void pipeline_end_picture(struct pipeline *pipeline, unsigned producer, enum picture_side side);
/* See session_trace(). */
struct trace_ring *pipeline_trace(struct pipeline *pipeline, unsigned producer, unsigned frames);
bool pipeline_copies_by_kernel(const struct pipeline *pipeline); /* frames, and not by the device's copy engines */
void pipeline_trace_end(struct pipeline *pipeline, unsigned producer);

/* Who is connected to the pipeline. */
enum { PIPELINE_LISTED = 64 };
struct pipeline_client {
  bool reads; /* or produces; one that is replied to does both and counts as a producer */
  pid_t pid;
  uid_t uid;
  char process[PEER_PROCESS];
  int64_t since;           /* CLOCK_MONOTONIC ns */
  uint64_t frames, missed; /* that it sent, or results that it took; and whole results that it missed */
  const char *waiting;     /* what it waits for, or "nothing" */
  uint64_t devices;        /* producers: a bit for each that its session is on */
};
/* Lists the first so many; returns how many these are. */
unsigned pipeline_list(const struct pipeline *pipeline, struct pipeline_client list[PIPELINE_LISTED]);

/* What status and metrics say of a pipeline: taken at one moment, balanced, plain data. */
struct pipeline_snapshot {
  const char *name;
  enum pipeline_state state;
  const char *waits_for; /* WAITING: what the machine lacks; else "" */
  unsigned sessions;     /* producers connected */
  unsigned clients;      /* producers allowed */
  uint64_t devices;      /* a bit for each that sessions are on */
  unsigned listed;       /* of all clients */
  struct pipeline_client list[PIPELINE_LISTED];
  unsigned readers;
  uint64_t missed;               /* whole results that readers missed, ended readers included */
  bool not_read;                 /* a client does not take its results: see struct session_view */
  enum session_waiting waiting;  /* of the session that waits furthest down the flow: reader before gpu before source */
  int64_t last_in, last_out;     /* when a frame last came, and when one went out: CLOCK_MONOTONIC ns; 0: never */
  const struct trouble *silence; /* no frame comes, and one should */
  const struct trouble *trouble, *source_trouble, *sink_trouble; /* its last errors; NULL, or with a count of 0: none */
  struct links links;
  uint64_t refused;       /* clients turned away, */
  struct refusal refusal; /* and the last of them */
  struct ledger ledger;
  uint64_t lately[FATE_COUNT]; /* frames with each fate within the last minute */
  double seconds;              /* length of the window behind the next lines, up to 10 s */
  double in_fps, out_fps, in_bytes_per_s, out_bytes_per_s;
  unsigned slots;                               /* of each session */
  bool graph;                                   /* frames are replayed from CUDA graphs */
  bool copies, copies_by_kernel;                /* to a device and back; by kernels of these graphs, and not by engines */
  unsigned timed_one_in;                        /* one frame in so many has the times of its steps on the device */
  struct diagnosis diagnosis;                   /* of the window */
  double busy_s;                                /* with frames on the device since the start; of all sessions the sum */
  struct histogram_summary latency[STEP_COUNT]; /* over the window */
  struct histogram_view cumulative[STEP_COUNT]; /* since the start */
  char input[FORMAT_TEXT], output[FORMAT_TEXT]; /* formats */
  size_t input_bytes, output_bytes;             /* of one frame, of one result */
  const char *model;                            /* the file of its model; NULL: it runs none */
  unsigned instances;                           /* of that, */
  uint64_t served[MODEL_MOST_INSTANCES];        /* and the frames of each, with all pipelines that run it */
  unsigned most_batched;                        /* frames that it may take at once; 0: it takes each by itself */
  uint64_t batches[MODEL_MOST_BATCH];           /* with one frame, with two ..., of all pipelines that run it */
};

/* Fills `snapshot` (large: allocate it). Control loop only. */
void pipeline_snapshot(struct pipeline *pipeline, struct pipeline_snapshot *snapshot);

#endif
