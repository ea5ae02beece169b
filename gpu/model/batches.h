/*
 * The batches of one model on one device: frames of all programs that run it there wait in one batcher, and each instance has a
 * thread that asks for the next batch and computes it.
 *
 * Threads take turns at asking, so that one at most waits for frames, and what an engine does in start() it does in the order
 * in which batches go. A frame is the set's from batches_hand() until its call's resume().
 */
#ifndef FRAMED_GPU_MODEL_BATCHES_H
#define FRAMED_GPU_MODEL_BATCHES_H

#include "gpu/model/batcher.h"
#include "gpu/model/private.h"

/* A frame of a slot. */
struct batch_place {
  struct batch_frame frame; /* first, so that a frame is its place */
  const struct stage_plan *plan;
  struct stage_call *call;
};

struct batch {
  unsigned count;
  struct batch_place *places[BATCHER_MOST];
};

/* What computes them. */
struct batch_engine {
  /* For threads that set up; NULL on error. `number`: from 1. */
  void *(*open)(struct gpu_device *device, struct model *model, unsigned number, struct gpu_error *error);
  void *(*close)(void *instance); /* returns NULL */
  /* Puts the batch on the device, where that is another thing than computing it; NULL: it is not. */
  void (*start)(void *instance, struct batch *batch);
  /* Comes back when the instance is free again. Either this or start() resumes the frames. */
  void (*run)(void *instance, struct batch *batch);
};

/* What one program has of them. */
struct batch_member;

/* For threads that set up. NULL on error. */
struct batch_member *batches_join(const struct batch_engine *engine, struct gpu_device *device, const struct stage_plan *plan,
                                  struct gpu_error *error);
/* The member goes, of whose program no frame may be left. */
void batches_leave(struct batch_member *member);
/* Any thread; one at a time for each member. */
void batches_hand(struct batch_member *member, struct stage_call *call);

/* Gives the frames back to their programs. */
void batch_resume(struct batch *batch);

/* -- engines --------------------------------------------------------------------------------------------------------- */

extern const struct batch_engine batch_cpu;  /* batch_cpu.c */
extern const struct batch_engine batch_cuda; /* cuda_batch.c */

#endif
