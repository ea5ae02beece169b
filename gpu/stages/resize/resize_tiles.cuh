/*
 * resize: the way for bytes that are mixed where both sides shrink to no less than half; resize_words.cu has others.
 */
#ifndef FRAMED_GPU_STAGES_RESIZE_TILES_CUH
#define FRAMED_GPU_STAGES_RESIZE_TILES_CUH

#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/resize/resize.h"
}

/* Whether resize_tiles() takes such a frame on this device: bilinear, no side of a plane grows or loses more than half, rows
 * are whole pieces of 16 bytes, rows of the result whole words, and no plane is smaller than what a block reads. */
bool resize_tiles_take(const resize_constants &constants);

/* Enqueues bilinear for bytes. */
int resize_tiles(const resize_constants &constants, const stage_call *call, cudaStream_t stream);

#endif
