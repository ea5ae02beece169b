#include "gpu/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* NVML as it has been since its second version; 0 is success everywhere. */
typedef struct nvmlDevice *device_handle;

struct utilization {
  unsigned kernels, memory; /* percent */
};

struct memory {
  unsigned long long total, available, used;
};

enum { SENSOR_GPU = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2 };

struct nvml {
  void *library;
  int (*begin)(void);
  int (*end)(void);
  int (*find)(const char *address, device_handle *device);
  int (*utilization)(device_handle device, struct utilization *utilization);
  int (*memory)(device_handle device, struct memory *memory);
  int (*temperature)(device_handle device, unsigned sensor, unsigned *celsius);
  int (*power)(device_handle device, unsigned *milliwatts);
  int (*clock)(device_handle device, unsigned which, unsigned *megahertz);
};

/* POSIX makes objects of functions that way; ISO C has none. */
static bool find_function(struct nvml *nvml, const char *name, void *function) {
  void *symbol = dlsym(nvml->library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol;
}

static bool find_functions(struct nvml *nvml) {
  return find_function(nvml, "nvmlInit_v2", &nvml->begin) && find_function(nvml, "nvmlShutdown", &nvml->end) &&
         find_function(nvml, "nvmlDeviceGetHandleByPciBusId_v2", &nvml->find) &&
         find_function(nvml, "nvmlDeviceGetUtilizationRates", &nvml->utilization) &&
         find_function(nvml, "nvmlDeviceGetMemoryInfo", &nvml->memory) &&
         find_function(nvml, "nvmlDeviceGetTemperature", &nvml->temperature) &&
         find_function(nvml, "nvmlDeviceGetPowerUsage", &nvml->power) &&
         find_function(nvml, "nvmlDeviceGetClockInfo", &nvml->clock);
}

struct nvml *nvml_open(void) {
  struct nvml *nvml = calloc(1, sizeof *nvml);
  if (!nvml) {
    return NULL;
  }
  nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml->library && find_functions(nvml) && nvml->begin() == 0) {
    return nvml;
  }
  nvml->end = NULL;
  return nvml_close(nvml);
}

struct nvml *nvml_close(struct nvml *nvml) {
  if (nvml && nvml->end) {
    nvml->end();
  }
  if (nvml && nvml->library) {
    dlclose(nvml->library);
  }
  free(nvml);
  return NULL;
}

void nvml_read(const struct nvml *nvml, const char *address, double figures[NVML_FIGURES]) {
  device_handle device;
  struct utilization utilization;
  struct memory memory;
  unsigned number;
  for (int i = 0; i < NVML_FIGURES; i++) {
    figures[i] = NAN;
  }
  if (nvml->find(address, &device) != 0) {
    return;
  }
  if (nvml->utilization(device, &utilization) == 0) {
    figures[NVML_LOAD] = utilization.kernels / 100.0;
  }
  if (nvml->memory(device, &memory) == 0) {
    figures[NVML_MEMORY_USED] = (double)memory.used;
    figures[NVML_MEMORY_TOTAL] = (double)memory.total;
  }
  if (nvml->temperature(device, SENSOR_GPU, &number) == 0) {
    figures[NVML_TEMPERATURE] = number;
  }
  if (nvml->power(device, &number) == 0) {
    figures[NVML_POWER] = number / 1e3;
  }
  if (nvml->clock(device, CLOCK_SM, &number) == 0) {
    figures[NVML_CLOCK] = number * 1e6;
  }
  if (nvml->clock(device, CLOCK_MEMORY, &number) == 0) {
    figures[NVML_MEMORY_CLOCK] = number * 1e6;
  }
}
