/*
 * What the kernels share: the C headers as C++ takes them, launch sizes, and a vectorised point-wise map.
 *
 * Every kernel walks its data in a grid-stride loop with 64 bit indices, so no frame is too large and no launch
 * too wide. Buffers are 256 byte aligned (stage.h), so only tails need narrow loads and stores.
 */
#ifndef FRAMED_GPU_STAGES_LAUNCH_CUH
#define FRAMED_GPU_STAGES_LAUNCH_CUH

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define _Alignas alignas
#define _Static_assert static_assert
extern "C" {
#include "gpu/stages/prepare.h"
}
#undef _Static_assert
#undef _Alignas

enum { LAUNCH_THREADS = 256, LAUNCH_MAX_BLOCKS = 1 << 16, LAUNCH_WARP = 32 };
constexpr unsigned launch_all_lanes = 0xffffffffU;

/* Blocks for `items` units of work, one a thread until there are enough to keep any device busy. At least 1. */
static inline unsigned launch_blocks(uint64_t items) {
  uint64_t blocks = (items + LAUNCH_THREADS - 1) / LAUNCH_THREADS;
  return blocks == 0 ? 1 : blocks > LAUNCH_MAX_BLOCKS ? unsigned(LAUNCH_MAX_BLOCKS) : unsigned(blocks);
}

/* The calling thread's first index and the number of threads in the grid. */
static __device__ __forceinline__ uint64_t launch_first() { return uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
static __device__ __forceinline__ uint64_t launch_stride() { return uint64_t(gridDim.x) * blockDim.x; }

/* `Count` values of a type that move as one aligned load or store. */
template <typename Value, int Count> struct alignas(sizeof(Value) * Count) launch_pack { Value values[Count]; };

/* Values that one thread takes in a step so that the wider type moves 16 bytes at a time. */
template <typename In, typename Out> constexpr int launch_width = 16 / (sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out));

/* out[i] = operation(in[i]) for i < count; `Width` values a thread and step, then the tail. */
template <typename In, typename Out, int Width, typename Operation>
__global__ void launch_map_kernel(const In *__restrict__ in, Out *__restrict__ out, uint64_t count, Operation operation) {
  const uint64_t packs = count / Width;
  for (uint64_t pack = launch_first(); pack < packs; pack += launch_stride()) {
    const auto source = reinterpret_cast<const launch_pack<In, Width> *>(in)[pack];
    launch_pack<Out, Width> target;
#pragma unroll
    for (int i = 0; i < Width; i++) {
      target.values[i] = operation(source.values[i]);
    }
    reinterpret_cast<launch_pack<Out, Width> *>(out)[pack] = target;
  }
  const uint64_t last = packs * Width + launch_first();
  if (last < count) {
    out[last] = operation(in[last]);
  }
}

template <typename In, typename Out, int Width = launch_width<In, Out>, typename Operation>
static int launch_map(const void *in, void *out, uint64_t count, Operation operation, void *stream) {
  const unsigned blocks = launch_blocks(count / Width + 1);
  launch_map_kernel<In, Out, Width><<<blocks, LAUNCH_THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const In *>(in), static_cast<Out *>(out), count, operation);
  return cudaGetLastError();
}

/* The same for a stage that takes any format and keeps it. */
template <int FloatWidth = launch_width<float, float>, int ByteWidth = launch_width<uint8_t, uint8_t>, typename Operation>
static int launch_samples(const stage_plan *plan, const stage_call *call, Operation operation, void *stream) {
  const uint64_t count = format_samples(&plan->input);
  return plan->input.dtype == ELEMENT_FLOAT32
             ? launch_map<float, float, FloatWidth>(call->input, call->output, count, operation, stream)
             : launch_map<uint8_t, uint8_t, ByteWidth>(call->input, call->output, count, operation, stream);
}

#endif
