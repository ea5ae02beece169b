/* What the frames of framebench scale are, as a daemon's configuration says it and as a chain of one process. */
#ifndef FRAMED_FRAMEBENCH_SCALE_WORK_H
#define FRAMED_FRAMEBENCH_SCALE_WORK_H

#include "gpu/model/model.h"
#include "tools/framebench/common/options.h"

enum { WORK_SLOTS = 3, WORK_SESSIONS = 2 /* on each device */, WORK_INSTANCES = 3 };

struct work {
  const char *name;
  size_t bytes;            /* of a frame */
  json_t *format, *stages; /* NULL where the daemon's own are meant, see own_daemon.h */
  bool bare;               /* bare loops can run it */
  unsigned rounds;         /* of the stage `work`; 0: affine, or a model */
  const char *file;        /* of a model; NULL: none */
};

enum { WORK_MOST = 2 };

/* Affine, which the link bounds, and work, which the device bounds; or the model that the options name. To be cleared in any
 * case. Before any use of CUDA: a model is opened and given back. */
bool works_init(struct work works[WORK_MOST], unsigned *count, const struct options *options, bool cuda,
                struct problem *problem);
void works_clear(struct work works[WORK_MOST], unsigned count);

/* The section `models` of a configuration; to be released. */
json_t *works_models(const struct work *works, unsigned count);

/* For so many slots on all devices; `model` gets what is to be released behind the chain, or NULL. NULL on a problem. */
struct gpu_chain *work_chain(const struct work *work, unsigned users, struct model **model, struct problem *problem);

#endif
