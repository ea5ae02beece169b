/* Copies from global into shared memory that are under way while a block computes. Before compute capability 8.0 they are loads
 * and stores. */
#ifndef FRAMED_GPU_STAGES_ASYNC_CUH
#define FRAMED_GPU_STAGES_ASYNC_CUH

#include "gpu/stages/launch.cuh"

enum { ASYNC_BYTES = 16 /* of a copy; both addresses are multiples of it */ };

/* `to` is an address within shared memory. */
static __device__ __forceinline__ void async_copy(uint32_t to, const void *from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  const uint4 piece = *static_cast<const uint4 *>(from);
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(piece.x), "r"(piece.y), "r"(piece.z), "r"(piece.w)
               : "memory");
#else
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#endif
}

/* Copies since the last commit form a group; async_wait() returns when at most LEFT groups are under way. */
static __device__ __forceinline__ void async_commit() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LEFT> static __device__ __forceinline__ void async_wait() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

#endif
