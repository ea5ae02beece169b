/*
 * What the files of a pipeline share. engine.c, engine_devices.c and engine_places.c are what pipelines run on. inputs.c (their
 * life and what they are told), inputs_events.c (what their sessions tell), inputs_file.c (producers that are files),
 * inputs_admit.c (how producers that connect get their seats) and inputs_image.c (how inputs are handed over) are its source
 * side; outputs.c (their life, FIFOs), outputs_late.c (files that cannot be opened yet), outputs_files.c (regular files),
 * outputs_readers.c (readers that connect) and outputs_image.c (how outputs are handed over) its sink side. Of the pipeline
 * itself questions.c and snapshot.c read what can be known, watch.c follows what goes wrong, states.c says which event leads
 * where, image.c hands it over, run.c is what it does while it runs, commands.c what it is told, restage.c has it go on with
 * other stages, and pipeline.c takes and gives back what it needs. Each uses those before it.
 */
#ifndef FRAMED_PIPELINE_PRIVATE_H
#define FRAMED_PIPELINE_PRIVATE_H

#include "daemon/base/loop.h"
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
  _Atomic int64_t slowest;        /* written by the check-up: what its slowest frame took in the warm-up */
  double served[OVERLAP_ENGINES]; /* us that its engines worked for all pipelines, up to their last readings */
  _Atomic size_t load;            /* bytes a frame of the sessions on it */
  unsigned producers;
};

struct known { /* what was measured of a device */
  bool is_known;
  struct gpu_calibration calibration;
};

struct engine {
  struct opened *devices; /* the first is gpu.device, unless that is left out */
  unsigned device_count;
  struct engine_absent absents[ENGINE_MOST_DEVICES];
  unsigned absent_count;
  struct known known[ENGINE_MOST_DEVICES]; /* by number */
  struct retry retry;
  unsigned there; /* devices that there are, which `devices: all` means */
  struct lane **lanes;
  size_t *loads; /* bytes a frame of the sessions on each lane */
  unsigned lane_count;
  struct processors processors;
  struct config_realtime realtime; /* of threads beside lanes */
  bool hurries;                    /* the service stands still until everything runs */
};

/* engine_devices.c */
bool engine_open_devices(struct engine *engine, const struct config *config, const struct engine *left,
                         struct failure *failure);
void engine_close_devices(struct engine *engine);
struct opened *engine_find_opened(const struct engine *engine, unsigned index); /* NULL: it was not opened */
/* Devices that the pipeline names, and those that are left out, of which one may still be open: a bit for each. */
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
  const struct engine_place *places; /* of the seats' sessions */
  unsigned count;
  struct client waiting[MOST_WAITING]; /* clients that wait for seats of producers that have hung up; in order */
  unsigned waiting_count;
  struct listener *listener;
  struct acceptor *acceptor;
  struct handshakes *handshakes; /* NULL: its producers say nothing but frames */
  struct native_welcome welcome;
  struct endpoint endpoint; /* of a file; its descriptor until the session gets it */
  struct loop_watch *fifo;  /* until a writer comes */
  struct loop_timer *retry; /* while a FIFO cannot be opened for the next one */
  session_listener *listen; /* hears of sessions; */
  void *context;            /* what it is told with it */
  struct refusals refusals;
  struct trouble trouble, memory; /* of its socket or file; of seats without memory: neither's end is the other's */
  bool for_readers;               /* of the hold in force, */
  bool leaves_partial;            /* and frames that have begun may stay */
  bool closed, ended;
  bool stops;     /* the sessions were told to stop */
  bool continues; /* they were handed over by the process before this one */
  bool starts_held;
  bool discards;                            /* the FIFO's writer is not to be understood any more: see inputs_file.c */
  const struct inputs *left;                /* of the process before, until the seats are there, */
  const struct handshakes *left_handshakes; /* and where its handshakes lay */
};

