/*
 * Names what a thread is doing, for NVIDIA's profilers: ranges within each other, in builds with NVTX=1. They are macros, so
 * that all other builds have nothing of them, not even a call where functions are instrumented or not inlined.
 */
#ifndef FRAMED_BASE_NVTX_H
#define FRAMED_BASE_NVTX_H

#ifdef FRAMED_NVTX
#include <nvtx3/nvToolsExt.h>

#define nvtx_begin(name) ((void)nvtxRangePushA(name))
#define nvtx_end()       ((void)nvtxRangePop())
#else
#define nvtx_begin(name) ((void)0)
#define nvtx_end()       ((void)0)
#endif

/* Ends the innermost range and begins another. */
#define nvtx_next(name) (nvtx_end(), nvtx_begin(name))

#endif
