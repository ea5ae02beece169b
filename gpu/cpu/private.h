/* A program and its slots, for the two files that work on them: frames.c on a worker, program.c on a lane. */
#ifndef FRAMED_GPU_CPU_PRIVATE_H
#define FRAMED_GPU_CPU_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/cpu/program.h"

enum slot_state {
  SLOT_IDLE,
  SLOT_RUNNING,
  SLOT_RUNNING_NOTIFY, /* the same, and wake() is to be called */
  SLOT_DONE,
  SLOT_TOLD /* done, and wake() was called or is just about to be */
};

struct cpu_slot {
  struct pool_job job; /* first, so that a job is its slot */
  struct cpu_program *program;
  struct gpu_buffers buffers;
  unsigned char *memory;
  _Atomic enum slot_state state;
  struct gpu_frame frame;
  uint64_t ticket;
  unsigned next_stage;
  bool parked; /* guarded by the program's lock */
  int64_t started, resumed, finished;
  int64_t kernel, model, modelled;
  unsigned instance, batch;
  bool late;                /* its turn came after its deadline: no stage computes it */
  char refusal[STAGE_TEXT]; /* why a stage could not compute the frame, or empty */
  /* Of the stage that runs, or to which the frame was handed over. */
  bool handed;
  struct stage_call call;
  struct stage_run run;
  char problem[STAGE_TEXT];
};

struct cpu_program {
  struct gpu_program base;
  struct pool *pool;
  struct chain_layout layout;
  unsigned char *memory;        /* of all slots, then the state */
  uint64_t next_ticket;         /* of whoever submits */
  void *joined[GPU_MAX_STAGES]; /* what stages' join() gave; NULL for most */
  atomic_bool lost;             /* a frame was given up: no other may go on */
  pthread_mutex_t lock;         /* guards what follows */
  pthread_cond_t changed;
  unsigned busy; /* frames in the queue or on a worker; parked ones are not */
  uint64_t turn; /* ticket of the frame that may use the state */
  bool restarts; /* of that frame: one before it that was to begin anew was left out */
  bool freeing;
  struct cpu_slot slots[];
};

/* frames.c: the job of a slot, which runs its frame as far as that may run now. */
void cpu_run_frame(struct pool_job *job);

#ifdef FRAMED_FAULTS
extern _Thread_local struct cpu_slot *cpu_fault_slot; /* tests/fault: whose frame this worker runs */
#endif

#endif
