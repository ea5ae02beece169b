/*
 * Users' kernels on a device: loaded when the first session there begins, launched for each frame.
 *
 * Source is compiled for the device that is there; what was compiled at first serves where the architecture is the same.
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

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

static bool check(cudaError_t status, const char *what, const struct kernel *kernel, char problem[STAGE_TEXT]) {
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    snprintf(problem, STAGE_TEXT, "%s %s: %s", what, kernel->file, cudaGetErrorString(status));
  }
  return status == cudaSuccess;
}

/* Whether the device takes as many threads, as much shared memory and the arguments as they are. */
static bool check_launch(const struct kernel *kernel, const void *function, char problem[STAGE_TEXT]) {
  struct cudaFuncAttributes attributes;
  size_t offset, size;
  unsigned threads = kernel->block[0] * kernel->block[1] * kernel->block[2];
  if (!check(cudaFuncGetAttributes(&attributes, function), "asking the device of the kernel in", kernel, problem)) {
    return false;
  }
  if (threads > (unsigned)attributes.maxThreadsPerBlock) {
    snprintf(problem, STAGE_TEXT, "`block` makes %u threads, and a block of this kernel may have %d on this device", threads,
             attributes.maxThreadsPerBlock);
    return false;
  }
  if (cudaFuncGetParamInfo(function, 0, &offset, &size) != cudaSuccess || size != sizeof(struct framed_in) ||
      cudaFuncGetParamInfo(function, 1, &offset, &size) != cudaSuccess || size != sizeof(struct framed_out)) {
    (void)cudaGetLastError();
    snprintf(problem, STAGE_TEXT, "%s was compiled with another framed-kernel.h", kernel->file);
    return false;
  }
  return kernel->shared == 0 ||
         check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kernel->shared),
               "the device has not as much shared memory as `shared` asks of", kernel, problem);
}

static bool open_code(struct kernel *kernel, const struct kernel_code *code, struct kernel_loaded *loaded,
                      char problem[STAGE_TEXT]) {
  cudaLibrary_t library = NULL;
  cudaKernel_t function = NULL;
  if (!check(cudaLibraryLoadData(&library, code->bytes, NULL, NULL, 0, NULL, NULL, 0), "loading", kernel, problem)) {
    return false;
  }
  if (check(cudaLibraryGetKernel(&function, library, kernel->signature.symbol), "looking for the kernel in", kernel, problem) &&
      check_launch(kernel, (const void *)function, problem)) {
    loaded->library = library;
    loaded->function = function;
    return true;
  }
  (void)cudaLibraryUnload(library);
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
  return loaded;
}

/* On a device that failed it does nothing. */
void kernel_unload(struct kernel *kernel) {
  for (unsigned i = 0; i < KERNEL_ARCHITECTURES; i++) {
    if (kernel->loaded[i].library && cudaLibraryUnload(kernel->loaded[i].library) != cudaSuccess) {
      (void)cudaGetLastError();
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
  const cudaLaunchConfig_t launch = {.gridDim = {kernel->grid[0], kernel->grid[1], kernel->grid[2]},
                                     .blockDim = {kernel->block[0], kernel->block[1], kernel->block[2]},
                                     .dynamicSmemBytes = kernel->shared,
                                     .stream = stream};
  return (int)cudaLaunchKernelExC(&launch, loaded->function, arguments);
}

#endif