/* -- inputs_image.c ------------------------------------------------------------------------------------------------ */

/* Takes the inputs that lay at that address in the process before, but for the seats; a seat, and where its session lay. False:
 * they make no sense. */
bool inputs_adopt(struct inputs *inputs, const struct inputs *address);
bool inputs_adopt_seat(const struct inputs *inputs, struct producer *producer, struct session_setup *session);
/* Finds out what became of the seat's producer, once the session is made. False: they do not fit. */
bool inputs_settle_seat(struct producer *producer);
/* Everybody goes on where the process before this one stopped. */
void inputs_continue(struct inputs *inputs);

/* -- inputs_file.c ------------------------------------------------------------------------------------------------- */

/* The file's descriptor becomes the producer. */
void inputs_attach_file(struct inputs *inputs);
/* True: the FIFO was taken over without a writer, and somebody has put another one in its place, whose writer is awaited. */
bool inputs_follow_name(struct inputs *inputs);
/* Attaches the FIFO once it has a writer. */
bool inputs_await_writer(struct inputs *inputs, struct failure *failure);
/* Awaits the next writer, now or as soon as the FIFO can be opened; where there is no memory for that the source has ended. */
void inputs_await_next_writer(struct inputs *inputs);

/* -- inputs_admit.c --------------------------------------------------------------------------------------------- */

void inputs_seat_down(struct inputs *inputs, struct producer *producer, const struct client *client);
/* A producer comes to the seat's devices, or leaves them. */
void inputs_count_producer(struct inputs *inputs, const struct producer *producer, bool comes);
/* What this producer speaks. */
enum config_protocol inputs_protocol(const struct inputs *inputs, const struct client *client);
/* A producer that waits takes the seat, if there is one. */
void inputs_seat_next(struct inputs *inputs, struct producer *producer);
/* What the acceptor, the handshakes and a seat's renewal tell. */
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
  struct arena control;       /* of one with shared memory */
  struct quota_charge charge; /* to its user */
  struct loop_timer *linger;  /* it was sent away, and may still look at its control memory for so long */
  struct outputs *outputs;    /* then */
};

struct outputs {
  uv_loop_t *loop;
  struct quota *quota;
  const struct config_pipeline *config;
  struct frame_format format;
  struct sink *sink;
  struct listener *listener;
  struct acceptor *acceptor;
  struct handshakes *handshakes; /* NULL: its readers say nothing */
  struct native_welcome welcome;
  outputs_share *share;
  void *context;            /* for lend() */
  struct endpoint endpoint; /* of a file; its descriptor until the sink gets it */
  struct loop_timer *retry; /* of a FIFO */
  struct reader_entry *places, *lingering;
  unsigned count;
  uint64_t missed; /* by readers that left */
  struct refusals refusals;
  struct trouble troubles[OUTPUT_CAUSES];
  uint64_t cut;    /* bytes of a partial result that a process before this one left in the file, */
  bool cut_unsure; /* if its results had the size of ours */
  bool awaits_end; /* a FIFO whose reader is to see the end of what came before: see outputs.c */
  bool closed, ended;
  unsigned cut_off; /* readers that could not go on, since the process before this one was killed; until the start */
  bool continues;   /* the process before this one handed it over */
  const struct handshakes *left_handshakes; /* where its handshakes lay, until the start */
  struct late {                             /* its file cannot be opened: see outputs_late.c */
    bool lasts;
    struct loop_timer *timer;
    uint64_t pause_ms;
  } late;
  void (*opened)(void *context); /* it can, which its owner wants to know; or NULL */
  struct file_work {             /* of a regular file: see outputs_files.c */
    int index;                   /* beside what `endpoint` has: the index of a segment, */
    uint64_t count;              /* entries in it, */
    struct segment_times times;  /* and when that began */
    struct retention retention;  /* for the worker that removes old ones */
    bool is_full;                /* its disk is */
    int fd, looks_at;            /* what the sink has; -1: nothing; and what a worker looks at */
    int64_t seen;                /* its size at the last look */
    struct segment_end *ends;    /* segments that are being finished */
    uint64_t emitted;            /* results that went into files before it */
    unsigned jobs;               /* that workers have, */
    _Atomic int64_t asked;       /* since when (CLOCK_MONOTONIC ns); 0: none */
    bool busy;                   /* one of them is about the next file, and fills in this: */
    bool moved, worked;          /* whether the file is gone; whether there is a next one */
    struct failure failure;      /* else */
    struct segment_files next;   /* what the sink gets as soon as it has given back what it has */
    bool wants_next;             /* the sink has given back a segment, and waits */
    bool recovered;              /* what the sink said last is that it can be written */
    bool stop_wanted;            /* as soon as no worker has a job */
  } file;
};

