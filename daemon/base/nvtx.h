/*
 * Names what a thread is doing, for NVIDIA's profilers: ranges within each other, in builds with NVTX=1. In all other
 * builds nothing is left of them.
 */
#ifndef FRAMED_BASE_NVTX_H
#define FRAMED_BASE_NVTX_H

#ifdef FRAMED_NVTX
#include <nvtx3/nvToolsExt.h>

static inline void range_begin(const char *name) { nvtxRangePushA(name); }
static inline void range_end(void) { nvtxRangePop(); }
#else
static inline void range_begin(const char *name) { (void)name; }
static inline void range_end(void) {}
#endif

/* Ends the innermost one and begins another. */
static inline void range_next(const char *name) {
  range_end();
  range_begin(name);
}

#endif
