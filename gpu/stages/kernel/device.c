/*
 * Users' kernels on a device: loaded when the first session there begins, launched for each frame.
 *
 * Source is compiled for the device that is there; what was compiled at first serves where the architecture is the same.
 * The driver's own functions load and launch it: the runtime has had them since CUDA 12.8 only, the driver since 12.0.
 */
#include "gpu/stages/kernel/private.h"

#ifndef FRAMED_CUDA

struct kernel_loaded *kernel_load(struct kernel *kernel, char problem[STAGE_TEXT]) {
  (void)kernel;
  (void)problem;
  return NULL;
}

void kernel_unload(struct kernel *kernel) { (void)kernel; }

#else

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/cuda/driver.h"

enum { LIBRARIES_SINCE = 12000, PARAMETERS_SINCE = 12040 /* as CUDA counts its versions */ };

/* A kernel of a library serves every device. */
static struct {
  CUresult (*load)(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned jit_count,
                   CUlibraryOption *options, void **values, unsigned count);
  CUresult (*unload)(CUlibrary library);
  CUresult (*find)(CUkernel *function, CUlibrary library, const char *name);
  CUresult (*attribute)(int *value, CUfunction_attribute attribute, CUkernel function, CUdevice device);
  CUresult (*set_attribute)(CUfunction_attribute attribute, int value, CUkernel function, CUdevice device);
  CUresult (*launch)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                     unsigned block_z, unsigned shared, CUstream stream, void **arguments, void **extra);
  CUresult (*parameter)(CUkernel function, size_t index, size_t *offset, size_t *size); /* NULL: the driver is too old */
} driver;

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static bool driver_found;

static void find_driver(void) {
  driver_found = cuda_driver_find("cuLibraryLoadData", LIBRARIES_SINCE, &driver.load) &&
                 cuda_driver_find("cuLibraryUnload", LIBRARIES_SINCE, &driver.unload) &&
                 cuda_driver_find("cuLibraryGetKernel", LIBRARIES_SINCE, &driver.find) &&
                 cuda_driver_find("cuKernelGetAttribute", LIBRARIES_SINCE, &driver.attribute) &&
                 cuda_driver_find("cuKernelSetAttribute", LIBRARIES_SINCE, &driver.set_attribute) &&
                 cuda_driver_find("cuLaunchKernel", LIBRARIES_SINCE, &driver.launch);
  (void)cuda_driver_find("cuKernelGetParamInfo", PARAMETERS_SINCE, &driver.parameter);
}

static bool check(cudaError_t status, const char *what, const struct kernel *kernel, char problem[STAGE_TEXT]) {
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    snprintf(problem, STAGE_TEXT, "%s %s: %s", what, kernel->file, cudaGetErrorString(status));
  }
  return status == cudaSuccess;
}

/* The driver's errors have the numbers of the runtime's. */
static bool check_driver(CUresult status, const char *what, const struct kernel *kernel, char problem[STAGE_TEXT]) {
  return check((cudaError_t)status, what, kernel, problem);
}

/* False: a parameter has another size than this build's framed-kernel.h says. An old driver does not tell sizes. */
static bool has_our_parameters(CUkernel function) {
  size_t offset, in, out;
  return !driver.parameter ||
         (driver.parameter(function, 0, &offset, &in) == CUDA_SUCCESS && in == sizeof(struct framed_in) &&
          driver.parameter(function, 1, &offset, &out) == CUDA_SUCCESS && out == sizeof(struct framed_out));
}

/* Whether the device takes as many threads, as much shared memory and the arguments as they are. */
static bool check_launch(const struct kernel *kernel, CUkernel function, int device, char problem[STAGE_TEXT]) {
  int most;
  unsigned threads = kernel->block[0] * kernel->block[1] * kernel->block[2];
  if (!check_driver(driver.attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function, device),
                    "asking the device of the kernel in", kernel, problem)) {
    return false;
  }
  if (threads > (unsigned)most) {
    snprintf(problem, STAGE_TEXT, "`block` makes %u threads, and a block of this kernel may have %d on this device", threads,
             most);
    return false;
  }
  if (!has_our_parameters(function)) {
    snprintf(problem, STAGE_TEXT, "%s was compiled with another framed-kernel.h", kernel->file);
    return false;
  }
  return kernel->shared == 0 || check_driver(driver.set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                                  (int)kernel->shared, function, device),
                                             "the device has not as much shared memory as `shared` asks of", kernel, problem);
}

