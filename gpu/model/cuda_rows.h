/* Copies between rows of a batch and the places of its frames, on one device. */
#ifndef FRAMED_GPU_MODEL_CUDA_ROWS_H
#define FRAMED_GPU_MODEL_CUDA_ROWS_H

#include <stddef.h>

enum { CUDA_MOST_ROWS = 64 };

struct cuda_rows {
  unsigned count;
  size_t bytes; /* of each */
  const void *from[CUDA_MOST_ROWS];
  void *to[CUDA_MOST_ROWS];
};

/* Enqueues one kernel on a cudaStream_t; returns a cudaError_t. Places are aligned to 16 bytes where `bytes` are a multiple of
 * them, and to 4 likewise. */
int cuda_copy_rows(const struct cuda_rows *rows, void *stream);

#endif
