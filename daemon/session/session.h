/*
 * The room session/: one turn; the only room where source, frame and sink meet.
 *
 * A session serves one producer of a pipeline, with its slots, its sequence and its ledger.
 *
 * Sessions last as long as the pipeline, because their memory is pinned when it starts. Producers come and go. session_attach()
 * hands in the descriptor of one, and a SESSION_DETACHED event returns it for the control loop to close. In between the lane
 * owns all of the session. A session never opens, closes or logs; it reports to the control loop by events.
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
  SESSION_DETACHED, /* the producer's descriptor is returned */
  SESSION_HELD,     /* session_is_held() may have become true */
  SESSION_IDLE,     /* paused (see session_hold) and no frame is in flight */
  SESSION_STOPPED,  /* session_stop() is done; session_free() may follow */
  /* reply: the client keeps sending, and read no result for SESSION_PATIENCE_S. Once for each producer. */
  SESSION_NOT_READ,
  SESSION_REFUSED, /* a stage rejected a frame, for the reason in `text`; of several at a time only one is reported */
  SESSION_FOREIGN, /* the producer's first frame begins like `text`; once for each producer */
  SESSION_CHANGED  /* session_change_stages() is done */
};

enum { SESSION_EVENT_KINDS = SESSION_CHANGED + 1 };

enum { SESSION_PAUSE_S = 1, SESSION_PATIENCE_S = 10 };

struct session_event {
  enum session_event_kind kind;
  struct session *session;
  int fd;                    /* DETACHED: now owned by the receiver, to close */
  enum detach_reason reason; /* DETACHED */
  uint64_t frames;           /* DETACHED: frames that came in over this descriptor */
  unsigned hold;             /* IDLE: number of the hold that it answers */
  struct frame_name frame;   /* REFUSED */
  char text[256];            /* DETACHED: one sentence, or empty; FOREIGN, REFUSED */
};

/* Runs on the control loop. */
typedef void session_listener(void *context, const struct session_event *event);

/* A chain of stages with its program and choices. */
struct session_stages {
  struct device_chain *chain;     /* outlives the session, or lives until session_drop_stages() */
  struct device_program *program; /* owned by the session */
  enum gpu_graph_choice graph;    /* these three as in struct gpu_options; chosen by a warm-up */
  enum gpu_copy_choice copy;
  int timed_one_in;
  struct gpu_costs costs; /* measured by a warm-up; `alone` 0: not measured */
};

struct session_setup {
  const struct config_pipeline *config; /* outlives the session */
  unsigned index;                       /* 0 to clients - 1 */
  struct lane *lane;
  struct mailbox *control; /* receives the events */
  session_listener *listener;
  void *context;
  struct device *device;             /* one device, or several that are joined */
  const struct flow_device *devices; /* the devices, which outlive the session */
  unsigned device_count;
  struct session_stages stages; /* without a program; may have the choices and costs of an earlier session */
  int64_t gpu_timeout_ns;
  struct sink *sink;          /* on any lane; NULL with a `reply` sink: the session makes its own */
  struct lane *sink_lane;     /* lane of that own sink; NULL: the session's lane */
  const struct session *left; /* address in the previous process; NULL: a new session; not kept */
  bool left_memory;           /* it had memory there that it may keep; not kept */
  struct tap *tap;            /* for its flow; NULL: none */
};

/* Makes arenas, device program and slots, and runs a warm-up frame through each slot. Blocks: for a set-up thread. */
struct session *session_new(const struct session_setup *setup, struct failure *failure);
/* The stages in force, with what their first warm-up chose and measured. */
const struct session_stages *session_stages(const struct session *session);
/* Call after SESSION_STOPPED, or if no message was ever posted. Blocks, because it unpins memory. Returns NULL. */
struct session *session_free(struct session *session);

/* -- from the control loop; each is posted to the lane, in order --------------------------------------------- */

/* Attaches a producer; the session must have none. The session owns the descriptor until SESSION_DETACHED. `acknowledges`: the
 * native producer asked for acknowledgements. */
void session_attach(struct session *session, int fd, enum config_protocol protocol, bool acknowledges);

/* Descriptors of the session's memory for a client. The receiver closes them. */
struct session_share {
  int input, output, control; /* `output` is read-only */
  size_t input_stride, output_stride, control_bytes;
};

/* Opens the memory for one client, before session_attach_shared(). Returns false without descriptors or memory. */
bool session_share(struct session *session, struct session_share *share, struct failure *failure);
struct session_outputs {
  int output; /* read-only; the receiver closes it */
  size_t stride;
  unsigned memory; /* its generation: see frame/flow.h */
};

/* Opens the memory of the results for a reader. Not during session_renew(). Returns false without a descriptor. */
bool session_share_outputs(const struct session *session, struct session_outputs *outputs, struct failure *failure);
/* Attaches a native producer that uses the session's shared memory. */
void session_attach_shared(struct session *session, int fd);
/* Call after SESSION_DETACHED of a producer with shared memory. Replaces the memory by new memory that no client knows. For a
 * set-up thread. Until it is done the session may only be held, resumed and stopped. */
