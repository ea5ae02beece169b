/*
 * Shared by the files of a pipeline; each file uses those named earlier.
 *
 * The engine: engine.c, engine_devices.c, engine_placement.c. The source side: inputs.c (life and orders), inputs_events.c
 * (events of sessions), inputs_file.c (producers that are files), inputs_camera.c (cameras), inputs_admit.c (admitting
 * producers), inputs_image.c (takeover). The sink side: outputs.c (life, FIFOs), outputs_late.c (files that cannot be opened
 * yet), outputs_files.c (regular files), outputs_readers.c (readers that connect), outputs_image.c (takeover).
 *
 * The pipeline: questions.c and snapshot.c answer queries, watch.c follows errors, states.c has the state table, image.c the
 * takeover. run.c has its events and its life, commands.c the commands, restage.c replaces stages, pipeline.c takes and frees
 * resources.
 */
#ifndef FRAMED_PIPELINE_PRIVATE_H
#define FRAMED_PIPELINE_PRIVATE_H

#include "daemon/base/loop.h"
#include "daemon/camera/camera.h"
#include "daemon/client/acceptor.h"
#include "daemon/client/endpoint.h"
#include "daemon/client/handshake.h"
#include "daemon/client/producer.h"
#include "daemon/frame/arena.h"
#include "daemon/measure/meter.h"
#include "daemon/measure/past.h"
#include "daemon/pipeline/engine.h"
#include "daemon/pipeline/inputs.h"
#include "daemon/pipeline/outputs.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/sink/recorder.h"
#include "daemon/sink/segments.h"

/* == the engine ===================================================================================================== */

struct opened {
  unsigned index;
  struct device *device;
  _Atomic int64_t completion;     /* written by the lanes */
  _Atomic int64_t slowest;        /* written by the check-up: warm-up time of the slowest session's frame */
  double served[OVERLAP_ENGINES]; /* us that its engines worked for all pipelines, until their last readings */
  _Atomic size_t load;            /* bytes per frame, summed over its sessions */
  unsigned producers;
};

struct known { /* measurements of a device */
  bool is_known;
  struct gpu_calibration calibration;
  struct device_left workers; /* for an image that follows in place */
};

struct engine {
  struct opened *devices; /* the first is gpu.device, unless that is left out */
  unsigned device_count;
  struct engine_absent absents[ENGINE_MOST_DEVICES];
  unsigned absent_count;
  struct known known[ENGINE_MOST_DEVICES]; /* by number */
  struct retry retry;
  unsigned there; /* number of existing devices, for `devices: all` */
  struct lane **lanes;
  size_t *loads; /* bytes per frame of the sessions on each lane */
  unsigned lane_count;
  struct processors processors;
  struct config_realtime realtime; /* for threads other than lanes */
  bool hurries;                    /* the service is interrupted until everything runs */
};

/* engine_devices.c */
bool engine_open_devices(struct engine *engine, const struct config *config, const struct engine *left,
                         struct failure *failure);
void engine_close_devices(struct engine *engine);
struct opened *engine_find_opened(const struct engine *engine, unsigned index); /* NULL: not opened */
/* Devices that the pipeline names, and devices that are left out, of which one may still be open; as bits. */
uint64_t engine_named_by(const struct engine *engine, const struct config_pipeline *config);
uint64_t engine_left_out(const struct engine *engine);

/* == the source side ================================================================================================ */

enum { MOST_WAITING = 64 };

struct inputs {
  uv_loop_t *loop;
  struct quota *quota;
  const struct config_pipeline *config;
  struct producer_setup producer_setup;
  struct producer *seats;
  const struct engine_placement *placements; /* devices of each seat's session */
  unsigned count;
  /* Clients that wait, in order, for a seat whose producer has hung up. */
  struct client waiting[MOST_WAITING];
  unsigned waiting_count;
  struct listener *listener;
  struct acceptor *acceptor;
  struct handshakes *handshakes; /* NULL: its producers use no handshake */
  struct native_welcome welcome;
  struct endpoint endpoint; /* an input file; owned until a session gets it */
  struct loop_watch *fifo;  /* waits for a writer */
  struct loop_timer *retry; /* tries to open a FIFO again */
  struct cameras *cameras;
  struct camera *camera;                /* of a URL, once it was started; else NULL */
  bool camera_started;                  /* by inputs_start() */
  int camera_connection;                /* of a process that another pipeline had, until the start; -1: none */
  struct camera_process camera_process; /* taken over from the image before exec, or kept for the next one */
  enum pixel_format pixels;             /* of the source */
  session_listener *listen;             /* receives events of sessions */
  void *context;                        /* its argument */
  struct refusals refusals;
  struct trouble trouble, memory; /* of its socket or file; of seats without memory: they end independently */
  bool for_readers;               /* argument of the current hold */
  bool leaves_partial;            /* partly received frames may stay */
  bool closed, ended;
  bool stops;     /* the sessions were ordered to stop */
  bool continues; /* taken over from the previous process */
  bool starts_held;
  /* The rest of this FIFO writer's bytes is discarded: see inputs_file.c. */
  bool discards;
  const struct inputs *left;                /* of the previous process; valid until the seats exist */
  const struct handshakes *left_handshakes; /* address of its handshakes */
};