static inline bool outputs_is_socket(const struct outputs *outputs) { return outputs->config->sink.endpoint == CONFIG_SOCKET; }

/* -- outputs_files.c ------------------------------------------------------------------------------------------------- */

/* Gives the sink what `endpoint` has. */
bool outputs_attach_file(struct outputs *outputs, struct failure *failure);
/* The sink has given back a regular file that it has not ended with. False: the file's end is the sink's. */
bool outputs_on_file_back(struct outputs *outputs, const struct sink_event *event);
/* [set-up thread] Finishes the segment that the sink has given back at its end. */
void outputs_end_file(struct outputs *outputs);
/* Finishes segments that a process before this one left. */
void outputs_sweep(struct outputs *outputs);
/* The disk has refused a result, or takes them again. Old segments make room as long as it is full, if they may. */
void outputs_note_full(struct outputs *outputs, bool is_full);
void outputs_make_room(struct outputs *outputs);

/* Gives a worker something to do with the file; ends with outputs_end_job() in `done`. The outputs stop after it. */
void outputs_begin_job(struct outputs *outputs, loop_callback *run, loop_callback *done);
void outputs_end_job(struct outputs *outputs);

/* -- outputs_late.c --------------------------------------------------------------------------------------------------- */

/* Whether a file that could not be opened for this reason may come late. */
bool outputs_may_come_late(struct outputs *outputs, const struct failure *failure);
/* Tries to open it until that works. */
bool outputs_await_file(struct outputs *outputs);

/* -- outputs_readers.c ---------------------------------------------------------------------------------------------- */

/* Puts a reader on the list of the outputs, and takes one off it. */
void outputs_add(struct outputs *outputs, struct reader_entry *place);
struct reader_entry *outputs_remove(struct outputs *outputs, const struct reader *reader);
/* Gives the sink a client's descriptor; on failure it stays the caller's, and so does what the client's user was charged with.
 */
bool outputs_attach(struct outputs *outputs, const struct client *client, const struct quota_charge *charge,
                    struct failure *failure);
/* Charges the users of readers that came from the process before this one. */
void outputs_charge_again(struct outputs *outputs);
/* Frees the entry of a reader that has left: at once or, if it has shared memory and was sent away, soon. */
void outputs_let_go(struct outputs *outputs, struct reader_entry *place, bool was_sent_away);
/* The pipeline ends: readers that have some of its memory keep that. */
void outputs_leave_memory(struct outputs *outputs);
/* What the acceptor and the handshakes tell. */
void outputs_on_accepted(void *context, int fd, const struct peer *peer);
void outputs_on_hello(void *context, const struct client *client);

/* == the pipeline =================================================================================================== */

/* -- states.c ------------------------------------------------------------------------------------------------------- */

/* A list of requests that wait until something has come about, each with a time limit of its own. */
struct pending_request;

struct pending_requests {
  struct pending_request *first;
  uv_loop_t *loop;
  /* Answers a request whose time is over. */
  void (*expired)(void *owner, server_answer *answer, void *context);
  void *owner;
};

