/* Kernels that only measuring needs. Each returns a cudaError_t as int, as the launchers of the stages do. */
#ifndef FRAMED_FRAMEBENCH_COMMON_CUDA_KERNELS_H
#define FRAMED_FRAMEBENCH_COMMON_CUDA_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel that does nothing; `stream` is a cudaStream_t. */
int kernels_empty(void *stream);
/* Writes `value` to `flag`, which is mapped memory of the host. */
int kernels_raise(volatile uint32_t *flag, uint32_t value, void *stream);

/* As textbooks write them, each with its own memory, streams and clock: */

/* 4 Mi floats, 100 rounds of v = sin(v) * cos(v) + v, in `chunks` chunks that take two streams in turn (1: one after
 * the other, no overlap). Gives milliseconds for copies and kernels, the best of some runs. */
int kernels_textbook_chunks(unsigned chunks, double *milliseconds);
/* Two buffers and two streams of 1 Mi floats each, 100 frames, out = 2 in + 1; the host waits for a stream before it
 * gives it another frame. Gives microseconds a frame. */
int kernels_textbook_ping_pong(unsigned frames, double *microseconds);

#ifdef __cplusplus
}
#endif

#endif
