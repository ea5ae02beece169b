/*
 * detect: kernels and launcher. Three steps, each over what the one before it left in the slot's scratch memory: candidates of
 * at least the least score are collected, each finds its rank among them, and one block takes them in that order. How many
 * there are is known only there, so blocks without work end at once.
 */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/detect/detect.h"
}

namespace {

enum {
  GROUPS = 8,         /* of classes, where candidates lie side by side: a warp's lanes are candidates */
  RANK_OWN = 256,     /* keys whose rank a block counts on, against RANK_OTHERS keys */
  RANK_OTHERS = 1024, //
  RANK_BLOCKS = 132 * 8,
  KEEP_THREADS = 1024,
  KEEP_TILE = 128, /* a power of two; candidates that are compared with each other at once */
  TILE_WORDS = int(KEEP_TILE) / 32
};

/* -- collecting --------------------------------------------------------------------------------------------------- */

/* The largest value and its class: the first one where values are equal, whichever threads are asked first. */
struct detect_best {
  float value;
  uint32_t index;
  __device__ void take(float other, uint32_t other_index) {
    if (other > value || (other == value && other_index < index)) {
      value = other;
      index = other_index;
    }
  }
};

constexpr detect_best detect_nothing = {-INFINITY, 0};

__device__ void collect(const detect_constants &constants, const float *in, uint32_t candidate, const detect_best &best,
                        const detect_scratch &scratch) {
  scratch.ranks[candidate] = 0;
  const float score = detect_score(&constants, in, candidate, best.value);
  if (score >= constants.score) {
    scratch.classes[candidate] = detect_class(&constants, in, candidate, best.index);
    scratch.keys[atomicAdd(scratch.count, 1U)] = detect_key(score, candidate);
  }
}

/* Candidates side by side: each warp reads some of the classes of 32 candidates, and the first one joins what they found. */
__global__ void detect_collect_columns(const float *__restrict__ in, detect_constants constants, detect_scratch scratch) {
  __shared__ detect_best found[GROUPS][LAUNCH_WARP];
  const uint32_t candidate = blockIdx.x * LAUNCH_WARP + threadIdx.x;
  detect_best best = detect_nothing;
  if (candidate < constants.candidates) {
#pragma unroll 5
    for (uint32_t c = threadIdx.y; c < constants.classes; c += GROUPS) {
      best.take(detect_value(&constants, in, candidate, c), c);
    }
  }
  found[threadIdx.y][threadIdx.x] = best;
  __syncthreads();
  if (threadIdx.y == 0 && candidate < constants.candidates) {
    for (int i = 1; i < GROUPS; i++) {
      best.take(found[i][threadIdx.x].value, found[i][threadIdx.x].index);
    }
    collect(constants, in, candidate, best, scratch);
  }
}

/* A candidate's values side by side: a warp reads one candidate. */
__global__ void detect_collect_rows(const float *__restrict__ in, detect_constants constants, detect_scratch scratch) {
  const uint32_t lane = threadIdx.x % LAUNCH_WARP;
  const uint32_t candidate = (blockIdx.x * blockDim.x + threadIdx.x) / LAUNCH_WARP;
  if (candidate >= constants.candidates) {
    return;
  }
  detect_best best = detect_nothing;
  for (uint32_t c = lane; c < constants.classes; c += LAUNCH_WARP) {
    best.take(detect_value(&constants, in, candidate, c), c);
  }
  for (uint32_t width = LAUNCH_WARP / 2; width > 0; width /= 2) {
    const float value = __shfl_down_sync(launch_all_lanes, best.value, width);
    best.take(value, __shfl_down_sync(launch_all_lanes, best.index, width));
  }
  if (lane == 0) {
    collect(constants, in, candidate, best, scratch);
  }
}

/* -- ranks -------------------------------------------------------------------------------------------------------- */

/* Adds to the ranks of some keys how many of some others are greater; keys are all different. */
__global__ void detect_rank(detect_scratch scratch) {
  __shared__ unsigned long long others[RANK_OTHERS];
  const uint32_t count = *scratch.count;
  const uint32_t across = (count + RANK_OTHERS - 1) / RANK_OTHERS;
  const uint64_t tiles = uint64_t((count + RANK_OWN - 1) / RANK_OWN) * across;
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const uint32_t first = uint32_t(tile % across) * RANK_OTHERS;
    const uint32_t own = uint32_t(tile / across) * RANK_OWN + threadIdx.x;
    const uint32_t rest = min(count - first, uint32_t(RANK_OTHERS));
    for (uint32_t i = threadIdx.x; i < rest; i += RANK_OWN) {
      others[i] = scratch.keys[first + i];
    }
    __syncthreads();
    if (own < count) {
      const unsigned long long key = scratch.keys[own];
      uint32_t greater = 0;
      for (uint32_t i = 0; i < rest; i++) {
        greater += others[i] > key;
      }
      atomicAdd(&scratch.ranks[own], greater);
    }
    __syncthreads();
  }
}

/* -- keeping ------------------------------------------------------------------------------------------------------ */

/* What one block shares: what is kept, and a tile of what comes next. A bit stands for a candidate of the tile. */
struct detect_shared {
  detect_box kept[DETECT_MOST];
  detect_box tile[KEEP_TILE];
  uint32_t dropped[TILE_WORDS];          /* overlap one that is kept */
  uint32_t drops[KEEP_TILE][TILE_WORDS]; /* of each one not dropped: those after it that it drops if it is kept */
  uint32_t kept_count;
};