/* Lets a request wait. False: there is no memory for that, which was answered, with 503. */
bool pending_add(struct pending_requests *pending, int64_t limit_ns, server_answer *answer, void *context);
/* Takes the next request that waits off the list. False if there is none. */
bool pending_take(struct pending_requests *pending, server_answer **answer, void **context);

enum { PIPELINE_TOO_MANY = 3 }; /* frames in quarantine within a minute */

struct pipeline {
  struct pipeline_setup setup;
  const struct config_pipeline *config;
  enum pipeline_state state;
  enum pipeline_state before; /* STOPPING: where pipeline_unquiesce() goes back to */
  const struct config_pipeline *stages_config;
  struct device_chain *chain;
  struct restage {                        /* other stages: those that come, or that were there */
    const struct config_pipeline *config; /* NULL: there are none */
    struct device_chain *chain;
    bool ordered; /* the sessions were told of them, */
    bool done;    /* and all of them go by them */
  } restage;
  struct frame_format input;
  size_t result_bytes, frame_bytes; /* of one result; what each seat's lane is loaded with for a frame */
  struct lane **lanes;              /* one for each seat */
  struct lane **sink_lanes;         /* the same for what a seat's results go to; NULL: its own lane */
  struct engine_place *places;      /* devices, likewise */
  struct inputs *inputs;
  struct outputs *outputs;                /* NULL: it replies */
  struct recorder *recorder;              /* NULL: what comes in is not recorded */
  struct outputs *record;                 /* where that goes, */
  struct config_pipeline record_config;   /* as a pipeline of its own with the same name */
  bool record_started, recording;         /* it was started, and has its file */
  bool record_stopping;                   /* it was told to stop */
  struct pending_requests pauses, drains; /* requests that wait for it to be held; drained */
  struct meter *meter;
  struct past past;
  struct reading now;     /* for pipeline_snapshot(), too large for a stack */
  struct trouble trouble; /* of its state, or of frames that the device failed with */
  struct trouble silence; /* no frame comes, and one should */
  struct links links;
  struct watch { /* what the last tick saw: see watch.c */
    int64_t at;
    int64_t heard; /* until when a silence has another cause than the source */
    struct watch_counts {
      uint64_t emitted, lost; /* frames, and frames that the sink could not write */
    } sink, record;
    uint64_t missed; /* by the recording, whose memory was full */
  } watch;
  struct pipeline_wait {      /* WAITING: see waiting.c */
    enum pipeline_state then; /* RUNNING, or PAUSED or DRAINED by a command: the state in which it starts */
    int64_t next, pause;      /* when it is tried again (CLOCK_MONOTONIC ns), and how long it waits after that */
  } wait;
  struct message empty;                   /* without sessions nobody tells that it is idle, or has stopped: this does, */
  bool empty_posted;                      /* and is on its way */
  bool for_good;                          /* STOPPING: stops as soon as it is quiet */
  bool cut;                               /* sessions were told to stop */
  bool accounted;                         /* the log has its account, maybe from an image before this one */
  bool outputs_started;                   /* the outputs, while the inputs may still have to start */
  bool was_late;                          /* the process before this one could not start the pipeline either */
  bool begins_anew;                       /* the next process is not to go on with it, since its file does not answer */
  bool continues;                         /* the process before this one handed it over, */
  enum pipeline_state continues_as;       /* in this state */
  unsigned now_condemned;                 /* by the hand-over: frames quarantined, one at most as a rule, */
  struct frame_name last_condemned;       /* and the last of them */
  int64_t quarantined[PIPELINE_TOO_MANY]; /* when the last frames were put there: CLOCK_MONOTONIC ns; the latest first */
};

/* image.c */
/* Takes the pipeline itself. False: it makes no sense. */
bool pipeline_adopt(struct pipeline *pipeline, const struct pipeline *left);
/* Takes the outputs, after the sessions, and counts the frames that the sessions put in quarantine. */
bool pipeline_adopt_outputs(struct pipeline *pipeline, const struct pipeline *left, struct failure *failure);

