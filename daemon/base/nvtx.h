/*
 * Names the current work of a thread for NVIDIA's profilers, as nested ranges, in builds with NVTX=1. These are macros, so
 * other builds contain no call, even if functions are instrumented or not inlined.
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
