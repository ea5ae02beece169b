#include "gpu/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
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

enum { SENSOR_GPU = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2, ERRORS_UNCORRECTED = 1, SINCE_RESET = 0, GPU_IS_LOST = 15 };

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
  /* NULL: the driver is too old, or the device has none of it. */
  int (*errors)(device_handle device, unsigned kind, unsigned since, unsigned long long *count);
  int (*rows)(device_handle device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed);
};

/* POSIX makes objects of functions that way; ISO C has none. */
static bool find_function(struct nvml *nvml, const char *name, void *function) {
  void *symbol = dlsym(nvml->library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol;
}

static bool find_functions(struct nvml *nvml) {
  (void)find_function(nvml, "nvmlDeviceGetTotalEccErrors", &nvml->errors);
  (void)find_function(nvml, "nvmlDeviceGetRemappedRows", &nvml->rows);
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

/* Room for the longest of them is made in the text, and not in what stands before. */
static void add(char *text, size_t size, const char *trouble) {
  size_t length = strlen(text), needed = strlen(trouble) + strlen("; ") + 1;
  size_t at = size < needed ? 0 : length < size - needed ? length : size - needed;
  snprintf(text + at, size - at, "%s%s", at > 0 ? "; " : "", trouble);
}

static void add_memory_trouble(const struct nvml *nvml, device_handle device, char *text, size_t size) {
  unsigned long long errors = 0;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  char count[96];
  bool has_errors = nvml->errors && nvml->errors(device, ERRORS_UNCORRECTED, SINCE_RESET, &errors) == 0 && errors > 0;
  bool has_rows = nvml->rows && nvml->rows(device, &corrected, &uncorrected, &pending, &failed) == 0;
  if (has_rows && failed) {
    add(text, size, "no spare rows are left for those of its memory that are broken: exchange it");
  } else if (has_rows && pending) {
    add(text, size, "rows of its memory are broken, and exchanged by a reset: nvidia-smi -r");
  } else if (has_errors) {
    snprintf(count, sizeof count, "%llu errors of its memory could not be corrected since its last reset", errors);
    add(text, size, count);
  }
}

void nvml_add_trouble(const char *address, char *text, size_t size) {
  device_handle device;
  struct nvml *nvml = address[0] ? nvml_open() : NULL;
  int status = nvml ? nvml->find(address, &device) : -1;
  if (status == GPU_IS_LOST) {
    add(text, size, "it has fallen off the bus: restart the machine");
  } else if (status == 0) {
    add_memory_trouble(nvml, device, text, size);
  }
  nvml_close(nvml);
}
