/*
 * CUDA devices: opening with a diagnosis, pinned memory, and the table of the backend.
 *
 * The runtime is linked statically and works without a driver as far as cudaGetDeviceCount(), which says so.
 */
#include "gpu/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- the device --------------------------------------------------------------------------------------------------- */

static bool memory(const struct gpu_device *device, size_t *available, size_t *total) {
  struct gpu_error error;
  struct gpu_device *base = (struct gpu_device *)device; /* only its condition may change */
  return cuda_enter(base, &error) && CUDA_CALL(base, &error, cudaMemGetInfo, available, total);
}

/* Also for the other devices, over which a session's frames may be dealt. */
static bool pin(struct gpu_device *device, void *base, size_t bytes, struct gpu_error *error) {
  return cuda_enter(device, error) && CUDA_CALL(device, error, cudaHostRegister, base, bytes, cudaHostRegisterPortable);
}

static void unpin(struct gpu_device *device, void *base, size_t bytes) {
  struct gpu_error error;
  (void)bytes;
  if (cuda_enter(device, &error)) {
    (void)CUDA_CALL(device, &error, cudaHostUnregister, base); /* fails only on memory that is not pinned, or dead */
  }
}

static void close_device(struct gpu_device *base) {
  struct gpu_error error;
  struct cuda_device *device = (struct cuda_device *)base;
  if (!gpu_device_is_dead(base, NULL) && cuda_enter(base, &error)) {
    cuda_clock_close(device);
    cuda_order_close(device);
  }
  cuda_program_free_lost(device);
  cuda_shares_free(device);
  free(device);
}

static const struct gpu_backend cuda_backend = {
    .name = "cuda",
    .close = close_device,
    .memory = memory,
    .anchor = cuda_clock_anchor,
    .pin = pin,
    .unpin = unpin,
    .program_new = cuda_program_new,
    .prepare = cuda_warm_up,
    .costs = cuda_costs,
    .program_free = cuda_program_free,
    .submit = cuda_submit,
    .told = cuda_told,
    .ask = cuda_ask,
    .arm = cuda_arm,
    .attend = cuda_attend,
    .times = cuda_clock_times,
};

/* -- opening ------------------------------------------------------------------------------------------------------ */

/* What the device nodes say about why a device cannot be used. */
static void advise(unsigned index, cudaError_t status, char remedy[GPU_TEXT]) {
  char device[32];
  snprintf(device, sizeof device, "/dev/nvidia%u", index);
  const char *nodes[] = {"/dev/nvidiactl", device, "/dev/nvidia-uvm"};
  if (!gpu_nvidia_present("/dev")) {
    snprintf(remedy, GPU_TEXT, "install the NVIDIA driver (there is no /dev/nvidiactl), or set gpu.backend to cpu");
    return;
  }
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    if (access(nodes[i], R_OK | W_OK) == 0) {
      continue;
    }
    snprintf(remedy, GPU_TEXT,
             errno == ENOENT ? "%s is missing: run nvidia-modprobe -c%u -u as root"
                             : "%s may not be opened by this user: add it to the node's group (ls -l /dev/nvidia%u)",
             nodes[i], index);
    return;
  }
  snprintf(remedy, GPU_TEXT, "%s",
           *cuda_remedy(status) ? cuda_remedy(status) : "see what nvidia-smi says, and whether CUDA_VISIBLE_DEVICES hides it");
}

static bool refuse(unsigned index, const char *reason, cudaError_t status, struct gpu_error *error) {
  gpu_error_set(error, (int)status, NULL, "CUDA device %u cannot be used: %s", index, reason);
  error->no_device = true;
  advise(index, status, error->remedy);
  return false;
}

static bool count_devices(unsigned index, struct gpu_error *error) {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    return refuse(index, gpu_nvidia_present("/dev") ? cudaGetErrorString(status) : "no NVIDIA driver is loaded", status, error);
  }
  if (index >= (unsigned)count) {
    gpu_error_set(error, 0, "set gpu.device to one that nvidia-smi lists", "there is no CUDA device %u: this machine has %d",
                  index, count);
    error->no_device = true;
    return false;
  }
  return true;
}

/* Of Turing, the oldest that the kernels are compiled for. */
enum { LEAST_CAPABILITY = 75 };

static bool is_recent(unsigned index, const struct cudaDeviceProp *properties, struct gpu_error *error) {
  return properties->major * 10 + properties->minor >= LEAST_CAPABILITY ||
         refuse(index, "it is older than the Turing generation", cudaErrorNoKernelImageForDevice, error);
}

unsigned cuda_count(void) {
  int count = 0;
  return cuda_prepare_driver(true) && cudaGetDeviceCount(&count) == cudaSuccess && count > 0 ? (unsigned)count : 0;
}

