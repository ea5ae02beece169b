/*
 * What the two backends share with what calls them; nobody outside gpu/ includes this. From the lowest: backend.c (errors,
 * death), chain.c, the backends (cpu*.c, cuda*.c), gpu.c (calls through the table), warm_up.c, open.c (chooses the backend).
 *
 * A backend is one table of functions. Its device and program structs begin with struct gpu_device and struct
 * gpu_program, so that gpu.c, which owns everything common (opening, the cause of death, warm-up), needs no cast
 * into them. gpu.c has checked "is the device dead" before it calls submit, arm, anchor and pin.
 */
#ifndef FRAMED_GPU_BACKEND_H
#define FRAMED_GPU_BACKEND_H

#include "gpu/gpu.h"

#include <stdatomic.h>
#include <time.h>

enum { GPU_ALIGNMENT = 256, GPU_NAME = 128 };

/* A first launch may compile for seconds; a frame that takes longer than this never ends. */
#define GPU_WARM_UP_LIMIT_NS INT64_C(30000000000)
#define GPU_WARM_UP_HANGS    "a warm-up frame did not finish within 30 s"

struct gpu_backend {
  const char *name;
  void (*close)(struct gpu_device *device);
  bool (*memory)(const struct gpu_device *device, size_t *available, size_t *total);
  enum gpu_progress (*anchor)(struct gpu_device *device, struct gpu_error *error);
  bool (*pin)(struct gpu_device *device, void *base, size_t bytes, struct gpu_error *error);
  void (*unpin)(struct gpu_device *device, void *base, size_t bytes);
  struct gpu_program *(*program_new)(struct gpu_device *device, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                     unsigned count, const struct gpu_options *options, struct gpu_error *error);
  /* After each slot had its first frame: makes graphs, and decides what the options leave open. */
  bool (*prepare)(struct gpu_program *program, struct gpu_error *error);
  /* Measures those parts of struct gpu_costs that no single frame tells; NULL: there are none. */
  bool (*costs)(struct gpu_program *program, struct gpu_error *error);
  void (*program_free)(struct gpu_program *program);
  bool (*submit)(struct gpu_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error);
  enum gpu_progress (*told)(struct gpu_program *program, unsigned slot);
  /* Says PENDING if the device is dead and the backend does not know it; gpu.c turns that into DEAD. */
  enum gpu_progress (*ask)(struct gpu_program *program, unsigned slot, struct gpu_error *error);
  bool (*arm)(struct gpu_program *program, unsigned slot, struct gpu_error *error);
  enum gpu_progress (*attend)(struct gpu_program *program, struct gpu_error *error); /* NULL: no program is rung there */
  bool (*times)(struct gpu_program *program, unsigned slot, struct gpu_times *times);
  const char *(*refusal)(struct gpu_program *program, unsigned slot); /* NULL: no stage can refuse a frame there */
  bool (*late)(struct gpu_program *program, unsigned slot);           /* NULL: no frame is left out there */
};

/* Dying is the moment in which one thread writes the cause; nobody reads it before the device is dead. */
enum gpu_condition { GPU_ALIVE, GPU_DYING, GPU_LOST };

struct gpu_device {
  const struct gpu_backend *backend;
  char name[GPU_NAME];
  char address[GPU_ADDRESS]; /* of PCI; empty: it has none */
  int node;                  /* of NUMA, or GPU_NO_NODE */
  unsigned workers;          /* 0: kernels run one after the other */
  struct gpu_calibration calibration;
  _Atomic enum gpu_condition condition;
  struct gpu_error cause;
  _Atomic size_t pinned, allocated; /* bytes */
};

struct gpu_program {
  struct gpu_device *device;
  const struct gpu_chain *chain;
  unsigned slot_count;
  struct gpu_options options;
  bool graph, copies_by_kernel; /* what the warm-up decided */
  bool is_rung;                 /* frames come by options.mailbox */
  unsigned timed_one_in;        /* the same; 0: no frame is */
  bool silent;                  /* during the warm-up: being told of a frame wakes nobody */
  struct gpu_measured measured;
  struct gpu_costs costs;
  struct gpu_share share;
  void *sessions[GPU_MAX_STAGES]; /* what the stages' begin() made */
  size_t device_bytes;            /* what the backend has allocated on the device; 0 where the device is the host */
};

/* The frames of one instance of a model. */
struct stage_counter {
  _Atomic uint64_t frames;
};

/* Counts a frame, but none of a warm-up. `counter` may be NULL. */
static inline void stage_count(struct stage_counter *counter, uint64_t sequence) {
  if (counter && sequence != STAGE_WARM_UP) {
    atomic_fetch_add_explicit(&counter->frames, 1, memory_order_relaxed);
  }
}

