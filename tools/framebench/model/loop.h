/* A model in a loop of this process without a daemon: frames from pinned memory to pinned memory. */
#ifndef FRAMED_FRAMEBENCH_MODEL_LOOP_H
#define FRAMED_FRAMEBENCH_MODEL_LOOP_H

#include "gpu/model/model.h"
#include "tools/framebench/common/engine.h"

struct loop_setup {
  const char *file;
  const struct model_tensor *input; /* of one frame */
  unsigned rows;                    /* frames in a batch, adjacent in memory */
  unsigned instances, slots;
};

struct loop;

/* NULL on a problem. */
struct loop *loop_new(struct gpu_device *device, const struct loop_setup *setup, struct problem *problem);
struct engine *loop_engine(const struct loop *loop);
struct loop *loop_free(struct loop *loop); /* NULL is valid; returns NULL */

#endif
