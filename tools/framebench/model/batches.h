/*
 * Batches of frames of many cameras in a daemon, compared with a bare loop of the same batches: the highest rate, and the
 * latency at a third of that rate.
 */
#ifndef FRAMED_FRAMEBENCH_MODEL_BATCHES_H
#define FRAMED_FRAMEBENCH_MODEL_BATCHES_H

#include "gpu/model/model.h"
#include "tools/framebench/common/options.h"
#include "tools/framebench/common/own_daemon.h"
#include "tools/framebench/common/results.h"

enum { BATCHES_MOST = 16 };

struct batches;

/* The arguments must outlive the batches. NULL on a problem. */
struct batches *batches_new(const struct options *options, struct results *results, const struct model_tensor *input,
                            struct problem *problem);
struct batches *batches_free(struct batches *batches); /* NULL is valid; returns NULL */

/* The shape of one frame for the configuration, for a model with open sizes; the caller releases it. */
json_t *batches_shape(const struct model_tensor *input);
/* Adds the model to `models`, and fills in the cameras' pipeline, which is valid as long as the batches. */
void batches_configure(struct batches *batches, json_t *models, struct own_pipeline *pipeline);
/* Measures one turn. */
bool batches_measure(struct batches *batches, const char *socket, struct gpu_device *device, double seconds,
                     struct problem *problem);
void batches_add_targets(struct batches *batches);

#endif
