/*
 * The C interface to whatever executes frames: CUDA, or a pool of CPU workers behind the same calls.
 *
 * No CUDA type appears here. A device is opened once; a chain is the negotiated list of stages of a pipeline; a
 * program is a chain made ready for one session: for each slot a stream, device buffers, events, and one state
 * shared by the slots in frame order. What always holds:
 *   - at most one frame is on a slot's stream at a time, between gpu_submit() and the poll that says DONE;
 *   - calls marked [lane] never block and never allocate; all others are for the set-up threads;
 *   - a device that said DEAD once is dead for good: only a new process gets it back.
 */
#ifndef FRAMED_GPU_GPU_H
#define FRAMED_GPU_GPU_H

#include <pthread.h>

#include "gpu/priority.h"
#include "gpu/stage.h"

enum { GPU_TEXT = 512, GPU_ADDRESS = 32, GPU_MAX_SLOTS = 16, GPU_MAX_STAGES = 16, GPU_NO_NODE = -1 };

struct gpu_error {
  int code;              /* cudaError_t, errno or 0 */
  bool of_system;        /* `code` is an errno, of what this machine refused: it may pass */
  bool is_stopped;       /* a kernel's fault: the driver has stopped all that this process ran on the device */
  bool no_device;        /* there is no usable device: status 69, or the CPU backend */
  int stage;             /* index of the stage concerned, or -1 */
  char text[GPU_TEXT];   /* what and where */
  char remedy[GPU_TEXT]; /* what to do about it; may be empty */
};

/* A kernel that stays on the device reads its frames over the link, which for larger ones the engines do better. Of stages it
 * knows those whose arithmetic is in cuda/mailbox.cu. */
enum { GPU_MOST_RESIDENT = 64 << 10 };
enum gpu_resident_step { RESIDENT_NONE, RESIDENT_AFFINE, RESIDENT_WORK, RESIDENT_THRESHOLD, RESIDENT_FAULT };

enum gpu_backend_choice { GPU_BACKEND_AUTO, GPU_BACKEND_CUDA, GPU_BACKEND_CPU };

struct gpu_device;

enum gpu_progress { GPU_PENDING, GPU_DONE, GPU_DEAD };

/* Whether devices and models are opened for a service that stands still meanwhile: then nothing is searched for or weighed that
 * may be left as it is. Any thread. */
void gpu_hurry(bool hurries);

/* Who is told of each thread that computes frames or puts them on a GPU, beside those that submit them, before it has any
 * (NULL: nobody). While there are no programs; it is called by threads that set up. */
typedef void gpu_new_thread(void *context, pthread_t thread);
void gpu_on_thread(gpu_new_thread *told, void *context);

/* Says how many slots the programs on one device will have, so that few slots have few hardware queues: each one makes a
 * process slower to start and to end, by 15 ms and 10 ms on an H200. There are 8 at most, as many as the driver makes by
 * itself; slots beyond that share queues. Call before the first device is opened: the driver looks only then. */
void gpu_expect(unsigned slots);

/* Opens device `index`. AUTO takes CUDA where an NVIDIA device node exists and CPU only where none does: a
 * present but unusable GPU is an error, not a silent fall back. `workers` is the size of the CPU pool (0: one a
 * processor). Call before any thread that may use CUDA is started. Returns NULL on error. */
struct gpu_device *gpu_open(enum gpu_backend_choice choice, unsigned index, unsigned workers, struct gpu_error *error);

/* What opening a device measures of each step, in ns, for frames that are enqueued step by step and for replayed ones: how much
 * of a step's time is due to the events around it, and (`..._next`), where it follows the same step of another frame, what the
 * engine and the events take between the two. The process after this one can use it too and need not measure again. All 0 on
 * the CPU backend. */
