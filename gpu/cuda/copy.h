/* Copies of small frames by a kernel of the CUDA backend; cuda_copy.cu says why. */
#ifndef FRAMED_GPU_CUDA_COPY_H
#define FRAMED_GPU_CUDA_COPY_H

#include <stddef.h>

/* Launches it on a cudaStream_t; returns a cudaError_t. Either memory may be pinned memory of the host, at the address that the
 * device's kernels know it by. Both are aligned to 16 bytes. */
int cuda_copy(void *to, const void *from, size_t bytes, void *stream);

#endif
