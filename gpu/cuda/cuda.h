/*
 * What the files of the CUDA backend share; besides the kernels, nothing else includes the CUDA headers.
 *
 * cuda_error.c turns errors into values; cuda.c opens devices and pins memory; cuda_program.c makes programs, puts frames on
 * streams and finds them done; cuda_sequence.c is what one frame is on a stream, cuda_graph.c captures and replays
 * that, and cuda_warm_up.c measures which is faster; cuda_copy.cu is small copies without an engine, cuda_order.c keeps large
 * ones in order, mailbox.c tells of frames without calls, cuda_clock.c says when each step was, cuda_overhead.c what asking for
 * that adds, and cuda_costs.c what copies and kernels take side by side; stream.c makes streams of a priority, and share.c of a
 * part of the device. Every call is made by a thread that has entered the
 * device, on a stream of our own: nothing touches the default stream.
 */
#ifndef FRAMED_GPU_CUDA_CUDA_H
#define FRAMED_GPU_CUDA_CUDA_H

#include "gpu/backend.h"
#include "gpu/cuda/copy.h"

#include <cuda_runtime_api.h>

/* An anchor may be used by a frame for as long as it takes to make this many new ones. */
enum { CUDA_ANCHORS = 16 };

/* The event of a copy's ticket is recorded anew after this many copies, so there are more than lanes submit at one moment. A
 * power of two, since tickets wrap. */
enum { CUDA_TICKETS = 64 };

/* One moment on both clocks. All times of a device lie on one axis that begins at the first anchor. */
struct cuda_anchor {
  cudaEvent_t event;
  int64_t device_ns; /* of `event`, on that axis */
  int64_t offset;    /* to add to get CLOCK_MONOTONIC */
};

struct cuda_device {
  struct gpu_device base;
  int index;
  int priorities[PRIORITIES]; /* of streams, by rank */
  struct cuda_shares *shares; /* NULL until somebody asks for one */
  cudaStream_t clock;
  struct cuda_anchor anchors[CUDA_ANCHORS];
  _Atomic unsigned anchor; /* index of the one in force */
  bool is_awaited;         /* the event of the next one was recorded and has not happened yet */
  /* Until when, on the device's axis, each engine was busy with frames whose times were read; and until when kernels that copy
   * were, which neither wait for a copy engine nor keep one waiting. */
  _Atomic int64_t h2d_end, kernel_end, d2h_end, copied_in_end, copied_out_end;
  bool reads_host;                   /* its kernels find pinned memory where the host has it */
  atomic_bool held;                  /* while its calibration is measured: a frame is not yet to begin */
  cudaEvent_t tickets[CUDA_TICKETS]; /* without timing: the end of the copy in that has the ticket, modulo their number */
  _Atomic unsigned next_ticket;
  _Atomic(struct cuda_program *) lost; /* freed when the device was dead already; list by `next_lost` */
};

/*
 * A frame lies on its stream in one part, or in several. Where stages have state, those from the first of them to the last are
 * apart: before, the frame waits for the state, and after it passes it on, by events that no graph has. And so is a stage
 * whose work is beside the frame's graph. The copy in is in the first part, the copy out in the last.
 */
enum { CUDA_PARTS = 2 * GPU_MAX_STAGES + 1 };

struct cuda_part {
  unsigned from, to; /* its stages, without `to` */
  bool takes_state, passes_state;
  bool beside; /* it is in no graph */
  bool hands;  /* it is one stage, which takes frames over */
};

/* How most frames of a program go: step by step, replayed from a graph, or replayed from one in which kernels make the copies.
 */
enum cuda_way { CUDA_STEPS, CUDA_REPLAY, CUDA_REPLAY_COPIED, CUDA_WAYS };

/* Larger frames are left to the engines: on an H200 these win from this size on, and with more slots from a smaller one. */
enum { CUDA_MOST_COPIED = 256 << 10 };

/* How a frame is enqueued. */
struct cuda_pass {
  uint64_t sequence;
  bool restart, again, notify;
  bool differs;     /* a stage has asked for it to be enqueued in another way than most */
  int64_t deadline; /* of a frame that a stage may hold back; 0: none */
  bool timed;       /* with events around its steps */
  bool captured;    /* into a graph, and not to be run now */
  bool copied;      /* copies in a graph are kernels */
  bool answers;     /* the mailbox tells of its end */
};

/* Whether a frame has times. A reference has, but nobody gets them: they only say until when it kept the engines from the
 * frames after it, as it may itself have waited for untimed frames. */
enum cuda_timing { CUDA_UNTIMED, CUDA_REFERENCE, CUDA_TIMED };

