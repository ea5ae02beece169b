/* What the CPU backend says of the machine it runs on. */
#ifndef FRAMED_GPU_CPU_HOST_H
#define FRAMED_GPU_CPU_HOST_H

#include "gpu/backend.h"

/* The processor's name as the kernel gives it, or "CPU". */
void cpu_host_name(char name[GPU_NAME]);
/* Processors that this process may run on; at least 1. */
unsigned cpu_host_processors(void);
/* Free and total memory in bytes; any device of the CPU backend gives the same. */
bool cpu_host_memory(const struct gpu_device *device, size_t *available, size_t *total);

#endif
