/*
 * Frames of many cameras that go through a model together, in a daemon, beside a bare loop of the same batches: as fast as they
 * go, and how late they come at a third of that.
 */
#ifndef FRAMED_FRAMEBENCH_MODEL_BATCHES_H
#define FRAMED_FRAMEBENCH_MODEL_BATCHES_H

#include "gpu/model/model.h"
#include "tools/framebench/common/options.h"
#include "tools/framebench/common/own_daemon.h"
#include "tools/framebench/common/results.h"

enum { BATCHES_MOST = 16 };

struct batches;

/* All that is given is borrowed. NULL on a problem. */
struct batches *batches_new(const struct options *options, struct results *results, const struct model_tensor *input,
                            struct problem *problem);
struct batches *batches_free(struct batches *batches); /* NULL is fine; returns NULL */

/* Sides of one frame, for a file that leaves some of them open, as the configuration says it; to be released. */
json_t *batches_shape(const struct model_tensor *input);
/* Adds the model, and fills in the cameras' pipeline; it lasts as long as the batches. */
void batches_configure(struct batches *batches, json_t *models, struct own_pipeline *pipeline);
/* One turn. */
bool batches_measure(struct batches *batches, const char *socket, struct gpu_device *device, double seconds,
                     struct problem *problem);
void batches_add_targets(struct batches *batches);

#endif