/* -- inputs_image.c ------------------------------------------------------------------------------------------------ */

/* Take over the inputs of the previous process at that address, without the seats; and one seat with the address of its
 * session. Return false if they are not valid. */
bool inputs_adopt(struct inputs *inputs, const struct inputs *address);
bool inputs_adopt_seat(const struct inputs *inputs, struct producer *producer, struct session_setup *session);
/* Compares the seat's producer with its session, once that is made. Returns false if they do not match. */
bool inputs_check_seat(struct producer *producer);
/* All producers continue where the previous process stopped. */
void inputs_continue(struct inputs *inputs);

/* -- inputs_camera.c ------------------------------------------------------------------------------------------------ */

/* Starts the process, or keeps a process from before exec. */
bool inputs_start_camera(struct inputs *inputs, struct failure *failure);
void inputs_close_camera(struct inputs *inputs);
/* Passes the camera's process to the next image of the daemon; takes it over there. False: invalid. */
void inputs_keep_camera(struct inputs *inputs);
bool inputs_adopt_camera(struct inputs *inputs, const struct camera_process *left);

/* -- inputs_file.c ------------------------------------------------------------------------------------------------- */

/* Attaches the file as the producer. */
void inputs_attach_file(struct inputs *inputs);
/* Returns true if the FIFO was taken over without a writer and its path now names another FIFO, which is opened instead. */
bool inputs_follow_name(struct inputs *inputs);
/* Attaches the FIFO once it has a writer. */
bool inputs_await_writer(struct inputs *inputs, struct failure *failure);
/* Opens the FIFO for the next writer, now or as soon as that is possible. Without memory for a timer the source has ended. */
void inputs_await_next_writer(struct inputs *inputs);

/* -- inputs_admit.c --------------------------------------------------------------------------------------------- */

void inputs_attach_producer(struct inputs *inputs, struct producer *producer, const struct client *client);
/* Counts a producer that comes to the seat's devices or leaves them. */
void inputs_count_producer(struct inputs *inputs, const struct producer *producer, bool comes);
/* The protocol of this producer. */
enum config_protocol inputs_protocol(const struct inputs *inputs, const struct client *client);
/* Attaches the next waiting producer, if any, to a free seat. */
void inputs_attach_waiting(struct inputs *inputs, struct producer *producer);
/* Callbacks of the acceptor, the handshakes and a renewal of memory. */
void inputs_on_accepted(void *context, int fd, const struct peer *peer);
void inputs_on_hello(void *context, const struct client *client);
void inputs_on_renewed(void *context, struct producer *producer);

/* == the sink side ================================================================================================== */

struct reader_entry { /* one reader */
  struct reader_entry *next;
  struct reader *reader;
  pid_t pid;
  uid_t uid;
  char process[PEER_PROCESS];
  int64_t since;              /* when it connected */
  struct arena control;       /* of a reader with shared memory */
  struct quota_charge charge; /* to its user */
  /* The reader was dismissed, and may still read its control memory until this timer ends. */
  struct loop_timer *linger;
  struct outputs *outputs; /* valid while `linger` is set */
};

