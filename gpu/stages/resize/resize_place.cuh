/*
 * resize: where samples and rows are, for the kernels of resize_floats.cu and resize_tiles.cu.
 */
#ifndef FRAMED_GPU_STAGES_RESIZE_PLACE_CUH
#define FRAMED_GPU_STAGES_RESIZE_PLACE_CUH

#include "gpu/stages/launch.cuh"

/* The distance of a sample from the window's start; beyond the window, that of what stands at its edge. */
static __device__ __forceinline__ uint32_t place(uint32_t index, uint32_t start, uint32_t size) {
  return min(index < start ? 0 : index - start, size - 1);
}

/* From the start of a plane to a row that is `row` bytes long. One instruction finds an address of it, which the compiler
 * misses where it knows that length to be the same for all. */
static __device__ __forceinline__ uint64_t distance(uint32_t y, uint32_t row) {
  uint64_t result;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(result) : "r"(y), "r"(row));
  return result;
}

#endif
