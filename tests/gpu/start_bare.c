/* The start of a process that has one kernel: what no program on a GPU comes below. See start_times.c. */
#include "tests/gpu/start_times.h"

#include "gpu/cuda/cuda.h"

const char start_program[] = "bare ";

void start_work(unsigned char *memory, size_t bytes, unsigned programs) {
  cudaStream_t stream;
  void *device = NULL;
  (void)programs;
  start_check((int)cudaHostRegister(memory, bytes, cudaHostRegisterDefault), "cudaHostRegister");
  start_phase("pin");
  start_check((int)cudaMalloc(&device, bytes), "cudaMalloc");
  start_phase("malloc");
  start_check((int)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  start_check(cuda_nothing(stream), "a kernel");
  start_check((int)cudaMemcpyAsync(device, memory, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  start_check((int)cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  start_phase("frame");
}

void start_fail(const char *how) { (void)how; }