struct outputs {
  uv_loop_t *loop;
  struct quota *quota;
  const struct config_pipeline *config;
  struct frame_format format;
  struct sink *sink;
  struct listener *listener;
  struct acceptor *acceptor;
  struct handshakes *handshakes; /* NULL: its readers use no handshake */
  struct native_welcome welcome;
  outputs_share *share;
  void *context;            /* argument of share() */
  struct endpoint endpoint; /* an output file; owned until the sink gets it */
  struct loop_timer *retry; /* tries to open a FIFO again */
  struct reader_entry *entries, *lingering;
  unsigned count;
  uint64_t missed; /* missed by readers that left */
  struct refusals refusals;
  struct trouble troubles[OUTPUT_CAUSES];
  uint64_t cut;    /* bytes of a partial result of the previous process that were cut off in the file */
  bool cut_unsure; /* nobody knows whether its results had the same size */
  bool awaits_end; /* a FIFO whose reader has yet to see the end of earlier data: see outputs.c */
  bool closed, ended;
  unsigned cut_off;                         /* readers that a kill cut off; until the start */
  bool continues;                           /* taken over from the previous process */
  const struct handshakes *left_handshakes; /* address of its handshakes there, until the start */
  struct late {                             /* its file cannot be opened yet: see outputs_late.c */
    bool lasts;
    struct loop_timer *timer;
    uint64_t pause_ms;
  } late;
  void (*opened)(void *context); /* called when the file is open; or NULL */
  struct file_work {             /* a regular file: see outputs_files.c */
    int index;                   /* index that belongs to `endpoint`, which is a segment */
    uint64_t count;              /* entries in that index */
    struct segment_times times;  /* times of that segment */
    struct retention retention;  /* for the job that removes old segments */
    bool is_full;                /* its disk is full */
    /* Descriptor of the sink's file (-1: none), and of the file that a job checks. */
    int fd, checked_fd;
    int64_t seen;              /* its size at the last look */
    struct segment_end *ends;  /* segments that are being finished */
    uint64_t emitted;          /* results written to earlier files */
    unsigned jobs;             /* jobs on pool threads */
    _Atomic int64_t asked;     /* CLOCK_MONOTONIC ns since when; 0: none */
    bool busy;                 /* a job works on the next file, and fills in the following */
    bool moved, worked;        /* the file is gone; there is a next file */
    struct failure failure;    /* the error if not */
    struct segment_files next; /* given to the sink as soon as it has returned its file */
    bool wants_next;           /* the sink returned a segment and waits for the next */
    bool recovered;            /* the sink's last report was that the file can be written */
    bool stop_wanted;          /* stop once no job is left */
  } file;
};

static inline bool outputs_is_socket(const struct outputs *outputs) { return outputs->config->sink.endpoint == CONFIG_SOCKET; }

/* -- outputs_files.c ------------------------------------------------------------------------------------------------- */

/* Attaches `endpoint` to the sink. */
bool outputs_attach_file(struct outputs *outputs, struct failure *failure);
/* The sink returned a regular file. Returns false if that is the end of the sink. */
bool outputs_on_file_back(struct outputs *outputs, const struct sink_event *event);
/* [set-up thread] Finishes the segment that the sink returned at its end. */
void outputs_end_file(struct outputs *outputs);
/* Finishes segments that an earlier process left. */
void outputs_sweep(struct outputs *outputs);
/* The disk refused a result, or accepts results again. While it is full, old segments are removed if allowed. */
void outputs_note_full(struct outputs *outputs, bool is_full);
void outputs_make_room(struct outputs *outputs);

/* Runs a job on the file on a pool thread; `done` must call outputs_end_job(). The outputs stop only after all jobs. */
void outputs_begin_job(struct outputs *outputs, loop_callback *run, loop_callback *done);
void outputs_end_job(struct outputs *outputs);

/* -- outputs_late.c --------------------------------------------------------------------------------------------------- */

/* True if a file that failed to open for this reason may be opened later. */
bool outputs_may_come_late(struct outputs *outputs, const struct failure *failure);
/* Tries to open the file until that succeeds. */
bool outputs_await_file(struct outputs *outputs);

/* -- outputs_readers.c ---------------------------------------------------------------------------------------------- */

/* Add a reader to the list of the outputs, and remove one. */
void outputs_add(struct outputs *outputs, struct reader_entry *place);
struct reader_entry *outputs_remove(struct outputs *outputs, const struct reader *reader);
/* Attaches a client's descriptor to the sink. On failure the caller keeps it, and the user's charge. */
bool outputs_attach(struct outputs *outputs, const struct client *client, const struct quota_charge *charge,
                    struct failure *failure);
