/*
 * Finds the fastest way to open a model on a device, by opening it in each and replaying its graph: the layout in memory first,
 * with cuDNN's best algorithms, then whether its likely ones are as fast, which open sooner. What is found is kept.
 */
#ifndef FRAMED_GPU_MODEL_CUDA_TRIAL_H
#define FRAMED_GPU_MODEL_CUDA_TRIAL_H

#include "gpu/model/cuda_instance.h"

/* For threads that set up: it takes no time where it is known, or where there is none to lose (gpu_hurry()), else some seconds.
 */
struct model_choice cuda_trial_choose(struct gpu_device *device, struct model *model, const struct model_bytes *bytes,
                                      const struct onnx_file *file);

#endif
