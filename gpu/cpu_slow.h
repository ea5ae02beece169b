/*
 * The CPU backend with the leisure of a GPU's driver, for what only happens while a call takes its time. Test builds only, and
 * there only where FRAMED_FAULT_SLOW_DEVICE is set.
 */
#ifndef FRAMED_GPU_CPU_SLOW_H
#define FRAMED_GPU_CPU_SLOW_H

#include "gpu/backend.h"

/* The device takes about as long as an H200 for whatever a thread may wait for, and 10 us for each submit. Rests once at once,
 * for having been opened. */
void cpu_slow_make(struct gpu_device *device);

#endif
