/*
 * stats: kernels and launcher. A block counts in shared memory, a column of counters for each lane of a warp, so
 * that lanes never meet at one counter whatever the image shows. Of bytes, each block leaves what it counted in the slot's
 * scratch memory; of floats, blocks add to what is there. One last block makes the result of it.
 */
#include "gpu/stages/bytes.cuh"

extern "C" {
#include "gpu/stages/stats.h"
}

namespace {

enum {
  THREADS = STATS_BINS,
  WARPS = int(THREADS) / LAUNCH_WARP,
  BATCH = 16,
  COUNT_BLOCKS = 132 * 6,
  BYTE_THREADS = 1024, /* of a block that counts bytes: few blocks leave little to add up */
  BYTE_BATCH = 2       /* loads under way together */
};

static_assert(sizeof(stats_totals) % sizeof(double) == 0, "chunk sums follow the totals");
static_assert(int(STATS_LANES) == int(LAUNCH_WARP), "a warp adds up a chunk");

/* Counters of a block of `Threads`. */
template <int Threads> struct stats_columns {
  static constexpr int each = Threads / STATS_BINS;         /* threads for a bin when columns are added */
  alignas(16) uint32_t counts[STATS_BINS + 1][LAUNCH_WARP]; /* the last for what is in no bin */

  __device__ void clear() {
    auto *packs = reinterpret_cast<launch_pack<uint32_t, 4> *>(counts);
    for (uint32_t i = threadIdx.x; i < sizeof counts / sizeof *packs; i += Threads) {
      packs[i] = {0, 0, 0, 0};
    }
    __syncthreads();
  }
  __device__ void count(uint32_t bin) { atomicAdd(&counts[bin][threadIdx.x % LAUNCH_WARP], 1U); }
  /* The four bytes of a word. */
  __device__ __forceinline__ void count_word(uint32_t word) {
    constexpr uint32_t row = sizeof counts[0];
    static_assert(row == 128, "a byte times that is the word shifted by no more than 7, and masked");
    auto *own = reinterpret_cast<unsigned char *>(counts) + threadIdx.x % LAUNCH_WARP * sizeof(uint32_t);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t offset = (i == 0 ? word << 7 : word >> (8 * i - 7)) & 255U * row;
      atomicAdd(reinterpret_cast<uint32_t *>(own + offset), 1U);
    }
  }
  __device__ static uint32_t bin() { return threadIdx.x / each; }
  /* How often the calling thread's bin() was counted, for the first thread of each bin. */
  __device__ uint32_t add() {
    __syncthreads();
    uint32_t sum = 0;
    for (uint32_t i = 0; i < LAUNCH_WARP; i += each) {
      sum += counts[bin()][(i + threadIdx.x) % LAUNCH_WARP];
    }
    for (int width = each / 2; width > 0; width /= 2) {
      sum += __shfl_down_sync(launch_all_lanes, sum, width);
    }
    return sum;
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

/* The greatest of a block's values, for its first thread. */
__device__ uint32_t block_greatest(uint32_t value) {
  __shared__ uint32_t greatest[WARPS];
  value = warp_greatest(value);
  if (threadIdx.x % LAUNCH_WARP == 0) {
    greatest[threadIdx.x / LAUNCH_WARP] = value;
  }
  __syncthreads();
  const uint32_t all = warp_greatest(threadIdx.x < WARPS ? greatest[threadIdx.x] : 0);
  __syncthreads();
  return all;
}

using byte_columns = stats_columns<BYTE_THREADS>;
using byte_pack = launch_pack<uint32_t, 4>;

__device__ __forceinline__ void count_bytes(byte_columns &columns, byte_pack pack) {
#pragma unroll
  for (uint32_t word : pack.values) {
    columns.count_word(word);
  }
}

/* Block i fills parts[i]. */
__global__ void __launch_bounds__(BYTE_THREADS)
    stats_count_bytes(const uint8_t *__restrict__ in, uint32_t (*parts)[STATS_BINS], uint64_t count) {
  __shared__ byte_columns columns;
  columns.clear();
  const auto *packs = reinterpret_cast<const byte_pack *>(in);
  const uint64_t end = count / sizeof(byte_pack);
  uint64_t pack = launch_first();
  for (; pack + (BYTE_BATCH - 1) * launch_stride() < end; pack += BYTE_BATCH * launch_stride()) {
    byte_pack batch[BYTE_BATCH];
#pragma unroll
    for (int i = 0; i < BYTE_BATCH; i++) {
      batch[i] = packs[pack + i * launch_stride()];
    }
#pragma unroll
    for (const byte_pack &one : batch) {
      count_bytes(columns, one);
    }
  }
  for (; pack < end; pack += launch_stride()) {
    count_bytes(columns, packs[pack]);
  }
  const uint64_t last = end * sizeof(byte_pack) + launch_first();
  if (last < count) {
    columns.count(in[last]);
  }
  const uint32_t sum = columns.add();
  if (threadIdx.x % byte_columns::each == 0) {
    parts[blockIdx.x][columns.bin()] = sum;
  }
}

/* In less time than setting memory takes. */
__global__ void __launch_bounds__(THREADS) stats_clear(stats_totals *totals) {
  totals->bins[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    totals->lowest = totals->highest = 0;
  }
}

/* What one thread has seen of float samples. Nothing branches on them: what is not counted is no number, adds 0, and goes to a
 * bin behind the others. */
struct stats_seen {
  double sum; /* of the current chunk */
  float lowest, highest;

  __device__ __forceinline__ void add(float value, const stats_constants &constants, stats_columns<THREADS> &columns) {
    const bool counted = fabsf(value) < arithmetic_from_bits(0x7f800000U);
    const int bin =
        __viaddmin_s32(__float_as_int(__fadd_rz(fmaxf((value - constants.low) * constants.bins_per_unit, 0.0F), bytes_bias)),
                       -0x4b000000, STATS_BINS - 1);
    columns.count(counted ? uint32_t(bin) : uint32_t(STATS_BINS));
    if (counted) {
      lowest = fminf(lowest, value);
      highest = fmaxf(highest, value);
      sum += double(value);
    }
  }
  template <bool Whole>
  __device__ __forceinline__ void add_chunk(const float *in, uint64_t left, const stats_constants &constants,
                                            stats_columns<THREADS> &columns) {
#pragma unroll 1
    for (uint32_t row = 0; row < STATS_CHUNK; row += BATCH * STATS_LANES) {
      float values[BATCH];
#pragma unroll
      for (uint32_t i = 0; i < BATCH; i++) {
        const uint32_t at = row + i * STATS_LANES;
        values[i] = Whole || at < left ? in[at] : nanf("");
      }
#pragma unroll
      for (uint32_t i = 0; i < BATCH; i++) {
        add(values[i], constants, columns);
      }
    }
  }
};

/* Each warp takes a chunk at a time. A batch of loads is under way together; beyond the end there are NaNs. */
__global__ void __launch_bounds__(THREADS)
    stats_count_floats(const float *__restrict__ in, stats_totals *totals, double *sums, stats_constants constants) {
  __shared__ stats_columns<THREADS> columns;
  columns.clear();
  const uint32_t lane = threadIdx.x % LAUNCH_WARP;
  stats_seen seen = {0, nanf(""), nanf("")};
  for (uint64_t chunk = launch_first() / LAUNCH_WARP; chunk < stats_chunks(constants.samples);
       chunk += launch_stride() / LAUNCH_WARP) {
    seen.sum = 0;
    const uint64_t first = chunk * STATS_CHUNK + lane;
    if ((chunk + 1) * STATS_CHUNK <= constants.samples) {
      seen.add_chunk<true>(in + first, 0, constants, columns);
    } else {
      seen.add_chunk<false>(in + first, first < constants.samples ? constants.samples - first : 0, constants, columns);
    }
    const double sum = add_lanes(seen.sum);
    if (lane == 0) {
      sums[chunk] = sum;
    }
  }
  const uint32_t lowest = block_greatest(seen.lowest <= seen.highest ? ~stats_key(seen.lowest) : 0);
  const uint32_t highest = block_greatest(seen.lowest <= seen.highest ? stats_key(seen.highest) : 0);
  if (threadIdx.x == 0) {
    atomicMax(&totals->lowest, lowest);
    atomicMax(&totals->highest, highest);
  }
  const uint32_t count = columns.add();
  if (count != 0) {
    atomicAdd(&totals->bins[threadIdx.x], static_cast<unsigned long long>(count));
  }
}

/* The sum over a block of STATS_SUM_LANES threads, of whole numbers, for all of them. */
__device__ unsigned long long add_counts(unsigned long long value) {
  __shared__ unsigned long long sums[LAUNCH_WARP];
  for (uint32_t width = LAUNCH_WARP / 2; width > 0; width /= 2) {
    value += __shfl_down_sync(launch_all_lanes, value, width);
  }
  if (threadIdx.x % LAUNCH_WARP == 0) {
    sums[threadIdx.x / LAUNCH_WARP] = value;
  }
  __syncthreads();
  value = 0;
  for (uint32_t warp = 0; warp < STATS_SUM_LANES / LAUNCH_WARP; warp++) {
    value += sums[warp];
  }
  return value;
}

/* Numbers of 64 bits that many threads of a block add to, as two of 32, for which there is an instruction. */
struct stats_wide_bins {
  uint32_t low[STATS_BINS], high[STATS_BINS]; /* 16 bits and the rest of each number that is added */

  __device__ void add(uint32_t bin, unsigned long long count) {
    atomicAdd(&low[bin], uint32_t(count & 0xffffU));
    atomicAdd(&high[bin], uint32_t(count >> 16));
  }
  __device__ unsigned long long at(uint32_t bin) const { return (static_cast<unsigned long long>(high[bin]) << 16) + low[bin]; }
};

/* How often a level occurs, of which STATS_SUM_LANES / STATS_BINS threads add up some parts each. All know that of their
 * level. */
__device__ unsigned long long add_parts(const uint32_t (*parts)[STATS_BINS], uint32_t count) {
  constexpr uint32_t each = STATS_SUM_LANES / STATS_BINS;
  static_assert(STATS_PARTS % each == 0, "all threads have as many");
  __shared__ unsigned long long sums[each][STATS_BINS];
  const uint32_t level = threadIdx.x % STATS_BINS;
  unsigned long long sum = 0;
#pragma unroll
  for (uint32_t i = 0; i < STATS_PARTS; i += each) {
    const uint32_t part = threadIdx.x / STATS_BINS + i;
    sum += part < count ? parts[part][level] : 0;
  }
  sums[threadIdx.x / STATS_BINS][level] = sum;
  __syncthreads();
  sum = 0;
  for (uint32_t i = 0; i < each; i++) {
    sum += sums[i][level];
  }
  return sum;
}

__global__ void __launch_bounds__(STATS_SUM_LANES)
    stats_finish_bytes(const uint32_t (*parts)[STATS_BINS], uint32_t part_count, float *out, stats_constants constants) {
  __shared__ stats_wide_bins bins;
  __shared__ uint32_t lowest, highest;
  const uint32_t level = threadIdx.x % STATS_BINS;
  const bool first = threadIdx.x < STATS_BINS;
  if (first) {
    bins.low[level] = bins.high[level] = 0;
  }
  if (threadIdx.x == 0) {
    lowest = STATS_BINS - 1;
    highest = 0;
  }
  const unsigned long long count = add_parts(parts, part_count); /* where all wait for what was set above */
  if (first && count != 0) {
    bins.add(stats_bin(float(level), constants), count);
    atomicMin(&lowest, level);
    atomicMax(&highest, level);
  }
  const unsigned long long sum = add_counts(first ? level * count : 0); /* and here for the bins */
  if (first) {
    out[STATS_HISTOGRAM + level] = stats_ratio(double(bins.at(level)), double(constants.samples));
  }
  if (threadIdx.x == 0) {
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
#pragma unroll 16
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

unsigned least(uint64_t wanted, unsigned most) { return wanted < most ? unsigned(wanted) : most; }

int enqueue_floats(const stage_call *call, const stats_constants &constants, cudaStream_t stream) {
  const auto *in = static_cast<const float *>(call->input);
  auto *out = static_cast<float *>(call->output);
  auto *totals = static_cast<stats_totals *>(call->scratch);
  auto *sums = reinterpret_cast<double *>(totals + 1);
  stats_clear<<<1, THREADS, 0, stream>>>(totals);
  cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    return error;
  }
  const unsigned blocks = least(stats_chunks(constants.samples) / WARPS + 1, COUNT_BLOCKS);
  stats_count_floats<<<blocks, THREADS, 0, stream>>>(in, totals, sums, constants);
  error = cudaGetLastError();
  if (error != cudaSuccess) {
    return error;
  }
  stats_finish_floats<<<1, STATS_SUM_LANES, 0, stream>>>(totals, sums, out, constants);
  return cudaGetLastError();
}

int enqueue_bytes(const stage_call *call, const stats_constants &constants, cudaStream_t stream) {
  const auto *in = static_cast<const uint8_t *>(call->input);
  auto *out = static_cast<float *>(call->output);
  auto *parts = static_cast<uint32_t(*)[STATS_BINS]>(call->scratch);
  const unsigned blocks = least(constants.samples / (BYTE_THREADS * sizeof(byte_pack)) + 1, STATS_PARTS);
  stats_count_bytes<<<blocks, BYTE_THREADS, 0, stream>>>(in, parts, constants.samples);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    return error;
  }
  stats_finish_bytes<<<1, STATS_SUM_LANES, 0, stream>>>(parts, blocks, out, constants);
  return cudaGetLastError();
}

} // namespace

extern "C" int stats_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  stats_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const auto on = static_cast<cudaStream_t>(stream);
  return plan->input.dtype == ELEMENT_FLOAT32 ? enqueue_floats(call, constants, on) : enqueue_bytes(call, constants, on);
}
