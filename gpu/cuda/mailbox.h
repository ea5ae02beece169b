/*
 * What the device does with the mailbox (gpu/record/mailbox.h): the last kernel of a frame that is replayed answers, or a
 * kernel that stays on the device.
 *
 * The one that stays has a block for each slot, which looks at the doorbell by itself, takes the input where it lies in pinned
 * memory and puts the result there. Such a chain computes each sample by itself, so that a sample goes through all stages at
 * once. The kernel leaves of its own accord, all blocks together, when no doorbell has rung for a while and after some time in
 * any case: whoever frees memory or waits for the device waits for two runs at most. What it has not heard yet is there for the
 * next run, which the worker launches where a frame waits and nobody is there. So a kernel may leave at any moment, and no
 * doorbell is ever lost.
 */
#ifndef FRAMED_GPU_CUDA_MAILBOX_H
#define FRAMED_GPU_CUDA_MAILBOX_H

#include "gpu/record/mailbox.h"

enum { MAILBOX_CONSTANTS = 32 };

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
  struct mailbox_words *mailbox;
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
int cuda_mailbox_answer(struct mailbox_words *mailbox, unsigned slot, void *stream);
int cuda_mailbox_launch(const struct resident_run *run, void *stream);

#endif
