/*
 * Kernels for measurements, and two programs from textbooks on overlap. These use the textbooks' usual methods: two alternating
 * streams, a wait for the stream before its buffer is reused, and the library's sine and cosine.
 */
#include "tools/framebench/common/cuda_kernels.h"

#include <cuda_runtime.h>

#include <chrono>

namespace {

__global__ void empty_kernel() {}

__global__ void raise_kernel(volatile uint32_t *flag, uint32_t value) { *flag = value; }

__global__ void rounds_kernel(float *data, int count, int rounds) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    float value = data[i];
    for (int round = 0; round < rounds; round++) {
      value = sinf(value) * cosf(value) + value;
    }
    data[i] = value;
  }
}

__global__ void twice_plus_one_kernel(const float *in, float *out, int count) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    out[i] = 2.0F * in[i] + 1.0F;
  }
}

enum { THREADS = 256, CHUNK_FLOATS = 4 << 20, FRAME_FLOATS = 1 << 20, ROUNDS = 100, RUNS = 5, MOST_CHUNKS = 64 };

unsigned blocks_for(int count) { return unsigned((count + THREADS - 1) / THREADS); }

/* The program's resources on the device, freed at the end of the scope. */
struct textbook {
  float *host[2] = {}, *device_in[2] = {}, *device_out[2] = {};
  cudaStream_t streams[2] = {};

  ~textbook() {
    for (int i = 0; i < 2; i++) {
      (void)cudaFreeHost(host[i]);
      (void)cudaFree(device_in[i]);
      (void)cudaFree(device_out[i]);
      if (streams[i]) {
        (void)cudaStreamDestroy(streams[i]);
      }
    }
  }

  cudaError_t open_half(int i, size_t bytes) {
    cudaError_t status = cudaMallocHost(&host[i], bytes);
    status = status == cudaSuccess ? cudaMalloc(&device_in[i], bytes) : status;
    status = status == cudaSuccess ? cudaMalloc(&device_out[i], bytes) : status;
    return status == cudaSuccess ? cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking) : status;
  }

  cudaError_t open(size_t floats) {
    cudaError_t status = cudaSuccess;
    const size_t bytes = floats * sizeof(float);
    for (int i = 0; i < 2 && status == cudaSuccess; i++) {
      status = open_half(i, bytes);
      for (size_t k = 0; k < floats && status == cudaSuccess; k++) {
        host[i][k] = float(k % 1000) * 0.001F;
      }
    }
    return status;
  }
};

cudaError_t enqueue_chunk(const textbook &book, unsigned stream, int first, int count) {
  cudaError_t status = cudaMemcpyAsync(book.device_in[0] + first, book.host[0] + first, count * sizeof(float),
                                       cudaMemcpyHostToDevice, book.streams[stream]);
  if (status != cudaSuccess) {
    return status;
  }
  rounds_kernel<<<blocks_for(count), THREADS, 0, book.streams[stream]>>>(book.device_in[0] + first, count, ROUNDS);
  status = cudaGetLastError();
  return status != cudaSuccess ? status
                               : cudaMemcpyAsync(book.host[1] + first, book.device_in[0] + first, count * sizeof(float),
                                                 cudaMemcpyDeviceToHost, book.streams[stream]);
}

cudaError_t run_chunks(const textbook &book, unsigned chunks) {
  cudaError_t status = cudaSuccess;
  const int count = CHUNK_FLOATS / int(chunks);
  for (unsigned i = 0; i < chunks && status == cudaSuccess; i++) {
    status = enqueue_chunk(book, i % 2, int(i) * count, count);
  }
  for (int i = 0; i < 2 && status == cudaSuccess; i++) {
    status = cudaStreamSynchronize(book.streams[i]);
  }
  return status;
}

cudaError_t enqueue_frame(const textbook &book, unsigned slot, size_t bytes) {
  cudaError_t status =
      cudaMemcpyAsync(book.device_in[slot], book.host[slot], bytes, cudaMemcpyHostToDevice, book.streams[slot]);
  if (status != cudaSuccess) {
    return status;
  }
  twice_plus_one_kernel<<<blocks_for(FRAME_FLOATS), THREADS, 0, book.streams[slot]>>>(book.device_in[slot],
                                                                                      book.device_out[slot], FRAME_FLOATS);
  status = cudaGetLastError();
  return status != cudaSuccess
             ? status
             : cudaMemcpyAsync(book.host[slot], book.device_out[slot], bytes, cudaMemcpyDeviceToHost, book.streams[slot]);
}

cudaError_t run_ping_pong(const textbook &book, unsigned frames) {
  cudaError_t status = cudaSuccess;
  for (unsigned i = 0; i < frames && status == cudaSuccess; i++) {
    status = cudaStreamSynchronize(book.streams[i % 2]);
    if (status == cudaSuccess) {
      status = enqueue_frame(book, i % 2, FRAME_FLOATS * sizeof(float));
    }
  }
  for (int i = 0; i < 2 && status == cudaSuccess; i++) {
    status = cudaStreamSynchronize(book.streams[i]);
  }
  return status;
}

/* Calls `work` RUNS times after a warm-up call. `best` receives the shortest time in milliseconds. */
template <typename Work> cudaError_t best_of(Work work, double *best) {
  *best = 1e30;
  for (int run = 0; run <= RUNS; run++) {
    const auto start = std::chrono::steady_clock::now();
    const cudaError_t status = work();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    if (status != cudaSuccess) {
      return status;
    }
    *best = run > 0 && taken.count() < *best ? taken.count() : *best;
  }
  return cudaSuccess;
}

} // namespace

extern "C" int kernels_empty(void *stream) {
  empty_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
  return cudaGetLastError();
}

extern "C" int kernels_raise(volatile uint32_t *flag, uint32_t value, void *stream) {
  raise_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(flag, value);
  return cudaGetLastError();
}

extern "C" int kernels_textbook_chunks(unsigned chunks, double *milliseconds) {
  textbook book;
  const cudaError_t status = chunks >= 1 && chunks <= MOST_CHUNKS ? book.open(CHUNK_FLOATS) : cudaErrorInvalidValue;
  return status != cudaSuccess ? status : best_of([&] { return run_chunks(book, chunks); }, milliseconds);
}

extern "C" int kernels_textbook_ping_pong(unsigned frames, double *microseconds) {
  textbook book;
  double milliseconds = 0;
  cudaError_t status = book.open(FRAME_FLOATS);
  if (status == cudaSuccess) {
    status = best_of([&] { return run_ping_pong(book, frames); }, &milliseconds);
  }
  *microseconds = milliseconds * 1e3 / frames;
  return status;
}
