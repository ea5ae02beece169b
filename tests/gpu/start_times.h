/*
 * What start_times.c, which measures the start of a process on a GPU, asks of the program it is linked into: start_bare.c
 * has one kernel and the runtime alone, start_whole.c the whole backend with all kernels.
 */
#ifndef FRAMED_TESTS_GPU_START_TIMES_H
#define FRAMED_TESTS_GPU_START_TIMES_H

#include <stdbool.h>
#include <stddef.h>

extern const char start_program[];

/* Says on standard output how long it took since the last call, and begins anew. */
void start_phase(const char *name);
void start_begin(void);
/* Ends the process with 1, saying so, if that did not succeed; `status` is a cudaError_t. */
void start_check(int status, const char *what);
void start_require(bool good, const char *what, const char *why);

/* What the program does once the runtime has a context; `memory` is mapped and prefaulted, not yet pinned. */
void start_work(unsigned char *memory, size_t bytes, unsigned programs);
/* Puts a frame on the device that fails so; returns once that is found (for "hang": after a while). */
void start_fail(const char *how);

#endif