struct gpu_overhead {
  int64_t h2d, kernel, d2h;
};
struct gpu_calibration {
  struct gpu_overhead plain, replayed, copied; /* `copied`: replayed, with kernels for copies */
  struct gpu_overhead plain_next, replayed_next, copied_next;
  char address[GPU_ADDRESS]; /* of PCI; empty: it has none. Whoever opens it again gets the device there, whatever its number */
};

/* gpu_open() with what another process has measured; NULL: measure. */
struct gpu_device *gpu_open_calibrated(enum gpu_backend_choice choice, unsigned index, unsigned workers,
                                       const struct gpu_calibration *known, struct gpu_error *error);
/* How many devices there are, the first of which has the number 0; the CPU appears as `cpus`. May load the driver. */
unsigned gpu_count(enum gpu_backend_choice choice, unsigned cpus);
/* Whether the device could be opened, said without opening it, which would take memory and time. */
bool gpu_usable(enum gpu_backend_choice choice, unsigned index, struct gpu_error *error);

/* What the driver or the toolkit of the build lacks, a sentence each with the version that has it; empty: nothing. Other
 * features work without these. */
struct gpu_lacks {
  char shares[GPU_TEXT]; /* `share` of a pipeline */
  char models[GPU_TEXT]; /* the stage `model` on a GPU */
};

void gpu_find_lacks(enum gpu_backend_choice choice, struct gpu_lacks *lacks);
void gpu_calibration(const struct gpu_device *device, struct gpu_calibration *calibration);

/* Programs must be gone. Returns NULL. */
struct gpu_device *gpu_close(struct gpu_device *device);

const char *gpu_backend_name(const struct gpu_device *device); /* "cuda" or "cpu" */
const char *gpu_device_name(const struct gpu_device *device);  /* "NVIDIA H200", or the processor's name */
/* Of PCI, as "0000:18:00.0"; "" for the CPU backend. */
const char *gpu_device_address(const struct gpu_device *device);
/* The NUMA node whose memory is nearest to the device, or GPU_NO_NODE where the kernel names none and for the CPU backend,
 * whose workers run anywhere. */
int gpu_node(const struct gpu_device *device);
/* For how many slots the device runs stages at once: 1 for a GPU, whose kernels take all of it, else the number of workers. */
unsigned gpu_kernels_at_once(const struct gpu_device *device);
/* Free and total memory of the device in bytes; of the host for the CPU backend. */
bool gpu_memory(const struct gpu_device *device, size_t *available, size_t *total);

/* Has the device answer, and relates its clock to CLOCK_MONOTONIC. Call it every few seconds from one thread, which may wait
 * for some microseconds. PENDING: no answer came for 2 ms, since the device is busy or hangs. DEAD: it failed. */
enum gpu_progress gpu_anchor(struct gpu_device *device, struct gpu_error *error);

/* Registers memory with the device, so that copies run at the link's rate. Nothing to do for the CPU. */
bool gpu_pin(struct gpu_device *device, void *base, size_t bytes, struct gpu_error *error);
void gpu_unpin(struct gpu_device *device, void *base, size_t bytes);

/* What is registered with a device and what programs have allocated on it at this moment, in bytes. Any thread. */
struct gpu_usage {
  size_t pinned, allocated;
};

void gpu_usage(const struct gpu_device *device, struct gpu_usage *usage);

/* Declares the device dead, for a reason that only the caller can see (a frame that does not finish in time), so
 * that nothing waits for it any more, gpu_program_free() included. Any thread; never blocks. */
void gpu_abandon(struct gpu_device *device, const char *reason);
/* Whether the device is dead, for whatever reason. Any thread; never blocks. */
bool gpu_is_lost(const struct gpu_device *device);

/* -- chains: formats negotiated, nothing allocated on a device ------------------------------------------- */

struct gpu_stage_request {
  const struct stage_about *stage;
  const struct stage_descriptor *own; /* instead of `stage`: a stage that stands in no table; NULL: none */
  struct stage_value values[STAGE_MAX_PARAMETERS];
  void *resource;
  unsigned users; /* slots of all programs that have this stage, or 0 */
};