/* Who enqueues what is left of a slot's frame. While that is not the lane, only this may be looked at. */
enum cuda_holder { CUDA_LANE, CUDA_STAGE, CUDA_STAGE_ARMED }; /* armed: the lane wants to be told of the frame */

struct cuda_slot {
  struct cuda_program *program;
  struct gpu_buffers buffers;
  unsigned char *memory; /* of the device */
  cudaStream_t stream;
  cudaEvent_t begin, copied_in, computed, copied_out;                   /* NULL where no frame is timed */
  cudaEvent_t finished;                                                 /* these two are without timing */
  cudaEvent_t state_done;                                               /* NULL if the chain has no state */
  cudaEvent_t model_began[GPU_MAX_STAGES], model_ended[GPU_MAX_STAGES]; /* by stage; NULL where its times are the kernels' */
  struct stage_counter *served;                                         /* of this instance: counts its frames */
  unsigned instance;                                /* of the last stage that runs a model; 0: there is none */
  cudaEvent_t out_done;                             /* without timing; NULL if copies out are in no order */
  atomic_bool ordered_out;                          /* out_done is of the latest frame */
  cudaGraphExec_t graphs[CUDA_WAYS][2][CUDA_PARTS]; /* of untimed and of timed frames; NULL: there is none, or nothing in it */
  /* Of the frame that is enqueued: which one came before it; and where a stage takes it over, the rest. */
  const struct cuda_slot *before;
  struct cuda_pass pass;
  _Atomic enum cuda_holder holder;
  unsigned part;
  struct stage_call call;
  struct stage_run run;
  unsigned batch;
  cudaEvent_t ready; /* NULL if no stage does */
  const struct cuda_anchor *anchor;
  uint64_t sequence;
  cudaEvent_t last;  /* what says that this frame is done; NULL: the stream itself */
  uint32_t number;   /* at the slot's doorbell */
  bool resident;     /* this frame is for the kernel that stays */
  bool seen;         /* it was found done */
  enum cuda_way way; /* of this frame */
  enum cuda_timing timing;
  /* Host functions on the stream, of this frame and of earlier ones: the frame is told when all have run. */
  bool notified; /* this frame has one */
  unsigned launched;
  _Atomic unsigned returned;
  _Atomic int64_t told;
  bool read; /* `times` holds this frame's */
  struct gpu_times times;
};

struct cuda_program {
  struct gpu_program base;
  struct chain_layout layout;
  unsigned char *memory;          /* of all slots, then the state; one allocation on the device */
  struct cuda_share *share;       /* NULL: the whole device */
  const struct cuda_slot *latest; /* slot of the last frame submitted, which has the state */
  enum cuda_way way;              /* of frames that do not differ */
  int64_t timed_at;               /* CLOCK_MONOTONIC, when the last frame that has times was submitted */
  bool differs;                   /* a stage enqueues some frames in another way than most */
  void *attached[GPU_MAX_STAGES]; /* by stage; NULL for most */
  bool beside[GPU_MAX_STAGES], hands[GPU_MAX_STAGES];
  bool hands_any;
  atomic_uint resuming;         /* threads of stages that may look at the program still */
  struct cuda_mailbox *mailbox; /* NULL: the device cannot see it */
  unsigned part_count;
  struct cuda_part parts[CUDA_PARTS];
  struct cuda_program *next_lost;
  struct cuda_slot slots[];
};

/* -- cuda_error.c ------------------------------------------------------------------------------------------------------- */

/* Makes the device current for this thread. */
bool cuda_enter(struct gpu_device *device, struct gpu_error *error);

/* environment.c: sets what the driver reads of the environment at its first call. False: there is no memory. */
bool cuda_prepare_driver(bool calibrates);

/* True if `status` is success. Otherwise fills `error` with `what` failed on which device, and why; the device is
 * dead if the error is one that no process survives. */
bool cuda_check(struct gpu_device *device, cudaError_t status, const char *what, struct gpu_error *error);

/* What helps against it; "" if nothing is known. */
const char *cuda_remedy(cudaError_t status);

/* What the answer of a query means; PENDING leaves no error behind for a later launch to be blamed for. */
enum gpu_progress cuda_progress(struct gpu_device *device, cudaError_t status, const char *what, struct gpu_error *error);

/* Calls a function of CUDA and checks it. */
#define CUDA_CALL(device, error, function, ...) cuda_check((device), function(__VA_ARGS__), #function, (error))

/* -- stream.c ----------------------------------------------------------------------------------------------------- */

