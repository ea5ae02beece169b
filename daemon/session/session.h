/*
 * The room session/: one turn; the only room where source, frame and sink meet.
 *
 * A session is one producer's place on a pipeline, with its slots, its sequence and its ledger.
 *
 * The place is permanent (its memory is pinned when the pipeline starts), the producers in it come and go: each
 * is a descriptor that session_attach() hands in and that comes back in a SESSION_DETACHED event, for the control
 * loop to close. The lane owns everything in between. A session never opens, closes, logs or prints; what is
 * worth knowing goes to the control loop as an event.
 */
#ifndef FRAMED_SESSION_SESSION_H
#define FRAMED_SESSION_SESSION_H

#include "config/config.h"
#include "daemon/base/failure.h"
#include "daemon/base/lane.h"
#include "daemon/device/device.h"
#include "daemon/frame/account.h"
#include "daemon/frame/fault.h"
#include "daemon/frame/flow.h"
#include "daemon/frame/picture.h"
#include "daemon/source/source.h"

struct session;
struct sink;

enum session_event_kind {
  SESSION_DETACHED, /* the producer's descriptor is given back */
  SESSION_HELD,     /* session_is_held() may be true now */
  SESSION_IDLE,     /* held (see session_hold) and nothing is in flight any more */
  SESSION_STOPPED,  /* session_stop() is done; session_free() may follow */
  SESSION_NOT_READ, /* reply: its client goes on sending and has taken no result for SESSION_PATIENCE_S; once a producer */
  SESSION_REFUSED,  /* a stage could not compute a frame, for the reason in `text`; one of several at a time */
  SESSION_FOREIGN,  /* its producer's first frame came, and began like `text`; once a producer */
  SESSION_CHANGED,  /* session_change_stages() is done */
  SESSION_GPU_FAULT /* the device is dead; frames on it are counted as gpu_fault */
};

enum { SESSION_EVENT_KINDS = SESSION_GPU_FAULT + 1 };

enum { SESSION_PAUSE_S = 1, SESSION_PATIENCE_S = 10 };

struct session_event {
  enum session_event_kind kind;
  struct session *session;
  int fd;                    /* DETACHED: now the receiver's, to close */
  enum detach_reason reason; /* DETACHED */
  uint64_t frames;           /* DETACHED: frames that had come in over this descriptor */
  unsigned hold;             /* IDLE: the number of the hold that it answers */
  struct frame_name frame;   /* REFUSED */
  char text[256];            /* DETACHED: one sentence, or empty; FOREIGN, REFUSED */
  const struct fault *fault; /* GPU_FAULT: lives as long as the call */
};

/* Runs on the control loop. */
typedef void session_listener(void *context, const struct session_event *event);

/* Stages, and how frames go through them. */
struct session_stages {
  struct device_chain *chain;     /* outlives the session, or until session_drop_stages() */
  struct device_program *program; /* the session's */
  enum gpu_graph_choice graph;    /* these three as in struct gpu_options; what a warm-up found */
  enum gpu_copy_choice copy;
  int timed_one_in;
  struct gpu_costs costs; /* what it has measured; `alone` 0: nothing */
};

struct session_setup {
  const struct config_pipeline *config; /* outlives the session */
  unsigned index;                       /* 0 to clients - 1 */
  struct lane *lane;
  struct mailbox *control; /* where events go */
  session_listener *listener;
  void *context;
  struct device *device;             /* one, or several that are joined: */
  const struct flow_device *devices; /* these, which outlive the session */
  unsigned device_count;
  struct session_stages stages; /* without a program; of a session before this one the choices and costs */
  int64_t gpu_timeout_ns;
  struct sink *sink;          /* on any lane; NULL with a `reply` sink: the session makes its own, */
  struct lane *sink_lane;     /* on this lane; NULL: on its own */
  const struct session *left; /* where it lay in the process before, which left it; NULL: nowhere. Not kept, */
  bool left_memory;           /* nor is whether it had memory there that it may keep */
  struct tap *tap;            /* of its flow; NULL: none */
};

/* Makes arena, device program and slots, and runs a warm-up frame through each. Blocks: for a set-up thread. */
struct session *session_new(const struct session_setup *setup, struct failure *failure);
/* The stages in force, with what their first warm-up decided and measured. */
const struct session_stages *session_stages(const struct session *session);
/* After SESSION_STOPPED, or if nothing was ever posted to it. Blocks (unpins memory). Returns NULL. */
struct session *session_free(struct session *session);

/* -- from the control loop; each is posted to the lane, in order --------------------------------------------- */

/* Gives the session a producer; it must have none. The descriptor is the session's until SESSION_DETACHED. A native one may
 * want its frames acknowledged. */
void session_attach(struct session *session, int fd, enum config_protocol protocol, bool acknowledges);

/* What a client gets of the session's memory; the descriptors are the receiver's, to close. */
struct session_share {
  int input, output, control; /* `output` can only be read */
  size_t input_stride, output_stride, control_bytes;
};

/* Opens the memory for one client, before session_attach_shared(). False if there is no descriptor or memory left. */
bool session_share(struct session *session, struct session_share *share, struct failure *failure);
struct session_outputs {
  int output; /* can only be read; the receiver's, to close */
  size_t stride;
  unsigned memory; /* its number: see frame/flow.h */
};

