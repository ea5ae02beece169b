/*
 * What the files of the CUDA backend share; besides the kernels, nothing else includes the CUDA headers.
 *
 * cuda.c opens devices, pins memory and turns errors into values; cuda_program.c puts frames on streams and finds
 * them done; cuda_clock.c says when each step was. Every call is made by a thread that has entered the device, on a
 * stream of our own: nothing touches the default stream.
 */
#ifndef FRAMED_GPU_CUDA_H
#define FRAMED_GPU_CUDA_H

#include "gpu/backend.h"

#include <cuda_runtime_api.h>

/* An anchor may be used by a frame for as long as it takes to make this many new ones. */
enum { CUDA_ANCHORS = 16 };

/* One moment on both clocks. All times of a device lie on one axis that begins at the first anchor. */
struct cuda_anchor {
  cudaEvent_t event;
  int64_t device_ns; /* of `event`, on that axis */
  int64_t offset;    /* to add to get CLOCK_MONOTONIC */
};

struct cuda_device {
  struct gpu_device base;
  int index;
  cudaStream_t clock;
  struct cuda_anchor anchors[CUDA_ANCHORS];
  _Atomic unsigned anchor; /* index of the one in force */
  /* Until when each engine was busy with frames whose times were read, on the device's axis. */
  _Atomic int64_t h2d_end, kernel_end, d2h_end;
  _Atomic(struct cuda_program *) lost; /* freed when the device was dead already; list by `next_lost` */
};

struct cuda_slot {
  struct cuda_program *program;
  struct gpu_buffers buffers;
  unsigned char *memory; /* of the device */
  cudaStream_t stream;
  cudaEvent_t begin, copied_in, computed, copied_out;
  cudaEvent_t state_done; /* without timing; NULL if the chain has no state */
  const struct cuda_anchor *anchor;
  uint64_t sequence;
  /* Host functions on the stream, of this frame and of earlier ones: the frame is told when all have run. */
  bool notified; /* this frame has one */
  unsigned launched;
  _Atomic unsigned returned;
  _Atomic int64_t told;
  bool timed; /* `times` holds this frame's */
  struct gpu_times times;
};

struct cuda_program {
  struct gpu_program base;
  struct chain_layout layout;
  unsigned char *memory;           /* of all slots, then the state; one allocation on the device */
  const struct cuda_slot *ordered; /* slot of the last frame submitted, which has the state */
  struct cuda_program *next_lost;
  struct cuda_slot slots[];
};

/* -- cuda.c ------------------------------------------------------------------------------------------------------- */

/* Makes the device current for this thread. */
bool cuda_enter(struct gpu_device *device, struct gpu_error *error);

/* True if `status` is success. Otherwise fills `error` with `what` failed on which device, and why; the device is
 * dead if the error is one that no process survives. */
bool cuda_check(struct gpu_device *device, cudaError_t status, const char *what, struct gpu_error *error);

/* Whether the event has happened; PENDING leaves no error behind for a later launch to be blamed for. */
enum gpu_progress cuda_query(struct gpu_device *device, cudaEvent_t event, const char *what, struct gpu_error *error);

/* Calls a function of CUDA and checks it. */
#define CUDA_CALL(device, error, function, ...) cuda_check((device), function(__VA_ARGS__), #function, (error))

/* -- cuda_program.c ----------------------------------------------------------------------------------------------- */

struct gpu_program *cuda_program_new(struct gpu_device *device, const struct gpu_chain *chain, const struct gpu_buffers *slots,
                                     unsigned count, const struct gpu_options *options, struct gpu_error *error);
bool cuda_program_prepare(struct gpu_program *program, struct gpu_error *error);
void cuda_program_free(struct gpu_program *program);
/* Frees the host memory of programs that were freed on a dead device. */
void cuda_program_free_lost(struct cuda_device *device);
bool cuda_submit(struct gpu_program *program, unsigned slot, const struct gpu_frame *frame, struct gpu_error *error);
enum gpu_progress cuda_told(struct gpu_program *program, unsigned slot);
enum gpu_progress cuda_ask(struct gpu_program *program, unsigned slot, struct gpu_error *error);
bool cuda_arm(struct gpu_program *program, unsigned slot, struct gpu_error *error);

/* -- cuda_clock.c ------------------------------------------------------------------------------------------------- */

bool cuda_clock_open(struct cuda_device *device, struct gpu_error *error);
void cuda_clock_close(struct cuda_device *device);
bool cuda_clock_anchor(struct gpu_device *device, struct gpu_error *error);
const struct cuda_anchor *cuda_clock_current(const struct cuda_device *device);
bool cuda_clock_times(struct gpu_program *program, unsigned slot, struct gpu_times *times);

#endif