/* Asks the device which there are. */
bool cuda_stream_find_priorities(struct cuda_device *device, struct gpu_error *error);
/* A stream that waits for no other, whose kernels go before those of lower priorities and keep to the share (NULL: to none). */
bool cuda_stream_new(struct gpu_device *device, enum gpu_priority priority, const struct cuda_share *share,
                     cudaStream_t *stream, struct gpu_error *error);

/* -- share.c ------------------------------------------------------------------------------------------------------ */

/* The share that the options of a program ask for, which says in `share` what it has got, or on NULL why it has none. */
struct cuda_share *cuda_share_take(struct cuda_device *device, struct gpu_program *program);
/* Once the streams of the program have gone; NULL is fine. */
void cuda_share_give_back(struct cuda_device *device, struct cuda_share *share);
bool cuda_share_stream(struct cuda_device *device, const struct cuda_share *share, int priority, cudaStream_t *stream,
                       struct gpu_error *error);
/* All of a device that is being closed. */
void cuda_shares_free(struct cuda_device *device);

/* -- cuda_program.c ----------------------------------------------------------------------------------------------- */

struct gpu_program *cuda_program_new(struct gpu_device *device, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                     unsigned count, const struct gpu_options *options, struct gpu_error *error);
void cuda_program_free(struct gpu_program *program);
/* Frees the host memory of programs that were freed on a dead device. */
void cuda_program_free_lost(struct cuda_device *device);
bool cuda_submit(struct gpu_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error);
enum gpu_progress cuda_ask(struct gpu_program *program, unsigned slot, struct gpu_error *error);
bool cuda_arm(struct gpu_program *program, unsigned slot, struct gpu_error *error);

/* -- cuda_sequence.c ---------------------------------------------------------------------------------------------- */

/* Finds the parts that the program's frames have. */
void cuda_sequence_divide(struct cuda_program *program);
/* Enqueues one part; the last one ends with the host function if the frame notifies. */
bool cuda_sequence_enqueue(struct cuda_slot *slot, unsigned part, const struct cuda_pass *pass, struct gpu_error *error);
/* Gives the frame to the stage that is the slot's part, from where `resume` goes on. */
bool cuda_sequence_hand(struct cuda_slot *slot, void (*resume)(struct stage_call *call), struct gpu_error *error);
/* Whether a part's copy in, or its end, is in an order and so in none of the part's graphs; and whether nothing is left for a
 * graph. */
bool cuda_sequence_begins_beside(const struct cuda_program *program, unsigned part);
bool cuda_sequence_ends_beside(const struct cuda_program *program, unsigned part);
bool cuda_sequence_is_empty(const struct cuda_program *program, unsigned part);
/* Parts of a frame alone: the copy in; the copy out, and the host function if the frame notifies. */
bool cuda_sequence_copy_in(const struct cuda_slot *slot, const struct cuda_pass *pass, struct gpu_error *error);
bool cuda_sequence_end(struct cuda_slot *slot, const struct cuda_pass *pass, struct gpu_error *error);
/* All stages of a frame and nothing else, of a chain without state. */
bool cuda_sequence_stages(struct cuda_slot *slot, const struct cuda_pass *pass, struct gpu_error *error);
/* Enqueues the host function alone, on the slot's stream or on another one. */
bool cuda_sequence_notify(struct cuda_slot *slot, cudaStream_t stream, struct gpu_error *error);
/* Whether every host function that was enqueued for the slot has run. */
enum gpu_progress cuda_told(struct gpu_program *program, unsigned slot);

/* -- cuda_order.c ------------------------------------------------------------------------------------------------- */

bool cuda_order_open(struct cuda_device *device, struct gpu_error *error);
void cuda_order_close(struct cuda_device *device);
/* Whether the program's copies in, and out, are ordered. */
bool cuda_order_in(const struct gpu_program *program);
bool cuda_order_out(const struct gpu_program *program);
/* Around a copy that is. */
bool cuda_order_begin_in(const struct cuda_slot *slot, unsigned *ticket, struct gpu_error *error);
bool cuda_order_end_in(const struct cuda_slot *slot, unsigned ticket, struct gpu_error *error);
bool cuda_order_begin_out(const struct cuda_slot *slot, struct gpu_error *error);
bool cuda_order_end_out(struct cuda_slot *slot, struct gpu_error *error);

/* -- cuda_graph.c ------------------------------------------------------------------------------------------------- */