/* Whether this process has loaded a library with kernels of its own, of which most are never used: so many that a device must
 * not load all of them when it is opened. */
void gpu_expect_library(void);
bool gpu_expects_library(void);
bool gpu_hurries(void); /* see gpu_hurry() */
void gpu_tell_of_thread(pthread_t thread);
/* Begins a thread that takes no signals: those belong to the threads of the daemon. 0, or why not, as pthread_create() says. */
int gpu_thread_new(pthread_t *thread, const char *name, void *(*work)(void *context), void *context);

#ifdef FRAMED_FAULTS
bool gpu_fault_has_lost(unsigned device); /* see tests/fault/fault.h */
#endif

/* Fills what is common, before the first submit. */
void gpu_program_init(struct gpu_program *program, struct gpu_device *device, const struct gpu_chain *chain, unsigned count,
                      const struct gpu_options *options);

/* -- opening, by open.c --------------------------------------------------------------------------------------------- */

struct gpu_device *cpu_open(unsigned index, unsigned workers, struct gpu_error *error);
#ifdef FRAMED_CUDA
void cuda_expect(unsigned slots);
unsigned cuda_count(void);
bool cuda_usable(unsigned index, struct gpu_error *error);
void cuda_find_lacks(struct gpu_lacks *lacks);
struct gpu_device *cuda_open(unsigned index, const struct gpu_calibration *known, struct gpu_error *error);
#endif

/* Whether `directory` (really /dev) has a node of an NVIDIA device or driver. */
bool gpu_nvidia_present(const char *directory);

/* The compute capability of the device that was opened last (90: 9.0), or 0: what users' source is compiled for first. */
void gpu_set_architecture(int architecture);
int gpu_architecture(void);

/* The NUMA node of the PCI device with that address ("0000:18:00.0"), as the kernel tells under `directory` (really
 * /sys/bus/pci/devices), or GPU_NO_NODE. */
int gpu_pci_node(const char *directory, const char *address);

/* -- errors ----------------------------------------------------------------------------------------------------- */

/* Fills `error` with stage -1 and no_device false. Returns false. */
__attribute__((format(printf, 4, 5))) bool gpu_error_set(struct gpu_error *error, int code, const char *remedy,
                                                         const char *format, ...);

/* Who is told of a device that dies, by the thread that finds it. NULL: nobody. Before any is opened. */
void gpu_on_death(void (*told)(const struct gpu_error *error));
/* The device is dead from now on, for the reason in `error`; the first reason stays. Any thread. */
void gpu_device_die(struct gpu_device *device, const struct gpu_error *error);
/* Whether the device is dead; fills `error` (may be NULL) with the reason. Asked several times a frame. */
static inline bool gpu_device_is_dead(const struct gpu_device *device, struct gpu_error *error) {
  if (atomic_load_explicit(&device->condition, memory_order_acquire) != GPU_LOST) {
    return false;
  }
  if (error) {
    *error = device->cause;
  }
  return true;
}

/* -- chains ----------------------------------------------------------------------------------------------------- */

struct gpu_chain {
  struct frame_format input;
  size_t input_bytes, output_bytes;
  unsigned length;
  bool takes_source; /* some stage does, so that what came in is kept until the frame is done */
  unsigned prepared; /* so many plans may have something to release */
  /* Stages with state run in frame order from the first of them to the last; -1 where there is none. */
  int first_stateful, last_stateful;
  struct stage_plan plans[]; /* `length` of them */
};

/*
 * Where a program's memory lies. Stage k of n reads buffer k % 2 and writes the other one, so two buffers hold a
 * chain of any length: buffer 0 begins as the input and buffer n % 2 ends as the output. Where a stage takes what came in, the
 * input has a place of its own, which nobody writes to. All offsets are aligned.
 */
struct chain_layout {
  size_t input, buffer[2], scratch; /* offsets within a slot */
  size_t slot_bytes;                /* of each slot */
  size_t state[GPU_MAX_STAGES];     /* offsets within the state, which the slots share */
  size_t state_bytes, total_bytes;  /* total: all slots and one state */
};

/* Whether each stage can run on that backend. */
bool chain_runs(const struct gpu_chain *chain, bool on_cuda, struct gpu_error *error);

/* `ends`: input and output are buffers of the device too; otherwise only what lies between stages is. */
void chain_layout(const struct gpu_chain *chain, bool ends, unsigned slots, struct chain_layout *layout);

static inline int64_t gpu_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