struct gpu_chain;

/* Negotiates the formats from stage to stage; error->stage names the one that does not fit. No stage at all is
 * a chain too: frames pass through the device unchanged. Returns NULL on error. */
struct gpu_chain *gpu_chain_new(const struct frame_format *input, const struct gpu_stage_request *requests, unsigned count,
                                struct gpu_error *error);
struct gpu_chain *gpu_chain_free(struct gpu_chain *chain); /* NULL is fine; returns NULL */
/* Whether all stages can run where gpu_open() would open a device; error->stage names one that cannot. */
bool gpu_chain_runs(const struct gpu_chain *chain, enum gpu_backend_choice choice, struct gpu_error *error);
/* Whether a kernel that stays on the device can compute it: each stage takes one sample at a time, and frames are small. */
bool gpu_chain_resides(const struct gpu_chain *chain, struct gpu_error *error);
/* Which step of a kernel that stays on a GPU the stage is. */
enum gpu_resident_step gpu_resident_step(const struct stage_about *stage);
/* Whether its frames may be dealt over joined devices: no stage has a state; error->stage names one that has. */
bool gpu_chain_spreads(const struct gpu_chain *chain, struct gpu_error *error);
/* Whether a stage of it runs what others wrote. */
bool gpu_chain_is_foreign(const struct gpu_chain *chain);
const struct frame_format *gpu_chain_input(const struct gpu_chain *chain);
const struct frame_format *gpu_chain_output(const struct gpu_chain *chain);
const struct stage_plan *gpu_chain_stage(const struct gpu_chain *chain, unsigned index); /* NULL behind the last */
/* Says anew how many slots its programs have in all, for stages that share what they run: 0 once another chain is to take its
 * place, whose programs are made while these still run. */
void gpu_chain_count_users(struct gpu_chain *chain, unsigned users);
/* Adds the files that its stages were prepared from to a list as kept_list() does. */
unsigned gpu_chain_files(const struct gpu_chain *chain, struct kept_file *list, unsigned count, unsigned most);
/* The names of the classes in the result, or NULL. */
const char *const *gpu_chain_labels(const struct gpu_chain *chain, unsigned *count);
/* Device memory that one program with `slots` slots takes, in bytes. (The CPU backend takes less: it works on the
 * pinned buffers themselves.) */
size_t gpu_chain_device_bytes(const struct gpu_chain *chain, unsigned slots);

/* -- programs: a chain ready to run for one session ------------------------------------------------------- */

struct gpu_program;

struct gpu_buffers {
  const void *input; /* pinned, 256 byte aligned; input bytes of the chain */
  void *output;      /* the same; output bytes of the chain */
};

/* Called, from any thread, when a frame that asked for it has left its stream; must only wake. */
typedef void gpu_wake(void *context);

enum gpu_graph_choice { GPU_GRAPH_AUTO, GPU_GRAPH_ON, GPU_GRAPH_OFF };

/* Whether a frame's copies wait for those of the frame before, so that copies of one direction never share the link; AUTO:
 * where they are large. Copies that wait are not part of a frame's graph, if it replays one. */
enum gpu_order_choice { GPU_ORDER_AUTO, GPU_ORDER_ON, GPU_ORDER_OFF };

/* Whether the copy engines or kernels make the copies of frames that replay a graph; AUTO: whichever the warm-up finds better.
 * Large copies, those that are in an order, and those of frames that go step by step are always the engines'. */
enum gpu_copy_choice { GPU_COPY_AUTO, GPU_COPY_ENGINE, GPU_COPY_KERNEL };

enum { GPU_TIMED_AUTO = 0, GPU_TIMED_NEVER = -1 };

