/* Copies the rows of a batch with one kernel: a launch costs as much as one copy of a row would. */
#include <cuda_runtime.h>

#include <cstdint>

extern "C" {
#include "gpu/model/cuda_rows.h"
}

namespace {

constexpr size_t THREADS = 256, MOST_BLOCKS = 1024;

template <typename Word> __global__ void rows_kernel(const cuda_rows rows) {
  const size_t words = rows.bytes / sizeof(Word);
  const auto *from = static_cast<const Word *>(rows.from[blockIdx.y]);
  auto *to = static_cast<Word *>(rows.to[blockIdx.y]);
  for (size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x; i < words; i += size_t(gridDim.x) * THREADS) {
    to[i] = from[i];
  }
}

template <typename Word> int launch(const cuda_rows *rows, void *stream) {
  const size_t blocks = (rows->bytes / sizeof(Word) + THREADS - 1) / THREADS;
  const dim3 grid(unsigned(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), rows->count);
  rows_kernel<Word><<<grid, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(*rows);
  return cudaGetLastError();
}

} // namespace

extern "C" int cuda_copy_rows(const cuda_rows *rows, void *stream) {
  return rows->bytes % sizeof(uint4) == 0      ? launch<uint4>(rows, stream)
         : rows->bytes % sizeof(uint32_t) == 0 ? launch<uint32_t>(rows, stream)
                                               : launch<uint8_t>(rows, stream);
}
