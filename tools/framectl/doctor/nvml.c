#include "tools/framectl/doctor/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct nvml_device *device_handle;

/* The layout of the library's struct, version 3. */
struct pci_info {
  char legacy_address[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char address[32];
};

/* The layout of the library's struct. */
struct process_info {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

typedef int call_plain(void);
typedef int call_count(unsigned *);
typedef int call_handle(unsigned, device_handle *);
typedef int call_text(device_handle, char *, unsigned);
typedef int call_number(device_handle, unsigned *);
typedef int call_bits(device_handle, unsigned long long *);
typedef int call_pci(device_handle, struct pci_info *);
typedef int call_processes(device_handle, unsigned *, struct process_info *);

struct library {
  void *handle;
  call_plain *init, *shutdown;
  call_count *count;
  call_handle *device;
  call_text *name;
  call_pci *pci;
  call_bits *throttling;
  call_processes *processes; /* NULL: the driver is too old */
  call_number *generation, *generation_max, *width, *width_max, *persistence;
};

/* ISO C has no conversion from void * to a pointer to a function. POSIX promises that both have the same bytes. */
static bool find(void *handle, const char *name, void *function) {
  void *symbol = dlsym(handle, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static bool find_all(struct library *library) {
  void *handle = library->handle;
  (void)find(handle, "nvmlDeviceGetComputeRunningProcesses_v3", &library->processes);
  return find(handle, "nvmlInit_v2", &library->init) && find(handle, "nvmlShutdown", &library->shutdown) &&
         find(handle, "nvmlDeviceGetCount_v2", &library->count) &&
         find(handle, "nvmlDeviceGetHandleByIndex_v2", &library->device) && find(handle, "nvmlDeviceGetName", &library->name) &&
         find(handle, "nvmlDeviceGetPciInfo_v3", &library->pci) &&
         find(handle, "nvmlDeviceGetCurrentClocksThrottleReasons", &library->throttling) &&
         find(handle, "nvmlDeviceGetCurrPcieLinkGeneration", &library->generation) &&
         find(handle, "nvmlDeviceGetMaxPcieLinkGeneration", &library->generation_max) &&
         find(handle, "nvmlDeviceGetCurrPcieLinkWidth", &library->width) &&
         find(handle, "nvmlDeviceGetMaxPcieLinkWidth", &library->width_max) &&
         find(handle, "nvmlDeviceGetPersistenceMode", &library->persistence);
}

/* "00000000:18:00.0" is "0000:18:00.0" in /sys, in small letters. */
static void take_address(const struct pci_info *info, char address[32]) {
  enum { SHORT_ADDRESS = 12 };
  size_t length = strnlen(info->address, sizeof info->address - 1);
  const char *from = info->address + (length > SHORT_ADDRESS ? length - SHORT_ADDRESS : 0);
  size_t i = 0;
  for (; from + i < info->address + length; i++) {
    address[i] = (char)tolower((unsigned char)from[i]);
  }
  address[i] = '\0';
}

/* The library reports no process if there are more than the array holds. */
static void read_processes(const struct library *library, device_handle device, struct nvml_gpu *gpu) {
  struct process_info infos[NVML_PROCESSES];
  unsigned count = NVML_PROCESSES;
  gpu->knows_processes = library->processes && library->processes(device, &count, infos) == 0 && count <= NVML_PROCESSES;
  gpu->process_count = gpu->knows_processes ? count : 0;
  for (unsigned i = 0; i < gpu->process_count; i++) {
    gpu->processes[i] = infos[i].pid;
  }
}

static void read_gpu(const struct library *library, device_handle device, struct nvml_gpu *gpu) {
  struct pci_info info = {0};
  unsigned persistence = 0;
  *gpu = (struct nvml_gpu){0};
  if (library->name(device, gpu->name, sizeof gpu->name - 1) != 0) {
    snprintf(gpu->name, sizeof gpu->name, "a GPU without a name");
  }
  if (library->pci(device, &info) == 0) {
    take_address(&info, gpu->address);
  }
  gpu->knows_throttling = library->throttling(device, &gpu->throttling) == 0;
  gpu->knows_link = library->generation(device, &gpu->generation) == 0 && library->width(device, &gpu->width) == 0 &&
                    library->generation_max(device, &gpu->generation_max) == 0 &&
                    library->width_max(device, &gpu->width_max) == 0;
  gpu->knows_persistence = library->persistence(device, &persistence) == 0;
  gpu->persistent = persistence != 0;
  read_processes(library, device, gpu);
}

static unsigned read_all(const struct library *library, struct nvml_gpu *gpus) {
  unsigned total = 0, count = 0;
  if (library->count(&total) != 0) {
    return 0;
  }
  for (unsigned i = 0; i < total && count < NVML_GPUS; i++) {
    device_handle device;
    if (library->device(i, &device) == 0) {
      read_gpu(library, device, &gpus[count++]);
    }
  }
  return count;
}

unsigned nvml_read(struct nvml_gpu gpus[NVML_GPUS], char why[NVML_TEXT]) {
  struct library library = {.handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (!library.handle) {
    snprintf(why, NVML_TEXT, "libnvidia-ml.so.1 is not here");
    return 0;
  }
  unsigned count = 0;
  if (!find_all(&library)) {
    snprintf(why, NVML_TEXT, "libnvidia-ml.so.1 lacks functions");
  } else if (library.init() != 0) {
    snprintf(why, NVML_TEXT, "NVIDIA's driver does not answer");
  } else {
    count = read_all(&library, gpus);
    snprintf(why, NVML_TEXT, "NVIDIA's driver names no GPU");
    library.shutdown();
  }
  dlclose(library.handle);
  return count;
}