/* Where AUTO times one frame in N, a power of two, it times all for one window of the clock in every N. */
#define GPU_TIMED_WINDOW_NS INT64_C(7919000)
enum { GPU_TIMED_RAREST = 256 };
/* A frame that has the program to itself is also timed if none was for this long. Its wait for untimed copies of other programs
 * then counts as its service. */
#define GPU_TIMED_OVERDUE_NS INT64_C(100000000)

/* What the warm-up measures of a program's frames, in ns; 0 where it did not. */
struct gpu_costs {
  int64_t alone;                  /* from one frame to the next with no other on the device, which is asked until done */
  int64_t lane;                   /* of that, the caller's time in gpu_submit() and in the gpu_ask() that says DONE */
  int64_t h2d, kernel, d2h;       /* the service times of such a frame; 0 where frames have no times */
  int64_t shared_h2d, shared_d2h; /* from copy to copy in one direction, while the other is as busy */
  int64_t kernels;                /* from one frame's kernels to those of the next, on all slots' streams side by side */
};

struct mailbox_words; /* gpu/record/mailbox.h */

/* What is zero or NULL is the default. */
struct gpu_options {
  gpu_wake *wake;
  void *context;               /* for wake() */
  bool notify;                 /* whether frames will ask for wake(), which is what the warm-up prepares for */
  enum gpu_graph_choice graph; /* whether frames replay a captured sequence; AUTO: whichever the warm-up finds better */
  int timed_one_in;            /* 1: every frame has times, N: one in N while frames come fast, or one of GPU_TIMED_... */
  unsigned spared; /* a bit for each slot whose output must stay, or whose input may break the device: no warm-up frame goes
                    * through it, and nothing is measured that is decided by AUTO only */
  enum gpu_order_choice order; /* of copies; the CPU backend makes none */
  enum gpu_copy_choice copy;
  enum gpu_priority priority;    /* of its frames before those of other programs of the device */
  bool resident;                 /* on CUDA, frames without `notify` are computed by a kernel that stays on the device */
  int64_t linger_ns;             /* for so long after the last one */
  struct mailbox_words *mailbox; /* in which another process rings for such frames; NULL: none does */
  unsigned share;                /* percent of a GPU's multiprocessors that its kernels keep to; 0: all */
  const char *owner;             /* whose programs have that share together */
  bool weigh;                    /* whether the warm-up measures what frames cost, unless a slot is spared */
};

/* Makes streams, buffers and events for `count` slots. The chain must outlive the program. NULL on error. */
struct gpu_program *gpu_program_new(struct gpu_device *device, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                    unsigned count, const struct gpu_options *options, struct gpu_error *error);
/* Runs frames through every slot and waits for them, so that no first launch ever stalls a lane; makes the graphs, and
 * measures what AUTO leaves open. Calls wake() for none of them. */
bool gpu_program_warm_up(struct gpu_program *program, struct gpu_error *error);
/* After the warm-up: whether frames replay graphs (never on the CPU backend, which has none); and gpu_program_timed_one_in():
 * one frame in how many has times (0: none), which is 1 on the CPU backend unless times are off. Any thread. */
bool gpu_program_graph(const struct gpu_program *program);
/* After the warm-up: whether kernels make the copies. Any thread. */
bool gpu_program_copies_by_kernel(const struct gpu_program *program);
unsigned gpu_program_timed_one_in(const struct gpu_program *program);
/* After the warm-up: whether frames may be given by ringing in options->mailbox instead of by gpu_submit(). Any thread. */
bool gpu_program_is_rung(const struct gpu_program *program);

/* Of a program that asked for a share. */
struct gpu_share {
  unsigned processors, of; /* multiprocessors of it and of the device; 0: it has none, and the whole device */
  char why[GPU_TEXT];      /* then */
};
void gpu_program_share(const struct gpu_program *program, struct gpu_share *share);

