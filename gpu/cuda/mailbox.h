/*
 * How the device tells of frames without a call of CUDA's: words in memory of the host that both see.
 *
 * At a slot's doorbell the lane writes the number of the frame that is in it. Whoever has computed it writes the same number as
 * the answer: the last kernel of a frame that is replayed, or a kernel that stays on the device.
 *
 * The one that stays has a block for each slot, which looks at the doorbell by itself, takes the input where it lies in pinned
 * memory and puts the result there. Such a chain computes each sample by itself, so that a sample goes through all stages at
 * once. The kernel leaves of its own accord, all blocks together, when no doorbell has rung for a while and after some time in
 * any case: whoever frees memory or waits for the device waits no longer than that. What it has not heard yet is there for the
 * next run, which the lane sends when it waits for a frame and nobody is there. So a kernel may leave at any moment, and no
 * doorbell is ever lost.
 */
#ifndef FRAMED_GPU_CUDA_MAILBOX_H
#define FRAMED_GPU_CUDA_MAILBOX_H

#include "gpu/gpu.h"

#ifdef __CUDACC__
typedef uint32_t mailbox_word;
#else
typedef _Atomic uint32_t mailbox_word;
#endif

enum { MAILBOX_LINE = 128, MAILBOX_CONSTANTS = 32 };

/* A line of its own each, since one side writes what the other one polls. */
struct mailbox_line {
  mailbox_word word;
  uint32_t strikes; /* in test builds, beside a doorbell: whether the stage `fault` strikes the frame */
  unsigned char rest[MAILBOX_LINE - 2 * sizeof(uint32_t)];
};

/* In memory of the host that is pinned, all zero at first. */
struct mailbox {
  struct mailbox_line doorbells[GPU_MAX_SLOTS], answers[GPU_MAX_SLOTS];
  struct mailbox_line left; /* the last run that has ended */
};

/* In memory of the device, all zero at first: what the blocks of a run tell each other. */
struct resident_shared {
  uint64_t active;  /* when one of them had a frame */
  uint32_t closing; /* the run that is to end */
  uint32_t gone;    /* how many have left it */
};

struct mailbox_step {
  enum gpu_resident_step kind;
  unsigned char constants[MAILBOX_CONSTANTS];
};

struct resident_run {
  struct mailbox *mailbox;
  struct resident_shared *shared;
  const void *inputs[GPU_MAX_SLOTS];
  void *outputs[GPU_MAX_SLOTS];
  uint64_t samples;
  bool floats;
  unsigned slots;
  unsigned length;
  struct mailbox_step steps[GPU_MAX_STAGES];
  uint64_t linger_ns, most_ns; /* after the last frame; in all */
  uint32_t number;
};

/* Launched on a cudaStream_t; each returns a cudaError_t. The first answers for a slot whatever its doorbell says. */
int cuda_mailbox_answer(struct mailbox *mailbox, unsigned slot, void *stream);
int cuda_mailbox_launch(const struct resident_run *run, void *stream);

#endif
