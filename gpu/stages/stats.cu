/*
 * stats: kernels and launcher. A block counts in shared memory, a column of counters for each lane of a warp, so
 * that lanes never meet at one counter whatever the image shows; blocks then add to the slot's scratch memory,
 * and one last block turns the totals into the result.
 */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/stats.h"
}

namespace {

enum { THREADS = STATS_BINS, WARPS = int(THREADS) / LAUNCH_WARP, BATCH = 16, COUNT_BLOCKS = 132 * 6 };

static_assert(sizeof(stats_totals) % sizeof(double) == 0, "chunk sums follow the totals");
static_assert(int(STATS_LANES) == int(LAUNCH_WARP), "a warp adds up a chunk");

struct stats_columns {
  uint32_t counts[STATS_BINS][LAUNCH_WARP];

  __device__ void clear() {
    for (uint32_t lane = 0; lane < LAUNCH_WARP; lane++) {
      counts[threadIdx.x][(lane + threadIdx.x) % LAUNCH_WARP] = 0;
    }
    __syncthreads();
  }
  __device__ void count(uint32_t bin) { atomicAdd(&counts[bin][threadIdx.x % LAUNCH_WARP], 1U); }
  __device__ void flush(stats_totals *totals) {
    __syncthreads();
    unsigned long long sum = 0;
    for (uint32_t lane = 0; lane < LAUNCH_WARP; lane++) {
      sum += counts[threadIdx.x][(lane + threadIdx.x) % LAUNCH_WARP];
    }
    if (sum != 0) {
      atomicAdd(&totals->bins[threadIdx.x], sum);
    }
  }
};

/* The sum of a warp's values in the order that stats.h prescribes, for its first lane. */
__device__ double add_lanes(double sum) {
  for (uint32_t width = LAUNCH_WARP / 2; width > 0; width /= 2) {
    sum += __shfl_down_sync(launch_all_lanes, sum, width);
  }
  return sum;
}

/* The same over the STATS_SUM_LANES threads of a block, for its first thread. */
__device__ double add_sum_lanes(double value) {
  __shared__ double lanes[STATS_SUM_LANES];
  lanes[threadIdx.x] = value;
  __syncthreads();
  for (uint32_t width = STATS_SUM_LANES / 2; width >= LAUNCH_WARP; width /= 2) {
    if (threadIdx.x < width) {
      lanes[threadIdx.x] += lanes[threadIdx.x + width];
    }
    __syncthreads();
  }
  return threadIdx.x < LAUNCH_WARP ? add_lanes(lanes[threadIdx.x]) : 0;
}

__device__ uint32_t warp_greatest(uint32_t value) {
  for (uint32_t width = LAUNCH_WARP / 2; width > 0; width /= 2) {
    const uint32_t other = __shfl_down_sync(launch_all_lanes, value, width);
    value = other > value ? other : value;
  }
  return value;
}

__global__ void __launch_bounds__(THREADS)
    stats_count_bytes(const uint8_t *__restrict__ in, stats_totals *totals, uint64_t count) {
  __shared__ stats_columns columns;
  columns.clear();
  constexpr int width = launch_width<uint8_t, uint8_t>;
  for (uint64_t pack = launch_first(); pack < count / width; pack += launch_stride()) {
    const auto source = reinterpret_cast<const launch_pack<uint8_t, width> *>(in)[pack];
#pragma unroll
    for (int i = 0; i < width; i++) {
      columns.count(source.values[i]);
    }
  }
  const uint64_t last = count / width * width + launch_first();
  if (last < count) {
    columns.count(in[last]);
  }
  columns.flush(totals);
}

/* What one thread has seen of float samples. */
struct stats_seen {
  double sum; /* of the current chunk */
  uint32_t lowest, highest;

  __device__ void add(float value, const stats_constants &constants, stats_columns &columns) {
    if (stats_is_counted(value)) {
      sum += double(value);
      lowest = max(lowest, ~stats_key(value));
      highest = max(highest, stats_key(value));
      columns.count(stats_bin(value, constants));
    }
  }
};

/* Each warp takes a chunk at a time. A batch of loads is under way together; beyond the end there are NaNs. */
__global__ void __launch_bounds__(THREADS)
    stats_count_floats(const float *__restrict__ in, stats_totals *totals, double *sums, stats_constants constants) {
  __shared__ stats_columns columns;
  columns.clear();
  const uint32_t lane = threadIdx.x % LAUNCH_WARP;
  stats_seen seen = {0, 0, 0};
  for (uint64_t chunk = launch_first() / LAUNCH_WARP; chunk < stats_chunks(constants.samples);
       chunk += launch_stride() / LAUNCH_WARP) {
    seen.sum = 0;
    for (uint32_t row = 0; row < STATS_CHUNK / STATS_LANES; row += BATCH) {
      const uint64_t first = chunk * STATS_CHUNK + row * STATS_LANES + lane;
      float values[BATCH];
#pragma unroll
      for (uint32_t i = 0; i < BATCH; i++) {
        values[i] = first + i * STATS_LANES < constants.samples ? in[first + i * STATS_LANES] : nanf("");
      }
#pragma unroll
      for (uint32_t i = 0; i < BATCH; i++) {
        seen.add(values[i], constants, columns);
      }
    }
    const double sum = add_lanes(seen.sum);
    if (lane == 0) {
      sums[chunk] = sum;
    }
  }
  const uint32_t lowest = warp_greatest(seen.lowest);
  const uint32_t highest = warp_greatest(seen.highest);
  if (lane == 0) {
    atomicMax(&totals->lowest, lowest);
    atomicMax(&totals->highest, highest);
  }
  columns.flush(totals);
}

/* The sum of whole numbers does not depend on the order. */
__device__ unsigned long long add_counts(unsigned long long value) {
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) {
    sum = 0;
  }
  __syncthreads();
  atomicAdd(&sum, value);
  __syncthreads();
  return sum;
}

