/*
 * Names what a thread is doing, for NVIDIA's profilers: ranges within each other, in builds with NVTX=1. In all other
 * builds nothing is left of them.
 */
#ifndef FRAMED_BASE_NVTX_H
#define FRAMED_BASE_NVTX_H

#ifdef FRAMED_NVTX
#include <nvtx3/nvToolsExt.h>

static inline void nvtx_begin(const char *name) { nvtxRangePushA(name); }
static inline void nvtx_end(void) { nvtxRangePop(); }
#else
static inline void nvtx_begin(const char *name) { (void)name; }
static inline void nvtx_end(void) {}
#endif

/* Ends the innermost one and begins another. */
static inline void nvtx_next(const char *name) {
  nvtx_end();
  nvtx_begin(name);
}

#endif
