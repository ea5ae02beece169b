/*
 * motion: kernels and launcher. One pass compares and updates, four pixels a thread; for boxes it also counts
 * what changed in each cell, and five small kernels over the cells group and list them as motion_boxes.c does.
 */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/motion/motion.h"
}

namespace {

enum { PIXELS = 4, SELECT_THREADS = 1024 };

/* Adds the changed ones of `count` pixels from `first` on to their cells, one addition for each cell they touch. */
__device__ void count_changed(const uint8_t *mask, uint32_t count, uint64_t first, const motion_constants &constants,
                              motion_cell *cells) {
  uint32_t y = uint32_t(first / constants.width);
  uint32_t x = uint32_t(first % constants.width);
  uint32_t changed = 0;
  for (uint32_t i = 0; i < count; i++) {
    changed += mask[i] & 1U;
    const uint32_t cell = y / constants.cell * constants.columns + x / constants.cell;
    x++;
    if (x == constants.width) {
      x = 0;
      y++;
    }
    if (changed != 0 && (i + 1 == count || x % constants.cell == 0)) {
      atomicAdd(&cells[cell].changed, changed);
      changed = 0;
    }
  }
}

template <bool Boxes, int Pixels>
__device__ void mark(const uint8_t *in, float *background, uint8_t *out, uint64_t step, bool restart,
                     const motion_constants &constants, motion_cell *cells) {
  const auto source = reinterpret_cast<const launch_pack<uint8_t, Pixels> *>(in)[step];
  auto before = reinterpret_cast<launch_pack<float, Pixels> *>(background)[step];
  launch_pack<uint8_t, Pixels> mask;
  uint32_t any = 0;
#pragma unroll
  for (int i = 0; i < Pixels; i++) {
    mask.values[i] = motion_pixel(source.values[i], &before.values[i], restart, constants.rate, constants.threshold);
    any |= mask.values[i];
  }
  reinterpret_cast<launch_pack<float, Pixels> *>(background)[step] = before;
  if (!Boxes) {
    reinterpret_cast<launch_pack<uint8_t, Pixels> *>(out)[step] = mask;
  } else if (any != 0) {
    count_changed(mask.values, Pixels, step * Pixels, constants, cells);
  }
}

template <bool Boxes>
__global__ void motion_mark(const uint8_t *__restrict__ in, float *__restrict__ background, uint8_t *__restrict__ out,
                            uint64_t pixels, bool restart, motion_constants constants, motion_cell *__restrict__ cells) {
  for (uint64_t step = launch_first(); step < pixels / PIXELS; step += launch_stride()) {
    mark<Boxes, PIXELS>(in, background, out, step, restart, constants, cells);
  }
  const uint64_t last = pixels / PIXELS * PIXELS + launch_first();
  if (last < pixels) {
    mark<Boxes, 1>(in, background, out, last, restart, constants, cells);
  }
}

/*
 * The first cell of the tree that a cell is in, halving the way for the next search. Other threads change parents
 * meanwhile, always to a cell of the same group further to the front, so any value read or written here is on
 * the way there.
 */
__device__ uint32_t find_first(motion_cell *cells, uint32_t cell) {
  for (;;) {
    volatile uint32_t *at = &cells[cell].parent;
    const uint32_t parent = *at;
    if (parent == cell) {
      return cell;
    }
    const uint32_t next = *static_cast<volatile uint32_t *>(&cells[parent].parent);
    if (next != parent) {
      *at = next;
    }
    cell = next;
  }
}

/* Hangs the later root below the earlier one; where another thread was faster, joins with what it hung there. */
__device__ void join(motion_cell *cells, uint32_t a, uint32_t b) {
  for (;;) {
    a = find_first(cells, a);
    b = find_first(cells, b);
    if (a == b) {
      return;
    }
    const uint32_t later = a > b ? a : b;
    const uint32_t earlier = a > b ? b : a;
    const uint32_t parent = atomicMin(&cells[later].parent, earlier);
    if (parent == later) {
      return;
    }
    a = parent;
    b = earlier;
  }
}

__global__ void motion_begin_groups(motion_scratch scratch, motion_constants constants) {
  unsigned long long changed = 0;
  for (uint64_t index = launch_first(); index < scratch.count; index += launch_stride()) {
    motion_cell &cell = scratch.cells[index];
    const uint32_t column = uint32_t(index % constants.columns);
    const uint32_t row = uint32_t(index / constants.columns);
    cell.parent = motion_is_active(&constants, column, row, cell.changed) ? uint32_t(index) : MOTION_INACTIVE;
    cell.left = cell.right = column;
    cell.top = cell.bottom = row;
    changed += cell.changed;
  }
  for (uint32_t width = LAUNCH_WARP / 2; width > 0; width /= 2) {
    changed += __shfl_down_sync(launch_all_lanes, changed, width);
  }
  if (threadIdx.x % LAUNCH_WARP == 0 && changed != 0) {
    atomicAdd(&scratch.totals->changed, changed);
  }
}

__global__ void motion_join(motion_scratch scratch, motion_constants constants) {
  for (uint64_t at = launch_first(); at < scratch.count; at += launch_stride()) {
    const uint32_t index = uint32_t(at);
    const motion_neighbours neighbours = motion_neighbours_of(&constants, scratch.cells, index, index % constants.columns);
    for (uint32_t i = 0; i < neighbours.count; i++) {
      join(scratch.cells, index, neighbours.cells[i]);
    }
  }
}

/* What cells add to their group. */
struct motion_part {
  uint32_t left, right, bottom, changed;
};

__device__ motion_part merge_warp(motion_part part) {
  for (uint32_t width = LAUNCH_WARP / 2; width > 0; width /= 2) {
    part.left = min(part.left, __shfl_down_sync(launch_all_lanes, part.left, width));
    part.right = max(part.right, __shfl_down_sync(launch_all_lanes, part.right, width));
    part.bottom = max(part.bottom, __shfl_down_sync(launch_all_lanes, part.bottom, width));
    part.changed += __shfl_down_sync(launch_all_lanes, part.changed, width);
  }
  return part;
}

__device__ void add_to_group(motion_cell &group, const motion_part &part) {
  atomicMin(&group.left, part.left);
  atomicMax(&group.right, part.right);
  atomicMax(&group.bottom, part.bottom);
  atomicAdd(&group.group_changed, static_cast<unsigned long long>(part.changed));
}

/* Adds each cell to its group. A warp whose active cells are all of one group, as in large groups, adds them
 * together first; so warps stay whole, and the loop counts their first cells. */
__global__ void motion_sum_groups(motion_scratch scratch, motion_constants constants) {
  const uint32_t lane = threadIdx.x % LAUNCH_WARP;
  for (uint64_t base = launch_first() - lane; base < scratch.count; base += launch_stride()) {
    const uint32_t index = uint32_t(base) + lane;
    uint32_t group = MOTION_INACTIVE;
    motion_part part = {UINT32_MAX, 0, 0, 0};
    if (index < scratch.count && scratch.cells[index].parent != MOTION_INACTIVE) {
      const uint32_t column = index % constants.columns;
      group = find_first(scratch.cells, index);
      part = {column, column, index / constants.columns, scratch.cells[index].changed};
    }
    const unsigned active = __ballot_sync(launch_all_lanes, group != MOTION_INACTIVE);
    if (active == 0) {
      continue;
    }
    const uint32_t common = __shfl_sync(launch_all_lanes, group, __ffs(int(active)) - 1);
    if (__all_sync(launch_all_lanes, group == common || group == MOTION_INACTIVE)) {
      part = merge_warp(part);
      group = lane == 0 ? common : MOTION_INACTIVE;
    }
    if (group != MOTION_INACTIVE) {
      add_to_group(scratch.cells[group], part);
    }
  }
}

__global__ void motion_collect(motion_scratch scratch) {
  for (uint64_t at = launch_first(); at < scratch.count; at += launch_stride()) {
    if (scratch.cells[at].parent == at) {
      scratch.keys[atomicAdd(&scratch.totals->found, 1ULL)] = motion_key(scratch.cells[at].group_changed, uint32_t(at));
    }
  }
}

/* One block: lists the groups in the order of their keys, which does not depend on where a key lies. */
__global__ void __launch_bounds__(SELECT_THREADS)
    motion_select(motion_scratch scratch, motion_constants constants, float *out) {
  __shared__ unsigned long long greatest;
  const unsigned long long found = scratch.totals->found;
  unsigned long long key = ~0ULL;
  uint32_t listed = 0;
  for (uint32_t i = threadIdx.x; i < (constants.boxes + 1) * MOTION_ROW; i += SELECT_THREADS) {
    out[i] = 0;
  }
  while (listed < constants.boxes) {
    if (threadIdx.x == 0) {
      greatest = 0;
    }
    __syncthreads();
    unsigned long long mine = 0;
    for (unsigned long long i = threadIdx.x; i < found; i += SELECT_THREADS) {
      const unsigned long long candidate = scratch.keys[i];
      mine = candidate < key && candidate > mine ? candidate : mine;
    }
    if (mine != 0) {
      atomicMax(&greatest, mine);
    }
    __syncthreads();
    key = greatest;
    __syncthreads(); /* it may be written again */
    if (key == 0) {
      break;
    }
    listed++;
    if (threadIdx.x == 0) {
      motion_write_box(&constants, scratch.cells + motion_key_cell(key), out + listed * MOTION_ROW);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    motion_write_summary(&constants, scratch.totals, listed, out);
  }
}

/* The steps over the cells in order; each sees what the one before it wrote. */
cudaError_t enqueue_groups(const motion_scratch &scratch, const motion_constants &constants, float *out, cudaStream_t stream) {
  const unsigned blocks = launch_blocks(scratch.count);
  motion_begin_groups<<<blocks, LAUNCH_THREADS, 0, stream>>>(scratch, constants);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) {
    motion_join<<<blocks, LAUNCH_THREADS, 0, stream>>>(scratch, constants);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) {
    motion_sum_groups<<<blocks, LAUNCH_THREADS, 0, stream>>>(scratch, constants);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) {
    motion_collect<<<blocks, LAUNCH_THREADS, 0, stream>>>(scratch);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) {
    motion_select<<<1, SELECT_THREADS, 0, stream>>>(scratch, constants, out);
    error = cudaGetLastError();
  }
  return error;
}

cudaError_t enqueue_boxes(const stage_plan *plan, const stage_call *call, const motion_constants &constants,
                          cudaStream_t stream) {
  const motion_scratch scratch = motion_scratch_at(&constants, call->scratch);
  const cudaError_t error = cudaMemsetAsync(call->scratch, 0, motion_cleared_bytes(scratch.count), stream);
  if (error != cudaSuccess) {
    return error;
  }
  const uint64_t pixels = plan->input_bytes;
  motion_mark<true><<<launch_blocks(pixels / PIXELS + 1), LAUNCH_THREADS, 0, stream>>>(
      static_cast<const uint8_t *>(call->input), static_cast<float *>(call->state), nullptr, pixels, call->restart, constants,
      scratch.cells);
  const cudaError_t marked = cudaGetLastError();
  return marked == cudaSuccess ? enqueue_groups(scratch, constants, static_cast<float *>(call->output), stream) : marked;
}

} // namespace

extern "C" int motion_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  motion_constants constants;
  STAGE_GET_CONSTANTS(plan, &constants);
  const auto on = static_cast<cudaStream_t>(stream);
  if (constants.boxes > 0) {
    return enqueue_boxes(plan, call, constants, on);
  }
  const uint64_t pixels = plan->input_bytes;
  motion_mark<false><<<launch_blocks(pixels / PIXELS + 1), LAUNCH_THREADS, 0, on>>>(
      static_cast<const uint8_t *>(call->input), static_cast<float *>(call->state), static_cast<uint8_t *>(call->output),
      pixels, call->restart, constants, nullptr);
  return cudaGetLastError();
}