/* What the warm-up measured to decide it, in ns from frame to frame with all slots busy; 0 where it did not. */
struct gpu_measured {
  int64_t plain, graph;   /* step by step, and replayed with copies by the engines */
  int64_t copied;         /* replayed with copies by kernels */
  int64_t untimed, timed; /* in the way that was chosen */
};

void gpu_program_measured(const struct gpu_program *program, struct gpu_measured *measured);
/* After the warm-up; any thread. */
void gpu_program_costs(const struct gpu_program *program, struct gpu_costs *costs);
/* Waits for what is on the streams, but not on a dead device: one that hangs must be abandoned first. NULL is fine;
 * returns NULL. */
struct gpu_program *gpu_program_free(struct gpu_program *program);

struct gpu_frame {
  uint64_t sequence;
  bool restart;     /* first frame of a session: state starts anew */
  bool notify;      /* call wake() when it is done (the `callback` completion) */
  bool timed;       /* shall have times, whatever `timed_one_in` says, unless times are off */
  bool again;       /* it was on a device that failed, and runs once more */
  int64_t deadline; /* CLOCK_MONOTONIC ns, when its result should be there: it is late unless it is begun by then, and no stage
                       holds it back for others any longer; 0: none */
};

/* [lane] Enqueues copy in, stages, copy out and completion on the slot's stream. False: the device is dead. */
bool gpu_submit(struct gpu_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error);

/* [lane] Once the slot's frame is DONE and before its next submit: why a stage could not compute it, which is nobody's fault
 * but the frame's, and whose result is none; NULL: it was computed. */
const char *gpu_refusal(struct gpu_program *program, unsigned slot);

/* [lane] The same for a frame that was late when its turn came, and was left out; never on CUDA, where what was submitted runs.
 */
bool gpu_late(struct gpu_program *program, unsigned slot);

/* [lane] Whether the slot's frame is done, as far as its callback has told: one atomic read. Never says DEAD. */
enum gpu_progress gpu_told(struct gpu_program *program, unsigned slot);
/* [lane] The same, asking the device: what `spin` polls, and the only way to find a fault. */
enum gpu_progress gpu_ask(struct gpu_program *program, unsigned slot, struct gpu_error *error);
/* [lane] Makes sure that wake() is called once the slot's frame is done, although it was submitted without `notify`. Ask once
 * more after arming: a frame that was done before may or may not wake. False: the device is dead. */
bool gpu_arm(struct gpu_program *program, unsigned slot, struct gpu_error *error);

/* [lane] Of a program that is rung: launches its kernel again where a frame would wait for that. PENDING: a frame is not done
 * or was rung since the call before, or the kernel is there. DEAD: so is the device. */
enum gpu_progress gpu_attend(struct gpu_program *program, struct gpu_error *error);

/* When the frame passed each step, in ns of CLOCK_MONOTONIC as the device's anchor gives it, and for how long the steps served
 * it: a copy's service time excludes the wait for the copy before it on the same engine, and what the device takes to get from
 * that copy to this one, or from one step to the next where the frame is alone. */
struct gpu_times {
  int64_t begin, copied_in, computed, copied_out;
  int64_t h2d, kernel, d2h; /* ns of service */
  int64_t wait;             /* ns between begin and copied_out that are in none of the three */
  int64_t others;           /* of `kernel`, what the other frames of its batch took; on a GPU no time is that of two frames */
  int64_t told;             /* when the callback ran, or 0 */
  int64_t modelled, model;  /* when the last stage that runs a model was done, and the ns that such stages took of the kernels'
                             * time, without the wait for an instance */
  uint64_t instance;        /* which instance of its model that one ran, from 1; 0: no model took part */
  uint64_t batch;           /* frames that went through that model together; 0: this one went by itself */
};

/* [lane] Valid once the slot's frame is DONE and before its next submit. False if the frame has no times: it was not one
 * of those that are timed, or the device is dead. */
bool gpu_times(struct gpu_program *program, unsigned slot, struct gpu_times *times);

#endif
