/* The work of framebench scale, as a daemon's configuration and as a chain of this process. */
#ifndef FRAMED_FRAMEBENCH_SCALE_WORK_H
#define FRAMED_FRAMEBENCH_SCALE_WORK_H

#include "gpu/model/model.h"
#include "tools/framebench/common/options.h"

enum { WORK_SLOTS = 3, WORK_SESSIONS = 2 /* on each device */, WORK_INSTANCES = 3 };

struct work {
  const char *name;
  size_t bytes;            /* of a frame */
  json_t *format, *stages; /* NULL: the default of own_daemon.h */
  bool bare;               /* bare loops can run it */
  unsigned rounds;         /* of the stage `work`; 0: affine, or a model */
  const char *file;        /* of a model; NULL: none */
};

enum { WORK_MOST = 2 };

/*
 * Sets up affine, which the link limits, and work, which the device limits; or the model of the options. The caller clears
 * `works` in any case. Call it before any use of CUDA, since it opens and closes a model.
 */
bool works_init(struct work works[WORK_MOST], unsigned *count, const struct options *options, bool cuda,
                struct problem *problem);
void works_clear(struct work works[WORK_MOST], unsigned count);

/* The section `models` of a configuration; the caller releases it. */
json_t *works_models(const struct work *works, unsigned count);

/*
 * A chain for `users` slots on all devices. `model` receives what must be released after the chain, or NULL. NULL on a problem.
 */
struct gpu_chain *work_chain(const struct work *work, unsigned users, struct model **model, struct problem *problem);

#endif