/* Captures one way to replay, for every slot. For the thread that sets up; nothing may be on the streams. */
bool cuda_graph_make(struct cuda_program *program, enum cuda_way way, struct gpu_error *error);
/* All but those of one way; CUDA_STEPS: all. */
void cuda_graph_drop_others(struct gpu_device *device, struct cuda_slot *slot, enum cuda_way way);
/* Which graph stands for the frame of this pass, or that none does. */
enum cuda_way cuda_graph_way(const struct cuda_slot *slot, struct cuda_pass *pass);
/* Whether frames that go so are told of by the mailbox. */
bool cuda_graph_answers(const struct cuda_program *program, enum cuda_way way, bool timed, bool notify);
/* Launches it, between the steps that stay outside it. */
bool cuda_graph_launch(struct cuda_slot *slot, unsigned part, const struct cuda_pass *pass, struct gpu_error *error);

/* -- mailbox.c ------------------------------------------------------------------------------------------------------- */

/* For the thread that sets up. Makes a mailbox; makes one, and has frames taken by a kernel that stays. */
bool cuda_mailbox_open(struct cuda_program *program, struct gpu_error *error);
bool cuda_mailbox_stay(struct cuda_program *program, struct gpu_error *error);
void cuda_mailbox_close(struct cuda_program *program);
/* The slot's doorbell has the number of another frame; what is enqueued answers; it was answered. */
void cuda_mailbox_ring(struct cuda_slot *slot);
bool cuda_mailbox_enqueue(const struct cuda_slot *slot, struct gpu_error *error);
bool cuda_mailbox_answered(const struct cuda_slot *slot);
/* Whether it is time to ask the device itself, for a frame that was not answered; and on which stream it is. */
bool cuda_mailbox_is_to_ask(const struct cuda_slot *slot);
cudaStream_t cuda_mailbox_stream(const struct cuda_slot *slot);
/* Whether the kernel that stays takes that frame; gives it one; sees to it that somebody hears the doorbell; and that the lane
 * is woken when the frame is done. */
bool cuda_mailbox_takes(const struct cuda_program *program, const struct gpu_frame *frame);
bool cuda_mailbox_submit(struct cuda_slot *slot, const struct gpu_frame *frame, struct gpu_error *error);
bool cuda_mailbox_attend(struct cuda_slot *slot, struct gpu_error *error);
bool cuda_mailbox_arm(struct cuda_slot *slot, struct gpu_error *error);
enum gpu_progress cuda_attend(struct gpu_program *program, struct gpu_error *error);

/* -- cuda_warm_up.c ----------------------------------------------------------------------------------------------- */

bool cuda_warm_up(struct gpu_program *program, struct gpu_error *error);
/* From the next frame on. */
void cuda_choose(struct cuda_program *program, enum cuda_way way);

/* -- cuda_costs.c ------------------------------------------------------------------------------------------------- */

/* Fills those of the program's costs that are not of a frame alone. */
bool cuda_costs(struct gpu_program *program, struct gpu_error *error);

/* -- cuda_clock.c ------------------------------------------------------------------------------------------------- */

bool cuda_clock_open(struct cuda_device *device, struct gpu_error *error);
void cuda_clock_close(struct cuda_device *device);
enum gpu_progress cuda_clock_anchor(struct gpu_device *device, struct gpu_error *error);
const struct cuda_anchor *cuda_clock_current(const struct cuda_device *device);
/* Polls until the event has happened (DONE) or the limit has passed (PENDING). Not on a lane. */
enum gpu_progress cuda_clock_poll(struct cuda_device *device, cudaEvent_t event, int64_t limit, struct gpu_error *error);
/* Records that the slot's frame begins: before anything of it is on the slot's stream, and once that is done with the frame
 * before. */
bool cuda_clock_begin(const struct cuda_slot *slot, struct gpu_error *error);
/* Whether a frame submitted at `now` is timed; `now` matters only where one frame in some is. `alone`: no other frame of its
 * program is on the device. */
enum cuda_timing cuda_clock_timing(const struct gpu_program *program, bool demanded, bool alone, int64_t now);
bool cuda_clock_times(struct gpu_program *program, unsigned slot, struct gpu_times *times);
/* The same, saying what failed. If nothing did, `error` stays as it is: the frame has no times, or not yet. */
bool cuda_clock_read(struct gpu_program *program, unsigned slot, struct gpu_times *times, struct gpu_error *error);

/* -- cuda_overhead.c ---------------------------------------------------------------------------------------------- */

/* Fills the device's calibration; nothing else may be on it. */
bool cuda_overhead_measure(struct cuda_device *device, struct gpu_error *error);
/* Launches an empty kernel on a cudaStream_t; returns a cudaError_t. */
int cuda_nothing(void *stream);

#endif
