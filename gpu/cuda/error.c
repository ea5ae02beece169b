/*
 * Every CUDA error as a value with a remedy, below all other files of the backend.
 *
 * What an error means for the device is decided in one place, cuda_check(): some errors belong to a call, the others to
 * the process, which is lost then whatever it does.
 */
#include "gpu/cuda/cuda.h"

/* Errors that a newer driver may return and that older toolkits do not declare; their numbers are part of CUDA's interface. */
enum { ERROR_CONTAINED = 226 /* since CUDA 12.8 */, ERROR_TENSOR_MEMORY_LEAK = 721 /* since CUDA 12.8 */ };

/* Errors after which no call in this process succeeds any more, or the device is in an unknown state. */
static bool is_fatal(cudaError_t status) {
  switch ((int)status) {
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case ERROR_CONTAINED:
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
  case ERROR_TENSOR_MEMORY_LEAK:
  case cudaErrorExternalDevice:
  case cudaErrorContextIsDestroyed:
  case cudaErrorUnknown:
    return true;
  default:
    return false;
  }
}

/* Of these the driver stops everything in the process's context before it reports them. */
static bool is_of_kernel(cudaError_t status) {
  switch ((int)status) {
  case cudaErrorIllegalAddress:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
    return true;
  default:
    return false;
  }
}

const char *cuda_remedy(cudaError_t status) {
  if (is_fatal(status)) {
    return "`dmesg | grep Xid` says what the driver saw";
  }
  switch (status) {
  case cudaErrorMemoryAllocation:
    return "use fewer slots or clients or smaller frames, or free memory on the device";
  case cudaErrorHostMemoryAlreadyRegistered:
    return "this memory is pinned already";
  case cudaErrorNoKernelImageForDevice:
    return "framed needs the Turing generation or a later one; for such a GPU, build it again: "
           "make architectures='-gencode arch=compute_XX,code=sm_XX'";
  case cudaErrorUnsupportedPtxVersion:
  case cudaErrorInsufficientDriver:
    return "install a driver that is as new as the CUDA that framed was built with: 525 or later for CUDA 12, 580 or later for "
           "13";
  default:
    return "";
  }
}

bool cuda_check(struct gpu_device *device, cudaError_t status, const char *what, struct gpu_error *error) {
  if (status == cudaSuccess) {
    return true;
  }
  (void)cudaGetLastError(); /* so that a later launch is not blamed for it */
  gpu_error_set(error, (int)status, cuda_remedy(status), "%s failed on device %d (%s): %s, %s", what,
                ((struct cuda_device *)device)->index, device->name, cudaGetErrorName(status), cudaGetErrorString(status));
  error->is_stopped = is_of_kernel(status);
  if (is_fatal(status)) {
    gpu_device_die(device, error);
  }
  return false;
}

enum gpu_progress cuda_progress(struct gpu_device *device, cudaError_t status, const char *what, struct gpu_error *error) {
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return GPU_PENDING;
  }
  return cuda_check(device, status, what, error) ? GPU_DONE : GPU_DEAD;
}

bool cuda_enter(struct gpu_device *base, struct gpu_error *error) {
  static _Thread_local int current = -1;
  const struct cuda_device *device = (struct cuda_device *)base;
  if (current == device->index) {
    return true;
  }
  if (!CUDA_CALL(base, error, cudaSetDevice, device->index)) {
    return false;
  }
  current = device->index;
  return true;
}