bool session_renew(struct session *session, struct failure *failure);
/* Accepts no more frames from the next frame boundary on, and reports SESSION_IDLE once nothing is in flight. The producer
 * stays connected. `for_readers`, used before an end, also waits until slow readers under `drop` got the rest of their results.
 * Calling it again requests another SESSION_IDLE. */
void session_hold(struct session *session, bool for_readers);
/* True once the session's lane knows of the last hold. Then no frame begins. */
bool session_is_held(const struct session *session);
void session_resume(struct session *session);
/* Call before session_hold() if another process takes over: a partly received frame then does not delay SESSION_IDLE. */
void session_leave_partial(struct session *session);
/* Ends now: detaches the producer and sets the fate `shutdown` for every unfinished frame. Waits for frames on the device,
 * which get that fate too. Then reports SESSION_STOPPED. For a gentle end, call session_hold() first. */
void session_stop(struct session *session);

/* -- replacing the stages while the producer and the frames stay ------------------------------------------------------- */

/* Prepares the sink for results of that chain with its labels. Returns false if it cannot write them. */
bool session_take_labels(struct session *session, const struct device_chain *chain);
/* Prepares stages that will replace those in force. They must take and return frames of the same formats. If `stages` has the
 * costs of another session (`alone` not 0) nothing is measured. If the session has no memory, because a renewal failed, the
 * program is made later with the memory. Not during a renewal. For a set-up thread. */
bool session_prepare_stages(struct session *session, const struct session_stages *stages, struct failure *failure);
const struct session_stages *session_other_stages(const struct session *session);
/* From now on every dispatched frame runs through the new stages. SESSION_CHANGED follows once no other frame is on the
 * device. */
void session_change_stages(struct session *session);
/* Frees the stages that are not in force, if any. For a set-up thread. */
void session_drop_stages(struct session *session);

/* -- over the end of a process, while no lane runs --------------------------------------------------------------------- */

/* Marks the frames on the device, which will run again. If the device `failed` they are suspected; `alone` if there was no
 * other frame. Returns their number. */
unsigned session_suspect(struct session *session, unsigned device, bool failed, bool alone);
/* For parked lanes: when the oldest frame on that device was dispatched (CLOCK_MONOTONIC ns; INT64_MAX: no frame is there). */
int64_t session_oldest_on(const struct session *session, unsigned device);
/* For parked lanes: names its frames on `fault->device` and its stages. */
void session_describe(const struct session *session, struct fault *fault);
/* Its frames on a device that lost its worker run again on the next worker. Returns false without memory. */
bool session_rewind(struct session *session, unsigned device, struct failure *failure);
/* Passes the descriptors of its memory to the next process. */
void session_keep(const struct session *session);

/* True if the producer from the previous process cannot continue and must leave. */
bool session_is_cut(const struct session *session);
/* The session's producer is gone. A frame that had begun is invalid. */
void session_lose_source(struct session *session);

/* Call after the sink was taken over. Returns false if the frame counts do not balance. */
bool session_taken(struct session *session, struct failure *failure);
/* True if the session knew the producer that the previous process had. Otherwise it was never attached. */
bool session_has_source(const struct session *session);
/* After a takeover: true if the session can continue with a producer with shared memory (`shares`), or with one without. */
bool session_may_share(const struct session *session, bool shares);
/* Continues with the producer of the previous process, like session_attach(). */
void session_attach_again(struct session *session, int fd);
/* Number of frames that were dropped because they made the device fail each time; `last` gets the name of the last one. */
unsigned session_quarantined(const struct session *session, struct frame_name *last);
/* The flow of the session if `seat` is its number on the pipeline, else NULL. A lookup for its own sink. */
struct flow *session_own_flow(void *session, unsigned seat);

/* -- [any thread] ------------------------------------------------------------------------------------------------- */

void session_read(const struct session *session, struct session_view *view);
const struct histogram *session_histogram(const struct session *session, enum step step);

/* -- from the control loop, for traces ------------------------------------------------------------------------------ */

struct trace_ring;

/* Records every frame that gets its fate from now on. The first call makes a ring of `frames` records, which the session keeps.
 * NULL without memory. */
struct trace_ring *session_trace(struct session *session, unsigned frames);
void session_trace_end(struct session *session);

/* [control loop] Requests a copy of its next result. NULL withdraws a pending request. */
void session_request_picture(struct session *session, enum picture_side side, struct picture *picture);

/* CLOCK_MONOTONIC ns since when a read of its file is under way; 0: none. */
int64_t session_asked(const struct session *session);
/* Bytes of its inputs and outputs. */
size_t session_memory(const struct session *session);
/* Size of the record. A program with another size cannot take the session over. */
size_t session_record_bytes(void);
/* Bytes of pinned host memory that a session of this configuration takes, for --check. */
size_t session_pinned_bytes(const struct config_pipeline *config, const struct device_chain *chain, size_t input_bytes);

#endif
