/* The stage `model` (stage.c), and what it does on a GPU (cuda_stage.c). */
#ifndef FRAMED_GPU_MODEL_STAGE_H
#define FRAMED_GPU_MODEL_STAGE_H

#include "gpu/stage.h"

/* Which output of its model the stage gives, or MODEL_ALL. */
int model_stage_chosen(const struct stage_plan *plan);
/* Gives a frame that the model has computed on the CPU to its shadow, if that wants it. */
void model_stage_sample(const struct stage_plan *plan, const struct stage_call *call);

void *model_attach(struct gpu_device *device, const struct stage_plan *plan, const struct stage_buffers *slots, unsigned count,
                   bool *beside, struct gpu_error *error);
void model_detach(void *attached);
int model_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream);
void model_hand(struct stage_call *call);
/* Gives a frame of a batch to its shadow, if that wants it; on the slot's stream, behind the model. Returns a cudaError_t. */
int model_sample(const struct stage_call *call);

#endif
