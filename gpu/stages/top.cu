/* top: kernel and launcher. One block finds the greatest key below the last one, k times, and adds up what softmax needs. */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/top.h"
}

namespace {

/* The sum over the block's lanes in the order that top.h prescribes, for all of them. */
__device__ float add_lanes(float value) {
  __shared__ float lanes[TOP_LANES];
  lanes[threadIdx.x] = value;
  __syncthreads();
  for (uint32_t width = TOP_LANES / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) {
      lanes[threadIdx.x] += lanes[threadIdx.x + width];
    }
    __syncthreads();
  }
  return lanes[0];
}

__device__ unsigned long long warp_greatest(unsigned long long key) {
  for (uint32_t width = LAUNCH_WARP / 2; width > 0; width /= 2) {
    const unsigned long long other = __shfl_down_sync(launch_all_lanes, key, width);
    key = other > key ? other : key;
  }
  return key;
}

/* The greatest key of the block, for all of it. */
__device__ unsigned long long block_greatest(unsigned long long key) {
  __shared__ unsigned long long greatest[LAUNCH_WARP];
  key = warp_greatest(key);
  if (threadIdx.x % LAUNCH_WARP == 0) {
    greatest[threadIdx.x / LAUNCH_WARP] = key;
  }
  __syncthreads();
  if (threadIdx.x < LAUNCH_WARP) {
    key = warp_greatest(greatest[threadIdx.x]);
    if (threadIdx.x == 0) {
      greatest[0] = key;
    }
  }
  __syncthreads();
  key = greatest[0];
  __syncthreads(); /* it may be written again */
  return key;
}

__global__ void __launch_bounds__(TOP_LANES)
    top_select(const float *__restrict__ in, float *__restrict__ out, top_constants constants) {
  unsigned long long key = ~0ULL;
  float largest = 0;
  float sum = 0;
  for (uint32_t row = 0; row < constants.k; row++) {
    unsigned long long mine = 0;
    for (uint32_t i = threadIdx.x; i < constants.classes; i += TOP_LANES) {
      const unsigned long long candidate = top_key(top_score(in[i]), i);
      mine = candidate < key && candidate > mine ? candidate : mine;
    }
    key = block_greatest(mine);
    if (row == 0 && constants.softmax) {
      largest = top_key_score(key);
      for (uint32_t i = threadIdx.x; i < constants.classes; i += TOP_LANES) {
        sum += top_power(in[i], largest);
      }
      sum = add_lanes(sum);
    }
    if (threadIdx.x == 0) {
      top_write(&constants, key, largest, sum, out + row * TOP_ROW);
    }
  }
}

} // namespace

extern "C" int top_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  top_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  top_select<<<1, TOP_LANES, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const float *>(call->input),
                                                                     static_cast<float *>(call->output), constants);
  return cudaGetLastError();
}