__global__ void __launch_bounds__(THREADS)
    stats_finish_bytes(const stats_totals *totals, float *out, stats_constants constants) {
  __shared__ unsigned long long bins[STATS_BINS];
  __shared__ uint32_t lowest, highest;
  const uint32_t level = threadIdx.x;
  const unsigned long long count = totals->bins[level];
  bins[level] = 0;
  if (level == 0) {
    lowest = STATS_BINS - 1;
    highest = 0;
  }
  __syncthreads();
  if (count != 0) {
    atomicAdd(&bins[stats_bin(float(level), constants)], count);
    atomicMin(&lowest, level);
    atomicMax(&highest, level);
  }
  const unsigned long long sum = add_counts(level * count);
  out[STATS_HISTOGRAM + level] = stats_ratio(double(bins[level]), double(constants.samples));
  if (level == 0) {
    out[STATS_MINIMUM] = float(lowest);
    out[STATS_MAXIMUM] = float(highest);
    out[STATS_MEAN] = stats_ratio(double(sum), double(constants.samples));
    out[STATS_COUNTED] = 1;
  }
}

__global__ void __launch_bounds__(STATS_SUM_LANES)
    stats_finish_floats(const stats_totals *totals, const double *sums, float *out, stats_constants constants) {
  const unsigned long long count = threadIdx.x < STATS_BINS ? totals->bins[threadIdx.x] : 0;
  const unsigned long long counted = add_counts(count);
  const uint64_t chunks = stats_chunks(constants.samples);
  double sum = 0;
#pragma unroll 8
  for (uint64_t chunk = threadIdx.x; chunk < chunks; chunk += STATS_SUM_LANES) {
    sum += sums[chunk];
  }
  sum = add_sum_lanes(sum);
  if (threadIdx.x < STATS_BINS) {
    out[STATS_HISTOGRAM + threadIdx.x] = stats_ratio(double(count), double(counted));
  }
  if (threadIdx.x == 0) {
    out[STATS_MINIMUM] = counted != 0 ? stats_from_key(~totals->lowest) : 0.0F;
    out[STATS_MAXIMUM] = counted != 0 ? stats_from_key(totals->highest) : 0.0F;
    out[STATS_MEAN] = stats_ratio(sum, double(counted));
    out[STATS_COUNTED] = stats_ratio(double(counted), double(constants.samples));
  }
}

unsigned count_blocks(uint64_t wanted) { return wanted < COUNT_BLOCKS ? unsigned(wanted) : unsigned(COUNT_BLOCKS); }

int enqueue_floats(const stage_call *call, stats_totals *totals, const stats_constants &constants, cudaStream_t stream) {
  const auto *in = static_cast<const float *>(call->input);
  auto *out = static_cast<float *>(call->output);
  auto *sums = reinterpret_cast<double *>(totals + 1);
  stats_count_floats<<<count_blocks(stats_chunks(constants.samples) / WARPS + 1), THREADS, 0, stream>>>(in, totals, sums,
                                                                                                        constants);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    return error;
  }
  stats_finish_floats<<<1, STATS_SUM_LANES, 0, stream>>>(totals, sums, out, constants);
  return cudaGetLastError();
}

int enqueue_bytes(const stage_call *call, stats_totals *totals, const stats_constants &constants, cudaStream_t stream) {
  const auto *in = static_cast<const uint8_t *>(call->input);
  auto *out = static_cast<float *>(call->output);
  const uint64_t packs_of_block = THREADS * launch_width<uint8_t, uint8_t>;
  stats_count_bytes<<<count_blocks(constants.samples / packs_of_block + 1), THREADS, 0, stream>>>(in, totals,
                                                                                                  constants.samples);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    return error;
  }
  stats_finish_bytes<<<1, THREADS, 0, stream>>>(totals, out, constants);
  return cudaGetLastError();
}

} // namespace

extern "C" int stats_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  stats_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  auto *totals = static_cast<stats_totals *>(call->scratch);
  const auto on = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaMemsetAsync(totals, 0, sizeof *totals, on);
  if (error != cudaSuccess) {
    return error;
  }
  return plan->input.dtype == ELEMENT_FLOAT32 ? enqueue_floats(call, totals, constants, on)
                                              : enqueue_bytes(call, totals, constants, on);
}
