/* resize: the way for bytes that are averages of squares of pixels (resize_square()); resize.cu has all others. */
#ifndef FRAMED_GPU_STAGES_RESIZE_SQUARES_CUH
#define FRAMED_GPU_STAGES_RESIZE_SQUARES_CUH

#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/resize/resize.h"
}

/* Whether resize_squares() takes such a frame: no bars, and rows that are as long as a number of threads makes them. */
bool resize_squares_take(const resize_constants &constants);

int resize_squares(const resize_constants &constants, const stage_call *call, cudaStream_t stream);

#endif