bool cuda_usable(unsigned index, struct gpu_error *error) {
  struct cudaDeviceProp properties;
  if (!count_devices(index, error)) {
    return false;
  }
  cudaError_t status = cudaGetDeviceProperties(&properties, (int)index);
  return status == cudaSuccess ? is_recent(index, &properties, error)
                               : refuse(index, cudaGetErrorString(status), status, error);
}

/* Versions as CUDA counts them: 12050 is 12.5. Green contexts came with 12.5. The known build of ONNX Runtime needs CUDA 13. */
enum { SHARES_SINCE = 12050, MODELS_SINCE = 13000 };

void cuda_find_lacks(struct gpu_lacks *lacks) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    (void)cudaGetLastError();
    return; /* no driver: gpu_usable() says so */
  }
  if (CUDART_VERSION < SHARES_SINCE) {
    snprintf(lacks->shares, sizeof lacks->shares,
             "share has no effect: framed was built with CUDA %d.%d; build it with CUDA 12.5 or later", CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10);
  } else if (driver < SHARES_SINCE) {
    snprintf(lacks->shares, sizeof lacks->shares,
             "share has no effect: the driver is made for CUDA %d.%d; install driver 555 or later", driver / 1000,
             driver % 1000 / 10);
  }
  if (driver < MODELS_SINCE) {
    snprintf(lacks->models, sizeof lacks->models,
             "models do not run on the GPU: the driver is made for CUDA %d.%d; install driver 580 or later, or set "
             "gpu.backend to cpu",
             driver / 1000, driver % 1000 / 10);
  }
}

static bool calibrate(struct cuda_device *device, const struct gpu_calibration *known, struct gpu_error *error) {
  if (known) {
    device->base.calibration = *known;
  }
  return known || cuda_overhead_measure(device, error);
}

/* Where the kernel and the driver keep what they know of the device. A GPU is the first function of its PCI device. */
static void find_place(struct gpu_device *device, const struct cudaDeviceProp *properties) {
  snprintf(device->address, sizeof device->address, "%04x:%02x:%02x.0", (unsigned)properties->pciDomainID,
           (unsigned)properties->pciBusID, (unsigned)properties->pciDeviceID);
  device->node = gpu_pci_node("/sys/bus/pci/devices", device->address);
}

static bool prepare(struct cuda_device *device, const struct gpu_calibration *known, struct gpu_error *error) {
  struct cudaDeviceProp properties;
  if (!cuda_enter(&device->base, error) ||
      !CUDA_CALL(&device->base, error, cudaGetDeviceProperties, &properties, device->index) ||
      !is_recent((unsigned)device->index, &properties, error)) {
    return false;
  }
  snprintf(device->base.name, sizeof device->base.name, "%.*s", GPU_NAME - 1, properties.name);
  gpu_set_architecture(properties.major * 10 + properties.minor);
  device->reads_host = properties.canUseHostPointerForRegisteredMem != 0;
  find_place(&device->base, &properties);
  return cuda_stream_find_priorities(device, error) && cuda_clock_open(device, error) && cuda_order_open(device, error) &&
         calibrate(device, known, error);
}

/* A device keeps its number from process to process although one before it may be gone, which the driver does not count then.
 */
static bool find_index(struct cuda_device *device, unsigned index, const struct gpu_calibration *known,
                       struct gpu_error *error) {
  device->index = (int)index;
#ifdef FRAMED_FAULTS
  if (gpu_fault_has_lost(index)) {
    return refuse(index, "it is broken", cudaErrorDevicesUnavailable, error);
  }
#endif
  if (!known || !known->address[0]) {
    return count_devices(index, error);
  }
  cudaError_t status = cudaDeviceGetByPCIBusId(&device->index, known->address);
  char reason[GPU_TEXT / 2];
  snprintf(reason, sizeof reason, "it is not at %s any more (%s)", known->address, cudaGetErrorString(status));
  return status == cudaSuccess || refuse(index, reason, status, error);
}

struct gpu_device *cuda_open(unsigned index, const struct gpu_calibration *known, struct gpu_error *error) {
  struct cuda_device *device = calloc(1, sizeof *device);
  if (!device || !cuda_prepare_driver(!known)) {
    gpu_error_set(error, ENOMEM, NULL, "no memory for CUDA device %u", index);
    free(device);
    return NULL;
  }
  device->base.backend = &cuda_backend;
  device->base.node = GPU_NO_NODE;
  snprintf(device->base.name, sizeof device->base.name, "not yet opened");
  if (!find_index(device, index, known, error)) {
    free(device);
    return NULL;
  }
  if (!prepare(device, known, error)) {
    error->no_device = true;
    advise(index, (cudaError_t)error->code, error->remedy);
    close_device(&device->base);
    return NULL;
  }
  return &device->base;
}
