/* The machine as the CPU backend describes it; see cpu_host.h. */
#include "gpu/cpu_host.h"

#include <sched.h>
#include <stdio.h>

bool cpu_host_memory(const struct gpu_device *device, size_t *available, size_t *total) {
  (void)device;
  FILE *file = fopen("/proc/meminfo", "re");
  if (!file) {
    return false;
  }
  char line[128];
  size_t kilobytes;
  *available = *total = 0;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "MemTotal: %zu kB", &kilobytes) == 1) {
      *total = kilobytes * 1024;
    } else if (sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1) {
      *available = kilobytes * 1024;
    }
  }
  fclose(file);
  return *total > 0;
}

void cpu_host_name(char name[GPU_NAME]) {
  snprintf(name, GPU_NAME, "CPU");
  FILE *file = fopen("/proc/cpuinfo", "re");
  char line[256];
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "model name : %127[^\n]", name) == 1) {
      break;
    }
  }
  if (file) {
    fclose(file);
  }
}

unsigned cpu_host_processors(void) {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return count < 1 ? 1 : (unsigned)count;
}
