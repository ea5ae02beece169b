/*
 * draw: kernels and launcher. The picture is copied; boxes are made items, a thread each; then each block takes a tile of the
 * picture, finds the items that touch it, and gives each pixel the first of them that covers it.
 */
#include "gpu/stages/launch.cuh"

extern "C" {
#include "gpu/stages/draw/draw.h"
}

namespace {

enum { TILE_WIDTH = 64, TILE_HEIGHT = 16, TILE_ROWS = 4 /* that a block draws at once */, WORDS = (DRAW_MOST + 31) / 32 };

__global__ void draw_items(const float *__restrict__ in, draw_item *__restrict__ items, draw_constants constants,
                           draw_letters letters) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < constants.boxes) {
    items[i] = draw_item_of(&constants, &letters, in + i * DRAW_ROW);
  }
}

__device__ bool meet(const draw_rectangle &a, const draw_rectangle &b) {
  return a.left < a.right && a.top < a.bottom && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

/* Whether the tile is all within the outline, where nothing is drawn. */
__device__ bool is_inside(const draw_rectangle &tile, const draw_rectangle &box, uint32_t thickness) {
  return tile.left >= box.left + thickness && tile.right + thickness <= box.right && tile.top >= box.top + thickness &&
         tile.bottom + thickness <= box.bottom;
}

__global__ void draw_tiles(const draw_item *__restrict__ items, uint8_t *__restrict__ picture, draw_constants constants,
                           draw_letters letters) {
  __shared__ uint32_t touching[WORDS]; /* a bit an item */
  const uint32_t thread = threadIdx.y * TILE_WIDTH + threadIdx.x;
  const uint32_t words = (constants.boxes + 31) / 32;
  draw_rectangle tile;
  tile.left = blockIdx.x * TILE_WIDTH;
  tile.top = blockIdx.y * TILE_HEIGHT;
  tile.right = tile.left + TILE_WIDTH;
  tile.bottom = tile.top + TILE_HEIGHT;
  if (thread < WORDS) {
    touching[thread] = 0;
  }
  __syncthreads();
  bool any = false;
  for (uint32_t i = thread; i < constants.boxes; i += TILE_WIDTH * TILE_ROWS) {
    const draw_rectangle box = items[i].box;
    if (meet(items[i].label, tile) || (meet(box, tile) && !is_inside(tile, box, constants.thickness))) {
      atomicOr(&touching[i / 32], 1U << i % 32);
      any = true;
    }
  }
  if (__syncthreads_or(any) == 0) {
    return;
  }
  const uint32_t x = tile.left + threadIdx.x;
  for (uint32_t y = tile.top + threadIdx.y; x < constants.width && y < tile.bottom && y < constants.height; y += TILE_ROWS) {
    uint32_t colour = DRAW_NOTHING;
    for (uint32_t word = 0; word < words && colour == DRAW_NOTHING; word++) {
      for (uint32_t left = touching[word]; left != 0 && colour == DRAW_NOTHING; left &= left - 1) {
        colour = draw_at(&constants, &letters, &items[word * 32 + uint32_t(__ffs(int(left))) - 1], x, y);
      }
    }
    if (colour != DRAW_NOTHING) {
      draw_put(&constants, picture, x, y, colour);
    }
  }
}

} // namespace

extern "C" int draw_enqueue(const stage_plan *plan, const stage_call *call, void *stream) {
  draw_constants constants;
  draw_letters letters;
  STAGE_GET_CONSTANTS(plan, &constants);
  draw_letters_fill(plan, &letters);
  const auto on = static_cast<cudaStream_t>(stream);
  auto *items = static_cast<draw_item *>(call->scratch);
  cudaError_t error = cudaMemcpyAsync(call->output, call->source, plan->output_bytes, cudaMemcpyDeviceToDevice, on);
  if (error == cudaSuccess) {
    draw_items<<<launch_blocks(constants.boxes), LAUNCH_THREADS, 0, on>>>(static_cast<const float *>(call->input), items,
                                                                          constants, letters);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) {
    const dim3 tiles((constants.width + TILE_WIDTH - 1) / TILE_WIDTH, (constants.height + TILE_HEIGHT - 1) / TILE_HEIGHT);
    draw_tiles<<<tiles, dim3(TILE_WIDTH, TILE_ROWS), 0, on>>>(items, static_cast<uint8_t *>(call->output), constants, letters);
    error = cudaGetLastError();
  }
  return error;
}