/* Drops what overlaps something that is kept. Each thread has one candidate of the tile, a warp those of one word. */
__device__ void compare_with_kept(detect_shared &shared, uint32_t count, float iou) {
  const uint32_t at = threadIdx.x % KEEP_TILE;
  const uint32_t kept = shared.kept_count;
  bool drops = false;
  for (uint32_t i = threadIdx.x / KEEP_TILE; i < kept && at < count; i += KEEP_THREADS / KEEP_TILE) {
    drops = drops || detect_overlaps(&shared.kept[i], &shared.tile[at], iou);
  }
  const uint32_t word = __ballot_sync(launch_all_lanes, drops);
  if (threadIdx.x % LAUNCH_WARP == 0 && word != 0) {
    atomicOr(&shared.dropped[at / 32], word);
  }
}

/* Compares the rest of the tile with itself. */
__device__ void compare_tile(detect_shared &shared, uint32_t count, float iou) {
  const uint32_t at = threadIdx.x % KEEP_TILE;
  for (uint32_t before = threadIdx.x / KEEP_TILE; before < count; before += KEEP_THREADS / KEEP_TILE) {
    if ((shared.dropped[before / 32] >> before % 32 & 1U) != 0) {
      continue; /* the whole warp */
    }
    const bool drops = before < at && at < count && detect_overlaps(&shared.tile[before], &shared.tile[at], iou);
    const uint32_t word = __ballot_sync(launch_all_lanes, drops);
    if (threadIdx.x % LAUNCH_WARP == 0) {
      shared.drops[before][at / 32] = word;
    }
  }
}

/* One thread: keeps the first that is not dropped, with what it drops, until none is left. */
__device__ void keep_tile(detect_shared &shared, uint32_t count, uint32_t most) {
  uint32_t kept = shared.kept_count;
  for (uint32_t word = 0; word < TILE_WORDS && word * 32 < count; word++) {
    const uint32_t present = count - word * 32 < 32 ? (1U << (count - word * 32)) - 1 : ~0U;
    uint32_t left = present & ~shared.dropped[word];
    while (left != 0 && kept < most) {
      const uint32_t at = word * 32 + uint32_t(__ffs(int(left))) - 1;
      shared.kept[kept++] = shared.tile[at];
      for (uint32_t i = word; i < TILE_WORDS; i++) {
        shared.dropped[i] |= shared.drops[at][i];
      }
      left &= left - 1;
      left &= ~shared.dropped[word];
    }
  }
  shared.kept_count = kept;
}

__global__ void __launch_bounds__(KEEP_THREADS)
    detect_keep(const float *__restrict__ in, detect_constants constants, detect_scratch scratch, float *__restrict__ out) {
  __shared__ detect_shared shared;
  const uint32_t count = *scratch.count;
  const uint32_t sorted = min(count, uint32_t(DETECT_SORTED));
  for (uint32_t i = threadIdx.x; i < count; i += KEEP_THREADS) {
    const uint32_t rank = scratch.ranks[i];
    if (rank < DETECT_SORTED) {
      scratch.sorted[rank] = scratch.keys[i];
    }
  }
  if (threadIdx.x == 0) {
    shared.kept_count = 0;
  }
  __syncthreads();
  for (uint32_t first = 0; first < sorted && shared.kept_count < constants.most; first += KEEP_TILE) {
    const uint32_t present = min(sorted - first, uint32_t(KEEP_TILE));
    if (threadIdx.x < TILE_WORDS) {
      shared.dropped[threadIdx.x] = 0;
    }
    if (threadIdx.x < present) {
      shared.tile[threadIdx.x] = detect_box_of(&constants, in, scratch.sorted[first + threadIdx.x], scratch.classes);
    }
    __syncthreads();
    compare_with_kept(shared, present, constants.iou);
    __syncthreads();
    compare_tile(shared, present, constants.iou);
    __syncthreads();
    if (threadIdx.x == 0) {
      keep_tile(shared, present, constants.most);
    }
    __syncthreads();
  }
  for (uint32_t i = threadIdx.x; i < constants.most; i += KEEP_THREADS) {
    float row[DETECT_ROW] = {0, 0, 0, 0, 0, 0};
    if (i < shared.kept_count) {
      detect_write(&constants, &shared.kept[i], row);
    }
    for (int field = 0; field < DETECT_ROW; field++) {
      out[i * DETECT_ROW + field] = row[field];
    }
  }
}

cudaError_t enqueue_collect(const float *in, const detect_constants &constants, const detect_scratch &scratch,
                            cudaStream_t stream) {
  const uint32_t warps = LAUNCH_THREADS / LAUNCH_WARP;
  if (constants.value.candidate == 1) {
    const unsigned blocks = (constants.candidates + LAUNCH_WARP - 1) / LAUNCH_WARP;
    detect_collect_columns<<<blocks, dim3(LAUNCH_WARP, GROUPS), 0, stream>>>(in, constants, scratch);
  } else {
    const unsigned blocks = (constants.candidates + warps - 1) / warps;
    detect_collect_rows<<<blocks, LAUNCH_THREADS, 0, stream>>>(in, constants, scratch);
  }
  return cudaGetLastError();
}

} // namespace

extern "C" int detect_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  detect_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const detect_scratch scratch = detect_scratch_at(&constants, call->scratch);
  const auto on = static_cast<cudaStream_t>(stream);
  const auto *in = static_cast<const float *>(call->input);
  cudaError_t error = cudaMemsetAsync(scratch.count, 0, sizeof *scratch.count, on);
  if (error == cudaSuccess) {
    error = enqueue_collect(in, constants, scratch, on);
  }
  if (error == cudaSuccess) {
    detect_rank<<<RANK_BLOCKS, RANK_OWN, 0, on>>>(scratch);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) {
    detect_keep<<<1, KEEP_THREADS, 0, on>>>(in, constants, scratch, static_cast<float *>(call->output));
    error = cudaGetLastError();
  }
  return error;
}
