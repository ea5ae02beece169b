/* Kernels for measurements. Each function returns a cudaError_t as int, like the launchers of stages. */
#ifndef FRAMED_FRAMEBENCH_COMMON_CUDA_KERNELS_H
#define FRAMED_FRAMEBENCH_COMMON_CUDA_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Launches an empty kernel; `stream` is a cudaStream_t. */
int kernels_empty(void *stream);
/* Writes `value` to `flag`, which is mapped host memory. */
int kernels_raise(volatile uint32_t *flag, uint32_t value, void *stream);

/* Programs as textbooks write them, each with its own memory, streams and clock: */

/*
 * Computes 4 Mi floats, 100 rounds of v = sin(v) * cos(v) + v, in `chunks` chunks on two alternating streams. With 1 chunk
 * nothing overlaps. `milliseconds` receives the time of copies and kernels, the best of some runs.
 */
int kernels_textbook_chunks(unsigned chunks, double *milliseconds);
/*
 * Computes out = 2 in + 1 for 100 frames with two buffers and two streams of 1 Mi floats each. The host waits for a stream
 * before its next frame. `microseconds` receives the time per frame.
 */
int kernels_textbook_ping_pong(unsigned frames, double *microseconds);

#ifdef __cplusplus
}
#endif

#endif