/* Charges the users of readers that were taken over. */
void outputs_recharge(struct outputs *outputs);
/* Frees the entry of a reader that has left: at once, or some seconds later if it has shared memory and was dismissed. */
void outputs_free_entry(struct outputs *outputs, struct reader_entry *place, bool was_dismissed);
/* The pipeline ends: readers with shared memory keep it. */
void outputs_leave_memory(struct outputs *outputs);
/* Callbacks of the acceptor and the handshakes. */
void outputs_on_accepted(void *context, int fd, const struct peer *peer);
void outputs_on_hello(void *context, const struct client *client);

/* == the pipeline =================================================================================================== */

/* -- states.c ------------------------------------------------------------------------------------------------------- */

/* Requests that wait for a state, each with its own time limit. */
struct pending_request;

struct pending_requests {
  struct pending_request *first;
  uv_loop_t *loop;
  /* Answers a request whose time is over. */
  void (*expired)(void *owner, server_answer *answer, void *context);
  void *owner;
};

/* Adds a request. Returns false without memory; then it was answered with 503. */
bool pending_add(struct pending_requests *pending, int64_t limit_ns, server_answer *answer, void *context);
/* Takes the next request off the list. Returns false if the list is empty. */
bool pending_take(struct pending_requests *pending, server_answer **answer, void **context);

enum { PIPELINE_QUARANTINE_LIMIT = 3 }; /* quarantined frames within a minute */

struct pipeline {
  struct pipeline_setup setup;
  const struct config_pipeline *config;
  enum pipeline_state state;
  enum pipeline_state before; /* STOPPING: the state to which pipeline_unquiesce() returns */
  const struct config_pipeline *stages_config;
  struct device_chain *chain;
  struct restage {                        /* replacement of the stages: the new ones, and later the old ones */
    const struct config_pipeline *config; /* NULL: no replacement */
    struct device_chain *chain;
    bool ordered; /* the sessions were ordered to switch */
    bool done;    /* and all have switched */
  } restage;
  struct frame_format input;
  size_t result_bytes, frame_bytes; /* bytes of a result; bytes per frame that load each seat's lane */
  struct lane **lanes;              /* one for each seat */
  /* Lane of each seat's results; NULL: the seat's own lane. */
  struct lane **sink_lanes;
  struct engine_placement *placements; /* devices of each seat */
  struct inputs *inputs;
  struct outputs *outputs;                /* NULL: it replies */
  struct recorder *recorder;              /* NULL: input is not recorded */
  struct outputs *record;                 /* file of the recording */
  struct config_pipeline record_config;   /* its configuration, as a pipeline with the same name */
  bool record_started, recording;         /* it was started; it has its file */
  bool record_stopping;                   /* it was ordered to stop */
  struct pending_requests pauses, drains; /* requests that wait until it is paused, or drained */
  struct meter *meter;
  struct past past;
  struct reading now;     /* for pipeline_snapshot(); too large for a stack */
  struct trouble trouble; /* of its state, or of frames that made the device fail */
  struct trouble silence; /* no frame comes although one is expected */
  struct links links;
  struct watch { /* values of the last tick: see watch.c */
    int64_t at;
    int64_t excused; /* until then a silence has another cause than the source */
    struct watch_counts {
      uint64_t emitted, lost; /* frames, and frames that the sink could not write */
    } sink, record;
    uint64_t missed; /* by the recorder, whose memory was full */
  } watch;
  struct pipeline_wait {      /* WAITING: see waiting.c */
    enum pipeline_state then; /* state after the start: RUNNING, or PAUSED or DRAINED by a command */
    int64_t next, pause;      /* CLOCK_MONOTONIC ns of the next try, and the following pause */
  } wait;
  struct message empty;               /* without sessions, this message reports that it is idle or stopped */
  bool empty_posted;                  /* the message is on its way */
  bool for_good;                      /* STOPPING: stops as soon as it is quiet */
  bool cut;                           /* sessions were ordered to stop */
  bool accounted;                     /* its account is in the log, perhaps by an earlier image */
  bool outputs_started;               /* the outputs are started; the inputs may not be */
  bool was_late;                      /* the previous process could not start the pipeline either */
  bool must_restart;                  /* the next process must start it from scratch, because its file does not answer */
  bool continues;                     /* taken over from the previous process */
  enum pipeline_state continues_as;   /* in this state */
  unsigned just_quarantined;          /* frames quarantined by the last fault or takeover, rarely more than one */
  struct frame_name last_quarantined; /* name of the last one */
  int64_t quarantined[PIPELINE_QUARANTINE_LIMIT]; /* CLOCK_MONOTONIC ns of the last quarantined frames, latest first */
};

