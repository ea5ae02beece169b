/*
 * Functions of the CUDA driver, which is not linked: the runtime finds them in the driver that is loaded.
 */
#ifndef FRAMED_GPU_CUDA_DRIVER_H
#define FRAMED_GPU_CUDA_DRIVER_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <string.h>

/* Writes the function to the pointer at `function`, as CUDA `version` (12050 is 12.5) declares it. False: the driver is older,
 * and the pointer is NULL. */
static inline bool cuda_driver_find(const char *name, unsigned version, void *function) {
  enum cudaDriverEntryPointQueryResult found;
  void *symbol = NULL;
#if CUDART_VERSION >= 12050
  cudaError_t status = cudaGetDriverEntryPointByVersion(name, &symbol, version, cudaEnableDefault, &found);
#else
  (void)version; /* an older toolkit asks for its own version, and nobody asks it for a newer one */
  cudaError_t status = cudaGetDriverEntryPoint(name, &symbol, cudaEnableDefault, &found);
#endif
  (void)cudaGetLastError();
  memcpy(function, &symbol, sizeof symbol);
  return status == cudaSuccess && symbol;
}

#endif
