/* The machine as the CPU backend describes it; see cpu_host.h. */
#include "gpu/cpu/host.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the line of /proc/meminfo gives `key`; fills in its bytes. */
static bool read_bytes(const char *line, const char *key, size_t *bytes) {
  size_t length = strlen(key);
  if (strncmp(line, key, length) != 0) {
    return false;
  }
  *bytes = strtoul(line + length, NULL, 10) * 1024;
  return true;
}

bool cpu_host_memory(const struct gpu_device *device, size_t *available, size_t *total) {
  (void)device;
  FILE *file = fopen("/proc/meminfo", "re");
  if (!file) {
    return false;
  }
  char line[128];
  unsigned found = 0;
  while (fgets(line, sizeof line, file)) {
    found += read_bytes(line, "MemTotal:", total) || read_bytes(line, "MemAvailable:", available);
  }
  fclose(file);
  return found == 2;
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
