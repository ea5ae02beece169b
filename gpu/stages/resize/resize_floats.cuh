/*
 * resize: the way for floats, unless an average is of more than three rows or columns; resize.cu has what is left.
 */
#ifndef FRAMED_GPU_STAGES_RESIZE_FLOATS_CUH
#define FRAMED_GPU_STAGES_RESIZE_FLOATS_CUH

#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/resize/resize.h"
}

/* Whether resize_floats() takes such a frame of floats, which is one plane of one channel: if it is averaged, no side loses
 * more than half. */
bool resize_floats_take(const resize_constants &constants);

/* Enqueues any filter for floats. */
int resize_floats(const resize_constants &constants, const stage_call *call, cudaStream_t stream);

#endif
