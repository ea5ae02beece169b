/*
 * The CPU backend as slow as a GPU's driver, to test what only happens while a call takes its time. Test builds only, and there
 * only where FRAMED_FAULT_SLOW_DEVICE is set.
 */
#ifndef FRAMED_GPU_CPU_SLOW_H
#define FRAMED_GPU_CPU_SLOW_H

#include "gpu/backend.h"

/* The device takes about as long as an H200 for calls that may wait, and 10 us for each submit. Rests once right away, as long
 * as opening takes. */
void cpu_slow_make(struct gpu_device *device);

#endif