static bool open_code(struct kernel *kernel, const struct kernel_code *code, struct kernel_loaded *loaded,
                      char problem[STAGE_TEXT]) {
  CUlibrary library = NULL;
  CUkernel function = NULL;
  pthread_once(&driver_once, find_driver);
  if (!driver_found) {
    snprintf(problem, STAGE_TEXT, "the driver is too old for %s: install one for CUDA 12.0 (525) or later", kernel->file);
    return false;
  }
  if (!check_driver(driver.load(&library, code->bytes, NULL, NULL, 0, NULL, NULL, 0), "loading", kernel, problem)) {
    return false;
  }
  if (check_driver(driver.find(&function, library, kernel->signature.symbol), "looking for the kernel in", kernel, problem)) {
    loaded->library = library;
    loaded->function = function;
    return true;
  }
  (void)driver.unload(library);
  return false;
}

static bool open_for(struct kernel *kernel, int architecture, struct kernel_loaded *loaded, char problem[STAGE_TEXT]) {
  struct kernel_code code;
  if (!kernel->source.bytes || kernel->architecture == architecture) {
    return open_code(kernel, &kernel->code, loaded, problem);
  }
  if (!kernel_compile(kernel->file, &kernel->source, architecture, &code, problem)) {
    return false;
  }
  bool good = open_code(kernel, &code, loaded, problem);
  free(code.bytes);
  return good;
}

static struct kernel_loaded *find(struct kernel *kernel, int architecture, char problem[STAGE_TEXT]) {
  for (unsigned i = 0; i < KERNEL_ARCHITECTURES; i++) {
    struct kernel_loaded *loaded = &kernel->loaded[i];
    if (loaded->function && loaded->architecture == architecture) {
      return loaded;
    }
    if (!loaded->function) {
      loaded->architecture = architecture;
      return open_for(kernel, architecture, loaded, problem) ? loaded : NULL;
    }
  }
  snprintf(problem, STAGE_TEXT, "the GPUs of this machine are of more than %d kinds", KERNEL_ARCHITECTURES);
  return NULL;
}

struct kernel_loaded *kernel_load(struct kernel *kernel, char problem[STAGE_TEXT]) {
  int device, major, minor;
  if (!check(cudaGetDevice(&device), "finding the device for", kernel, problem) ||
      !check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking the device for", kernel,
             problem) ||
      !check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking the device for", kernel,
             problem)) {
    return NULL;
  }
  pthread_mutex_lock(&kernel->lock);
  struct kernel_loaded *loaded = find(kernel, major * 10 + minor, problem);
  pthread_mutex_unlock(&kernel->lock);
  return loaded && check_launch(kernel, loaded->function, device, problem) ? loaded : NULL;
}

/* On a device that failed it does nothing. */
void kernel_unload(struct kernel *kernel) {
  for (unsigned i = 0; i < KERNEL_ARCHITECTURES; i++) {
    if (kernel->loaded[i].library) {
      (void)driver.unload(kernel->loaded[i].library);
    }
  }
}

int kernel_enqueue(const struct stage_plan *plan, const struct stage_call *call, void *stream) {
  const struct kernel *kernel = plan->object;
  const struct kernel_loaded *loaded = call->session;
  struct framed_in in = kernel->in;
  struct framed_out out = kernel->out;
  void *arguments[2 + KERNEL_ARGUMENTS] = {&in, &out};
  in.data = call->input;
  out.data = call->output;
  for (unsigned i = 0; i < kernel->signature.count; i++) {
    arguments[2 + i] = (void *)kernel->signature.arguments[i].bytes;
  }
  /* cuLaunchKernel() takes a CUkernel in place of a CUfunction, and finds the function of the current context. */
  return (int)driver.launch((CUfunction)loaded->function, kernel->grid[0], kernel->grid[1], kernel->grid[2], kernel->block[0],
                            kernel->block[1], kernel->block[2], kernel->shared, stream, arguments, NULL);
}

#endif
