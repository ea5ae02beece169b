/*
 * resize: the way for bytes that are picked or mixed where rows shrink to no less than half; resize.cu has all others.
 */
#ifndef FRAMED_GPU_STAGES_RESIZE_WORDS_CUH
#define FRAMED_GPU_STAGES_RESIZE_WORDS_CUH

#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/resize/resize.h"
}

/* Whether resize_words() takes such a frame: no plane loses more than half of its width, and none is narrower than eight
 * samples. */
bool resize_words_take(const resize_constants &constants);

/* Enqueues nearest or bilinear for bytes. */
int resize_words(const resize_constants &constants, const stage_call *call, cudaStream_t stream);

#endif
