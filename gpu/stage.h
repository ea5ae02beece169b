/*
 * What a stage is: one step on the GPU, described by one constant table and run by either backend.
 *
 * A descriptor is complete before the first frame: prepare() has turned parameters and input format into a
 * struct stage_plan, and from then on running a frame only reads that plan. The arithmetic is written once, in
 * stages/NAME.h, as inline functions that the C compiler and nvcc both take; it is compiled without contraction
 * of multiply and add on both sides, so that both backends compute the same bits wherever libm does.
 */
#ifndef FRAMED_GPU_STAGE_H
#define FRAMED_GPU_STAGE_H

#include "gpu/format.h"
#include "gpu/kept.h"
#include "gpu/priority.h"
#include "gpu/record/stage_about.h"

enum {
  STAGE_CONSTANTS = 256, /* bytes of prepared constants, passed to a kernel by value */
  STAGE_MAX_FILES = 3
};

/* One entry of a STAGE_SETTINGS. */
struct stage_setting {
  const char *name;
  const char *text; /* NULL: numbers */
  unsigned count;
  double numbers[STAGE_MAX_NUMBERS];
};

/* One value for each parameter of the stage, in its order. What it points to is gone after prepare(). */
struct stage_value {
  bool given; /* false: `numbers[0]` holds the default */
  unsigned count;
  double numbers[STAGE_MAX_NUMBERS];
  const char *text; /* of a STAGE_WORD or STAGE_FILE; NULL if it was not given */
  const struct stage_setting *settings;
  unsigned setting_count;
};

struct stage_plan {
  const struct stage_descriptor *stage;
  struct frame_format input, output;
  struct frame_format source; /* what came into the pipeline */
  bool takes_source;          /* set by prepare(): the stage reads that frame too */
  size_t input_bytes, output_bytes;
  size_t state_bytes;   /* kept from frame to frame for one session, zeroed at its start; 0: none */
  size_t scratch_bytes; /* device memory of the slot that the stage may use during a frame */
  unsigned users;       /* slots of all programs that the chain is for, if the caller knows, else 0 */
  void *resource;       /* of the request: what the caller opened for the stage and keeps until the chain is freed */
  void *object;         /* on the heap, made by prepare() and freed by release() */
  struct kept_file files[STAGE_MAX_FILES]; /* what prepare() read, closed with the chain */
  const char *remedy;        /* a constant of prepare()'s, where it refuses for another reason than the format that comes in */
  const char *not_on_cpu;    /* why it cannot run there, and what would help: "..., WHY; REMEDY"; NULL: it can */
  const char *not_on_cuda;   /* the same */
  const char *const *labels; /* names of the result's classes, which live as long as the plan */
  unsigned label_count;
  _Alignas(16) unsigned char constants[STAGE_CONSTANTS]; /* of a type that stages/NAME.h defines */
};

/* The sequence of the frames that warm a program up: they are nobody's, and no session ever counts that far. */
#define STAGE_WARM_UP UINT64_MAX

/* Where a slot's frames lie on a device for one stage. */
struct stage_buffers {
  void *input, *output;
};

struct gpu_device;
struct gpu_error;

struct stage_counter; /* backend.h */

/* What a stage that runs a model tells of one frame. */
struct stage_run {
  unsigned instance;            /* which of its model took the frame, from 1; */
  struct stage_counter *served; /* what counts the frames of that one, for the caller to raise; NULL: nothing does */
  unsigned batch;               /* frames that went through it together, this one among them; 0: it went by itself */
  int64_t from, until;          /* CLOCK_MONOTONIC: when a frame that was handed over was computed on the CPU */
  void *began, *ended;          /* of a GPU: events (cudaEvent_t) to record around the model; NULL: the frame has no times */
};

/* One run of one stage on one frame. Pointers are 256 byte aligned, and what is behind a frame up to the next such address
 * may be read on a GPU; input and output never overlap. */
