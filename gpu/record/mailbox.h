/*
 * Words in memory of the host through which the device tells of frames without a call of CUDA's.
 *
 * Whoever gives a slot a frame writes at the slot's doorbell the number behind the one that is there. Whoever has computed it
 * writes the same number as the answer. Frames of a kernel that stays on the device come from a lane of the daemon: then the
 * memory is shared with the daemon, and registered with the device.
 *
 * A wild kernel can write here what it likes. A frame that then looks done has wrong bytes, as by any wild kernel; one that
 * never is done ends the worker. Nothing else may follow from what the daemon reads here.
 */
#ifndef FRAMED_GPU_RECORD_MAILBOX_H
#define FRAMED_GPU_RECORD_MAILBOX_H

#include "gpu/gpu.h"

#ifdef __CUDACC__
typedef uint32_t mailbox_word;
#else
typedef _Atomic uint32_t mailbox_word;
#endif

enum { MAILBOX_LINE = 128 };

/* A line of its own each, since one side writes what the other one polls. */
struct mailbox_line {
  mailbox_word word;
  uint32_t strikes; /* in test builds, beside a doorbell: whether the stage `fault` strikes the frame */
  unsigned char rest[MAILBOX_LINE - 2 * sizeof(uint32_t)];
};

/* All zero at first. */
struct mailbox_words {
  struct mailbox_line doorbells[GPU_MAX_SLOTS], answers[GPU_MAX_SLOTS];
  struct mailbox_line left;     /* the last run of the kernel that has ended; the device's */
  struct mailbox_line launched; /* the last run that was launched; the worker's. The first is 1 */
};

#endif