/* Opens the memory of its results for somebody who reads them. While it is not being renewed; false if there is no descriptor
 * left. */
bool session_share_outputs(const struct session *session, struct session_outputs *lent, struct failure *failure);
/* Gives the session a native producer that has its memory. */
void session_attach_shared(struct session *session, int fd);
/* After its SESSION_DETACHED: memory that no client knows, once nobody keeps pages of the old one. Set-up thread; until it is
 * done the session may be held, resumed and stopped, but nothing else. */
bool session_renew(struct session *session, struct failure *failure);
/* Stops taking frames at the next frame boundary and tells SESSION_IDLE once nothing is in flight; the producer stays
 * connected. With `for_readers` that includes results that slow readers under `drop` are in the middle of, although their
 * frames have their fate: for a hold before the end. Calling it again asks for another SESSION_IDLE. */
void session_hold(struct session *session, bool for_readers);
/* Whether the session's lane knows of the last hold: no frame begins any more. */
bool session_is_held(const struct session *session);
void session_resume(struct session *session);
/* Before session_hold(), for an end that another process follows: a frame of which only a part has come keeps nobody
 * waiting. */
void session_leave_partial(struct session *session);
/* Ends now: the producer is detached and every unfinished frame gets the fate `shutdown` (frames on the device are
 * waited for, not counted as anything else). Then SESSION_STOPPED. For a gentle end, hold first. */
void session_stop(struct session *session);

/* -- other stages, with its producer and frames where they are --------------------------------------------------------- */

/* Whether its sink can write results of that chain with the labels that they have, and will once its stages are in force. */
bool session_take_labels(struct session *session, const struct device_chain *chain);
/* Makes ready what takes the place of the stages in force, beside these: they take and give the same frames. With choices and
 * costs of another session (`alone` not 0) nothing is measured. Without memory (its renewal failed) there will be a program
 * when it has some. Not while it is renewed. Set-up thread. */
bool session_prepare_stages(struct session *session, const struct session_stages *stages, struct failure *failure);
const struct session_stages *session_other_stages(const struct session *session);
/* Every frame that is dispatched from now on goes through them. SESSION_CHANGED follows as soon as no other frame is on the
 * device. */
void session_change_stages(struct session *session);
/* Frees those that are not in force, if there are any. Set-up thread. */
void session_drop_stages(struct session *session);

/* -- over the end of a process, while no lane runs --------------------------------------------------------------------- */

/* Frames on devices will run again; if one has `failed` they are suspected, `alone` if there was no other. Gives how many these
 * are. */
unsigned session_suspect(struct session *session, unsigned device, bool failed, bool alone);
/* Its frames on a device that lost its worker run again on the next one. False: there is no memory. */
bool session_rewind(struct session *session, unsigned device, struct failure *failure);
/* Has the next process get the descriptors of its memory. */
void session_keep(const struct session *session);

/* Whether the producer that was left cannot go on, and leaves. */
bool session_is_cut(const struct session *session);
/* The session's producer is gone: a frame that had begun is invalid. */
void session_lose_source(struct session *session);

/* After its sink was taken, too: false if its books do not balance. */
bool session_taken(struct session *session, struct failure *failure);
/* Whether the producer that was left was the session's already; otherwise the session was never told of that producer. */
bool session_has_source(const struct session *session);
/* Whether its producer can be one that `shares` its memory, or one that does not. */
bool session_may_share(const struct session *session, bool shares);
/* Goes on with the producer that was left: like session_attach(). */
void session_attach_again(struct session *session, int fd);
/* Frames that were dropped because they made the device fail again and again; `last` gets the name of the last, if any. */
unsigned session_quarantined(const struct session *session, struct frame_name *last);
/* The flow of the session, if that is its number on the pipeline; for a sink of its own, too. */
struct flow *session_own_flow(void *session, unsigned seat);

/* -- from any thread ---------------------------------------------------------------------------------------------- */

void session_read(const struct session *session, struct session_view *view);
const struct histogram *session_histogram(const struct session *session, enum step step);

/* -- from the control loop, for traces ------------------------------------------------------------------------------ */

struct trace_ring;

/* From now on every frame that gets its fate is recorded. The ring is made at the first call, for `frames` records, and
 * stays the session's until it is freed. NULL if there is no memory. */
struct trace_ring *session_trace(struct session *session, unsigned frames);
void session_trace_end(struct session *session);

/* [control loop] Hangs up a picture for its next result; NULL takes one down that waits. */
void session_request_picture(struct session *session, enum picture_side side, struct picture *picture);

/* Since when a read of its source, a file, is under way: CLOCK_MONOTONIC ns; 0: none is. */
int64_t session_asked(const struct session *session);
/* Bytes of the inputs and outputs that it has now. */
size_t session_memory(const struct session *session);
/* Bytes of its record: where they differ, another program cannot go on with it. */
size_t session_record_bytes(void);
/* Pinned host memory and slots' frame sizes that a session of this shape takes, in bytes; for --check. */
size_t session_pinned_bytes(const struct config_pipeline *config, const struct device_chain *chain, size_t input_bytes);

#endif