/* image.c */
/* Takes over the pipeline itself. Returns false if it is not valid. */
bool pipeline_adopt(struct pipeline *pipeline, const struct pipeline *left);
/* Takes over the outputs, after the sessions, and counts quarantined frames. */
bool pipeline_adopt_outputs(struct pipeline *pipeline, const struct pipeline *left, struct failure *failure);

/* restage.c: all sessions use the new stages. */
void pipeline_on_changed(struct pipeline *pipeline);

/* run.c: events of sessions and sinks; answers to pending requests that cannot be met; all sessions are held; a document with
 * the state, owned by the caller. */
void pipeline_on_session_event(void *context, const struct session_event *event);
void pipeline_on_sink_event(void *context, const struct sink_event *event);
void pipeline_on_record_event(void *context, const struct sink_event *event);
void pipeline_on_record_opened(void *context);
void pipeline_on_record_stopped(void *context);
/* image.c: counts the frames just quarantined; true if there were too many */
bool pipeline_has_too_many_quarantined(struct pipeline *pipeline);
void pipeline_answer_pending(struct pipeline *pipeline, const char *why);
void pipeline_on_held(struct pipeline *pipeline);
json_t *pipeline_state_document(const struct pipeline *pipeline);

/* commands.c: for requests that waited too long. */
void pipeline_on_pause_expired(void *owner, server_answer *answer, void *context);
void pipeline_on_drain_expired(void *owner, server_answer *answer, void *context);

/* -- states.c ------------------------------------------------------------------------------------------------------- */

/* Events that change a pipeline's state, by the table in states.c. */
enum pipeline_happening {
  HAPPENS_START,    /* a new pipeline starts */
  HAPPENS_CONTINUE, /* one of the previous process starts */
  HAPPENS_WAIT,     /* it cannot be prepared now */
  HAPPENS_PAUSE,    /* the commands */
  HAPPENS_RESUME,
  HAPPENS_DRAIN,
  HAPPENS_FAIL,      /* too many of its frames made a device fail */
  HAPPENS_IDLE,      /* all sessions are held, and no frame is in flight */
  HAPPENS_QUIESCE,   /* pipeline_quiesce() */
  HAPPENS_UNQUIESCE, /* pipeline_unquiesce() */
  HAPPENS_STOP,      /* pipeline_stop() */
  HAPPENS_END,       /* all sessions and the sink have stopped */
  PIPELINE_HAPPENINGS
};

/* True if the table has this event in this state. */
bool pipeline_may_move(enum pipeline_state state, enum pipeline_happening happening);
/* Moves to the state in the table. Asserts that the table has the event. Returns true if the state changed. */
bool pipeline_move(struct pipeline *pipeline, enum pipeline_happening happening);

/* watch.c: starts rates and latencies again, because earlier readings no longer apply. */
void pipeline_forget_readings(struct pipeline *pipeline);
/* silence.c: called with each reading. */
void pipeline_watch_silence(struct pipeline *pipeline, int64_t now);
/* silence.c: the trouble with its current text; a count of 0: frames come. */
const struct trouble *pipeline_silence(struct pipeline *pipeline);
/* watch.c: the pipeline starts; earlier events are ignored. */
void pipeline_watch_begin(struct pipeline *pipeline);

/* snapshot.c: sums over all sessions. */
void pipeline_ledger(const struct pipeline *pipeline, struct ledger *ledger);
/* questions.c: what the session that waits furthest downstream waits for. */
enum session_waiting pipeline_waiting(const struct pipeline *pipeline);
/* CLOCK_MONOTONIC ns of the last frame in and out; 0: never. */
int64_t pipeline_last_in(const struct pipeline *pipeline);
int64_t pipeline_last_out(const struct pipeline *pipeline);
/* snapshot.c. */
void pipeline_read(const struct pipeline *pipeline, struct reading *reading);
/* Adds to the reading how long the engines of the pipeline's devices have worked. */
void pipeline_read_served(const struct pipeline *pipeline, struct reading *reading);

bool pipeline_sink_has_ended(const struct pipeline *pipeline);

#endif