struct stage_call {
  const void *input;
  void *output;
  const void *source; /* the frame that came into the pipeline; NULL unless some stage takes it */
  void *state;        /* NULL if state_bytes is 0 */
  void *scratch;      /* NULL if scratch_bytes is 0 */
  void *session;      /* what begin() made */
  uint64_t sequence;  /* the frame's number within its session */
  bool restart;       /* first frame of a session: `state` must be taken as empty */
  bool again;         /* the frame was on a device that failed, and runs once more */
  enum gpu_priority priority;
  int64_t deadline; /* CLOCK_MONOTONIC: when the result should be there; 0: it has none */
  void *attached;   /* what attach() or join() gave, and the number of the slot within it; NULL without them */
  unsigned slot;
  struct stage_run *run; /* for a stage that runs a model, else NULL */
  void *stream, *ready;  /* of a frame that is handed over on a GPU: its cudaStream_t, and the cudaEvent_t of its input */
  void (*resume)(struct stage_call *call); /* of a frame that is handed over: it was computed. Any thread */
  char *problem; /* STAGE_TEXT bytes, empty at first: where run() says in one sentence why it failed */
};

struct stage_descriptor {
  const struct stage_about *about;

  /* Fills output format, sizes and constants of the plan (stage and input are set). On false, `problem` says
   * in one sentence, without a full stop, what does not fit and what would. */
  bool (*prepare)(struct stage_plan *plan, const struct stage_value *values, char problem[STAGE_TEXT]);

  /* Frees what prepare() made, after it gave true. NULL: nothing. */
  void (*release)(struct stage_plan *plan);

  /* `users` of the plan is another number. NULL: nothing depends on it. */
  void (*count_users)(struct stage_plan *plan, unsigned users);

  /* Makes what the frames of one session share on the host, with a program on its device; on NULL `problem` says why. end()
   * frees it once no frame is left. NULL: nothing. */
  void *(*begin)(const struct stage_plan *plan, bool on_cuda, char problem[STAGE_TEXT]);
  void (*end)(const struct stage_plan *plan, void *session);

  /* Runs on one thread of the CPU pool. */
  void (*run)(const struct stage_plan *plan, const struct stage_call *call);

  /* Enqueues on a CUDA stream (cudaStream_t as void *); returns a cudaError_t. Enqueues only: no allocation, no
   * synchronisation, nothing on the default stream; works under stream capture. NULL without CUDA. */
  int (*enqueue)(const struct stage_plan *plan, const struct stage_call *call, void *stream);

  /* For a stage that needs more on a GPU than the slot's memory: makes that for the slots of one program, or for no slots all
   * that a later program needs besides. Says whether what enqueue() does must be `beside` the frame's graph. NULL: none. For
   * threads that set up; NULL on error. */
  void *(*attach)(struct gpu_device *device, const struct stage_plan *plan, const struct stage_buffers *slots, unsigned count,
                  bool *beside, struct gpu_error *error);
  void (*detach)(void *attached);

  /* For a stage that may compute frames of several programs together, in threads of its own, if joins() says so of the plan.
   * join() gives a program its place among them, leave() takes it back once none of the program's frames is there; for threads
   * that set up; NULL on error. hand() takes a frame, in any thread, and the call with it until resume(). NULL: it does not. */
  bool (*joins)(const struct stage_plan *plan);
  void *(*join)(struct gpu_device *device, const struct stage_plan *plan, struct gpu_error *error);
  void (*leave)(void *joined);
  void (*hand)(struct stage_call *call);

  /* Whether the frame of that number is enqueued differently from others, so that a captured graph cannot stand for it. NULL:
   * none is. (Where the stage has state, the first frame of a session is too; that is known without asking.) */
  bool (*differs)(const struct stage_plan *plan, uint64_t sequence);
};

/* The record of a stage that stands in no table. */
#define STAGE_UNLISTED(text)                                                                                                   \
  .about = &(const struct stage_about) { .name = (text) }

/* In the order of stage_abouts. */
extern const struct stage_descriptor *const stage_descriptors[];

const struct stage_descriptor *stage_of(const struct stage_about *about); /* NULL if it is not in that table */

/* Declares the descriptor's launcher where the build has CUDA, and stands for NULL elsewhere. */
#ifdef FRAMED_CUDA
#define STAGE_ENQUEUE(function) (function)
#else
#define STAGE_ENQUEUE(function) NULL
#endif

/* Marks arithmetic that both compilers take. */
#ifdef __CUDACC__
#define STAGE_INLINE static __host__ __device__ __forceinline__
#else
#define STAGE_INLINE static inline
#endif

#endif