/* restage.c: all sessions go by the other stages. */
void pipeline_on_changed(struct pipeline *pipeline);

/* run.c: what the sessions and the sink call; answers to those who wait for what will not come; all sessions are held; a
 * document with the state, which the caller owns. */
void pipeline_on_session_event(void *context, const struct session_event *event);
void pipeline_on_sink_event(void *context, const struct sink_event *event);
void pipeline_on_record_event(void *context, const struct sink_event *event);
void pipeline_on_record_opened(void *context);
void pipeline_on_record_stopped(void *context);
bool pipeline_is_condemned(struct pipeline *pipeline); /* image.c: frames that were condemned just now were too many */
void pipeline_answer_pending(struct pipeline *pipeline, const char *why);
void pipeline_on_held(struct pipeline *pipeline);
json_t *pipeline_state_document(const struct pipeline *pipeline);

/* commands.c: for requests that waited too long. */
void pipeline_on_pause_expired(void *owner, server_answer *answer, void *context);
void pipeline_on_drain_expired(void *owner, server_answer *answer, void *context);

/* -- states.c ------------------------------------------------------------------------------------------------------- */

/* What happens to a pipeline, by which its state changes; the table in states.c says how. */
enum pipeline_happening {
  HAPPENS_START,    /* a pipeline without a past starts */
  HAPPENS_CONTINUE, /* one starts that the process before this one left */
  HAPPENS_WAIT,     /* it cannot be prepared for now */
  HAPPENS_PAUSE,    /* the commands */
  HAPPENS_RESUME,
  HAPPENS_DRAIN,
  HAPPENS_FAIL,      /* too many of its frames made a device fail */
  HAPPENS_IDLE,      /* all sessions are held, and nothing is in flight */
  HAPPENS_QUIESCE,   /* pipeline_quiesce() */
  HAPPENS_UNQUIESCE, /* pipeline_unquiesce() */
  HAPPENS_STOP,      /* pipeline_stop() */
  HAPPENS_END,       /* all sessions have stopped, and the sink */
  PIPELINE_HAPPENINGS
};

/* Whether the table has this event in this state. */
bool pipeline_may_move(enum pipeline_state state, enum pipeline_happening happening);
/* Goes where the table says; an event that it does not have in this state is a bug and asserts. True: the state is another one.
 */
bool pipeline_move(struct pipeline *pipeline, enum pipeline_happening happening);

/* watch.c: rates and latencies begin anew, as what was measured before says nothing of what comes. */
void pipeline_forget_readings(struct pipeline *pipeline);
/* silence.c: with each reading. */
void pipeline_watch_silence(struct pipeline *pipeline, int64_t now);
/* silence.c: that no frame comes, in the words of now; with a count of 0 one does. */
const struct trouble *pipeline_silence(struct pipeline *pipeline);
/* watch.c: it starts, and what was before is not watched. */
void pipeline_watch_begin(struct pipeline *pipeline);

/* snapshot.c: sums over all sessions. */
void pipeline_ledger(const struct pipeline *pipeline, struct ledger *ledger);
/* questions.c: what the session that is furthest down the flow waits for. */
enum session_waiting pipeline_waiting(const struct pipeline *pipeline);
/* When a frame last came, and when one last went out: CLOCK_MONOTONIC ns; 0: never. */
int64_t pipeline_last_in(const struct pipeline *pipeline);
int64_t pipeline_last_out(const struct pipeline *pipeline);
/* snapshot.c. */
void pipeline_read(const struct pipeline *pipeline, struct reading *reading);
/* Into the same reading: how long the engines of the pipeline's devices have worked. */
void pipeline_read_served(const struct pipeline *pipeline, struct reading *reading);

bool pipeline_sink_has_ended(const struct pipeline *pipeline);

#endif
