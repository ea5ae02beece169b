/* The stage `model` (stage.c), and what it does on a GPU (cuda_stage.c). */
#ifndef FRAMED_GPU_MODEL_STAGE_H
#define FRAMED_GPU_MODEL_STAGE_H

#include "gpu/stage.h"

/* Which output of its model the stage gives, or MODEL_ALL. */
int model_stage_chosen(const struct stage_plan *plan);

void *model_attach(struct gpu_device *device, const struct stage_plan *plan, const struct stage_buffers *slots, unsigned count,
                   bool *beside, struct gpu_error *error);
void model_detach(void *attached);
int model_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);
void model_hand(struct stage_call *call);

#endif
